"""The application: routes of the API and of the page."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles

from nmt.base.errors import UserError
from nmt.config.serving import ServingLimits
from nmt.server.access import Access, read_digests
from nmt.server.api import Api
from nmt.server.errors import CLIENT_LEFT, error_response
from nmt.server.files import Files
from nmt.server.gate import Gate
from nmt.server.languages import Models, ServedModel, detected
from nmt.server.metrics import Metrics
from nmt.server.middleware import Surroundings
from nmt.server.page_api import PageApi

_PAGE = Path(__file__).with_name("page")
_MAX_BYTES_PER_CHARACTER = 12  # in JSON that escapes it
_OTHER_BYTES = 65_536  # of parameters and of the frame of a form
_FILE_PATH = "/translate_file"


def make_app(models: Sequence[ServedModel], limits: ServingLimits) -> FastAPI:
    """Make the application that serves models.

    Raises:
        UserError: the file of API keys is invalid.
    """
    digests = read_digests(Path(limits.api_keys)) if limits.api_keys else []

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(detected, "text")  # loads the model that identifies languages
        yield
        for one in models:
            one.worker.stop()

    app = FastAPI(
        title="nmt",
        description="Translates with trained models; the API is that of LibreTranslate.",
        lifespan=lifespan,
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
    )
    for kind in (UserError, HTTPException, ClientDisconnect):
        app.add_exception_handler(kind, _error)
    gate = Gate(Models(models), limits, Access(digests, limits.max_rate))
    Api(gate).add_to(app)
    Files(gate).add_to(app)
    PageApi(gate).add_to(app)
    paths = {getattr(route, "path", "") for route in app.routes}
    metrics = Metrics(models, paths)
    app.add_route("/metrics", metrics.show, include_in_schema=False)
    app.mount("/", StaticFiles(directory=_PAGE, html=True))
    if limits.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=limits.cors.split(),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
        )
    text_bytes = _MAX_BYTES_PER_CHARACTER * limits.max_characters + _OTHER_BYTES
    file_bytes = 1_000_000 * limits.max_file_megabytes + _OTHER_BYTES
    app.add_middleware(
        Surroundings,
        max_bytes=lambda path: file_bytes if path == _FILE_PATH else text_bytes,
        observe=metrics.count_request,
    )
    return app


async def _error(request: Request, error: Exception) -> JSONResponse:
    status = CLIENT_LEFT if isinstance(error, ClientDisconnect) else 400
    response = error_response(
        getattr(error, "status_code", status),
        getattr(error, "detail", str(error)),
        getattr(error, "retry_after", 0),
    )
    if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # A path has a route for each method, and the error names only that of the first.
        routes = [one for one in request.app.routes if getattr(one, "path", "") == request.url.path]
        response.headers["allow"] = ", ".join(method for one in routes for method in one.methods)
    return response
