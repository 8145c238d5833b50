"""The API of LibreTranslate, after its documentation."""

from dataclasses import replace
from itertools import groupby
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from nmt.server.documents import translated_document
from nmt.server.gate import Gate, unless_left
from nmt.server.inputs import DetectInput, TranslateInput
from nmt.server.languages import ServedModel, detected
from nmt.server.routes import add_routes
from nmt.translation.request import Request as Text


class Api:
    """Handlers of the API."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def add_to(self, app: FastAPI) -> None:
        """Add the routes; all accept GET and POST, because clients use both."""
        add_routes(app, "/translate", self.translate, TranslateInput)
        add_routes(app, "/detect", self.detect, DetectInput)
        add_routes(app, "/languages", self.languages)
        add_routes(app, "/frontend/settings", self.settings)
        add_routes(app, "/health", self.health)

    async def translate(self, request: Request) -> dict[str, Any]:
        """Translate a text, or a list of texts."""
        given = await self._gate.read(request, TranslateInput)
        texts = [given.q] if isinstance(given.q, str) else given.q
        chosen = self._gate.choose(given, texts)
        found = await unless_left(request, self._translated(texts, chosen, given))
        columns: dict[str, list[Any]] = {"translatedText": [best for best, *_ in found]}
        if given.source == "auto":
            columns["detectedLanguage"] = [
                {"language": model.source, "confidence": confidence} for model, confidence in chosen
            ]
        if given.alternatives:
            columns["alternatives"] = [others for _, *others in found]
        is_one = isinstance(given.q, str)
        return {name: column[0] if is_one else column for name, column in columns.items()}

    async def detect(self, request: Request) -> JSONResponse:
        """Detect the language of a text."""
        given = await self._gate.read(request, DetectInput)
        self._gate.check_size([given.q])
        return JSONResponse(detected(given.q))

    async def languages(self, _request: Request) -> JSONResponse:
        """List the languages, and the targets of each."""
        return JSONResponse(self._gate.models.languages())

    async def health(self, _request: Request) -> dict[str, str]:
        """Report that the server works."""
        return {"status": "ok"}

    async def settings(self, _request: Request) -> dict[str, Any]:
        """Describe the server for its page and for other clients."""
        first = self._gate.models.all[0]
        languages = {one["code"]: one for one in self._gate.models.languages()}
        return {
            "apiKeys": self._gate.access.needs_key,
            "keyRequired": self._gate.access.needs_key,
            "charLimit": self._gate.limits.max_characters,
            "suggestions": False,
            "language": {"source": languages[first.source], "target": languages[first.target]},
            "models": [
                {"name": one.name, "source": one.source, "target": one.target}
                for one in self._gate.models.all
            ],
        }

    async def _translated(
        self, texts: list[str], chosen: list[tuple[ServedModel, float]], given: TranslateInput
    ) -> list[list[str]]:
        """Return the best translation of each text, and the alternatives that are wanted."""
        found: list[list[str]] = []
        options = replace(given.options, has_alternatives=given.alternatives > 0)
        pairs = zip(texts, (model for model, _ in chosen), strict=True)
        for model, some in groupby(pairs, key=lambda pair: pair[1]):
            if given.format == "html":
                for text, _ in some:
                    data = text.encode()
                    work = translated_document("text.html", data, model, len(data), given.options)
                    found.append([(await work).decode()])
            else:
                results = await model.worker.translate([Text(one) for one, _ in some], options)
                found += [[one.text for one in best] for best in results]
        return [best[: 1 + given.alternatives] for best in found]
