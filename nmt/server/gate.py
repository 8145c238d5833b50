"""What all handlers do with a request: read it, check it, choose its model, await its result."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from fastapi import Request

from nmt.config.serving import ServingLimits
from nmt.server.access import Access
from nmt.server.errors import CLIENT_LEFT, ApiError
from nmt.server.inputs import Direction, Kind, read_input
from nmt.server.languages import Models, ServedModel

Result = TypeVar("Result")

_logger = logging.getLogger("nmt")


class Gate:
    """Reads and checks requests.

    Args:
        models: the models that are served.
        limits: what the server accepts.
        access: who may use it.
    """

    def __init__(self, models: Models, limits: ServingLimits, access: Access) -> None:
        self.models = models
        self.limits = limits
        self.access = access

    async def read(self, request: Request, kind: type[Kind]) -> Kind:
        """Read the parameters of a request, and check that its client may send it."""
        given = await read_input(request, kind)
        self.access.check(given.api_key, request.client.host if request.client else "")
        if self.limits.log_texts:
            _logger.info("%s %s", request.url.path, given.model_dump(exclude={"api_key"}))
        return given

    def check_size(self, texts: Sequence[str]) -> None:
        """Raise ApiError if a request has too many texts or characters."""
        for name, count, limit in (
            ("texts", len(texts), self.limits.max_texts),
            ("characters", sum(map(len, texts)), self.limits.max_characters),
        ):
            if count > limit:
                raise ApiError(413, f"q has {count:,} {name}; the limit is {limit:,}")

    def choose(self, given: Direction, texts: Sequence[str]) -> list[tuple[ServedModel, float]]:
        """Return the model for each text, and the confidence of its language in percent.

        Raises:
            ApiError: there is no model, or the texts are too large.
        """
        self.check_size(texts)
        if given.source == "auto":
            return [self.models.detect(one, given.target, given.model) for one in texts]
        return [(self.models.choose(given.source, given.target, given.model), 100.0)] * len(texts)


async def unless_left(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
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
