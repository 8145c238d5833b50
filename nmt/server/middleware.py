"""What surrounds every request: limits of its body, headers of the response, log, metrics."""

import asyncio
import logging
import time
from collections.abc import Callable, MutableMapping
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.server.errors import CLIENT_LEFT, ApiError, error_response

_MAX_PAUSE = 20.0
"""Seconds without data after which a request body is given up."""

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}

_logger = logging.getLogger("nmt")

Observe = Callable[[str, int, float], None]


class Surroundings:
    """ASGI middleware.

    Args:
        app: the application.
        max_bytes: returns the largest size of a body for a path.
        observe: called with path, status and seconds of each request.
    """

    def __init__(self, app: ASGIApp, max_bytes: Callable[[str], int], observe: Observe) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.monotonic(), 0

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            limit = self._max_bytes(scope["path"])
            await self._app(scope, _limited(receive, limit), send_with_headers)
        except Exception as error:
            if status:
                raise
            _logger.error("unexpected error", exc_info=error)
            message = "internal error; the log of the server has the reason"
            await error_response(500, message)(scope, receive, send_with_headers)
        finally:
            given = (scope["path"], status or CLIENT_LEFT, time.monotonic() - started)
            _logger.info("%s %s %d %.3f s", scope["method"], *given)
            self._observe(*given)


def _limited(receive: Receive, max_bytes: int) -> Receive:
    """Return a function that raises ApiError if a body is too large, or stops arriving."""
    size = 0
    is_complete = False

    async def receive_limited() -> Message:
        nonlocal size, is_complete
        try:
            async with asyncio.timeout(None if is_complete else _MAX_PAUSE):
                message = await receive()
        except TimeoutError:
            raise ApiError(408, f"no data for {_MAX_PAUSE:.0f} seconds") from None
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            is_complete = not message.get("more_body", False)
        if size > max_bytes:
            raise ApiError(413, f"the request has more than {max_bytes:,} bytes; send less at once")
        return message

    return receive_limited
