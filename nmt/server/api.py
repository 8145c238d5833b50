"""The API of LibreTranslate, after its documentation."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from nmt.config.serving import ServingLimits
from nmt.server.access import Access
from nmt.server.documents import translated_document
from nmt.server.errors import CLIENT_LEFT, ApiError
from nmt.server.inputs import DetectInput, Direction, Kind, TranslateInput, read_input
from nmt.server.languages import Models, ServedModel, detected
from nmt.server.worker import Options
from nmt.translation.request import Request as Text

Handler = Callable[[Request], Awaitable[Any]]
Result = TypeVar("Result")

_logger = logging.getLogger("nmt")


class Api:
    """Handlers of the API.

    Args:
        models: the models that are served.
        limits: what the server accepts.
        access: who may use it.
    """

    def __init__(self, models: Models, limits: ServingLimits, access: Access) -> None:
        self._models = models
        self._limits = limits
        self._access = access

    def add_to(self, app: FastAPI) -> None:
        """Add the routes; all accept GET and POST, because clients use both."""
        handlers: dict[str, Handler] = {
            "/translate": self.translate,
            "/languages": self.languages,
            "/detect": self.detect,
            "/health": self.health,
            "/frontend/settings": self.settings,
        }
        for path, handler in handlers.items():
            for method in ("GET", "POST"):
                app.add_api_route(path, handler, methods=[method], response_model=None)

    async def translate(self, request: Request) -> dict[str, Any]:
        """Translate a text, or a list of texts."""
        given = await self._read(request, TranslateInput)
        texts = [given.q] if isinstance(given.q, str) else given.q
        self._check_size(texts)
        chosen = [self.choose(given, text) for text in texts]
        tasks = [
            self._translated(text, model, given)
            for text, (model, _) in zip(texts, chosen, strict=True)
        ]
        found = await self._unless_left(request, _gathered(tasks))
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
        given = await self._read(request, DetectInput)
        self._check_size([given.q])
        return JSONResponse(detected(given.q))

    async def languages(self, _request: Request) -> JSONResponse:
        """List the languages, and the targets of each."""
        return JSONResponse(self._models.languages())

    async def health(self, _request: Request) -> dict[str, str]:
        """Report that the server works."""
        return {"status": "ok"}

    async def settings(self, _request: Request) -> dict[str, Any]:
        """Describe the server for its page and for other clients."""
        first = self._models.all[0]
        languages = {one["code"]: one for one in self._models.languages()}
        return {
            "apiKeys": self._access.needs_key,
            "keyRequired": self._access.needs_key,
            "charLimit": self._limits.max_characters,
            "suggestions": False,
            "language": {
                "source": languages[first.source],
                "target": languages[first.target],
            },
            "models": [
                {"name": one.name, "source": one.source, "target": one.target}
                for one in self._models.all
            ],
        }

    def choose(self, given: Direction, text: str) -> tuple[ServedModel, float]:
        """Return the model for a text, and the confidence of its language in percent."""
        if given.source == "auto":
            return self._models.detect(text, given.target, given.model)
        return self._models.choose(given.source, given.target, given.model), 100.0

    async def _translated(self, text: str, model: ServedModel, given: TranslateInput) -> list[str]:
        """Return the best translation and the alternatives that are wanted."""
        if given.format == "html":
            data = text.encode()
            return [(await translated_document("text.html", data, model, len(data))).decode()]
        options = Options(has_alternatives=given.alternatives > 0)
        [found] = await model.worker.translate([Text(text)], options)
        return [one.text for one in found[: 1 + given.alternatives]]

    async def _read(self, request: Request, kind: type[Kind]) -> Kind:
        """Read and check the parameters of a request."""
        given = await read_input(request, kind)
        self._access.check(given.api_key, request.client.host if request.client else "")
        if self._limits.log_texts:
            _logger.info("%s %s", request.url.path, given.model_dump(exclude={"api_key"}))
        return given

    def _check_size(self, texts: list[str]) -> None:
        if len(texts) > self._limits.max_texts:
            raise ApiError(
                413, f"q has {len(texts):,} texts; the limit is {self._limits.max_texts:,}"
            )
        if (size := sum(map(len, texts))) > self._limits.max_characters:
            raise ApiError(
                413, f"q has {size:,} characters; the limit is {self._limits.max_characters:,}"
            )

    async def _unless_left(self, request: Request, work: Coroutine[Any, Any, Result]) -> Result:
        """Await a result; if the client leaves before, cancel what has not begun."""
        task = asyncio.ensure_future(work)
        left = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait((task, left), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ApiError(CLIENT_LEFT, "the client has left")
            return task.result()
        finally:
            task.cancel()
            left.cancel()


async def _left(request: Request) -> None:
    """Return when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _gathered(tasks: list[Coroutine[Any, Any, Result]]) -> list[Result]:
    async with asyncio.TaskGroup() as group:
        started = [group.create_task(task) for task in tasks]
    return [one.result() for one in started]
