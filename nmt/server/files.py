"""Documents: uploaded, translated, downloaded."""

import secrets
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import WithJsonSchema
from starlette.datastructures import UploadFile

from nmt.server.documents import translated_document
from nmt.server.errors import ApiError
from nmt.server.gate import Gate, unless_left
from nmt.server.inputs import Direction, Input
from nmt.server.routes import add_routes
from nmt.translation.formats import output_name

_MAX_KEPT = 5
"""Size of the translated documents that are kept, as a multiple of the largest size of one."""
_MAX_SHOWN = 1_000
"""Largest number of documents whose progress is kept."""


class FileInput(Direction):
    """Parameters of `/translate_file`."""

    file: Annotated[Any, WithJsonSchema({"type": "string", "format": "binary"})]
    """Document to translate, with the ending of its kind in its name."""
    progress: str = ""
    """Text of the client by which it can ask for the progress."""


class ProgressInput(Input):
    """Parameters of `/page/progress`."""

    progress: str
    """The text that was sent with the document."""


class Files:
    """Handlers of documents; their translations are kept in memory until others need the space."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._max_bytes = 1_000_000 * gate.limits.max_file_megabytes
        self._kept: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._progress: OrderedDict[str, float] = OrderedDict()

    def add_to(self, app: FastAPI) -> None:
        """Add the routes."""
        add_routes(app, "/translate_file", self.translate_file, FileInput, ("POST",))
        add_routes(app, "/page/progress", self.progress, ProgressInput, is_public=False)
        app.add_api_route(
            "/download_file/{token}/{name}", self.download_file, include_in_schema=False
        )

    async def translate_file(self, request: Request) -> dict[str, str]:
        """Translate a document with its layout; the answer has the address of the result."""
        given = await self._gate.read(request, FileInput)
        if not isinstance(given.file, UploadFile):
            raise ApiError(400, "file: is no file; send it as multipart/form-data")
        name, data = given.file.filename or "", await given.file.read()
        # A document is too long for a detection of its language beside its markup.
        source = given.source if given.source != "auto" else self._only_source(given)
        model = self._gate.models.choose(source, given.target, given.model)
        progress = partial(self._show, given.progress)
        work = translated_document(name, data, model, self._max_bytes, given.options, progress)
        result = await unless_left(request, work)
        path = output_name(Path(name), model.source, model.target, Path(name).suffix)
        token = self._keep(path.name, result)
        return {"translatedFileUrl": f"{request.base_url}download_file/{token}/{quote(path.name)}"}

    async def download_file(self, token: str, name: str) -> Response:
        """Return a translated document."""
        if self._kept.get(token, ("",))[0] != name:
            raise ApiError(404, "this document is not kept any more; translate it again")
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
        # Not the type of the document: a page must not run in the name of this server.
        return Response(self._kept[token][1], 200, headers, "application/octet-stream")

    async def progress(self, request: Request) -> dict[str, float]:
        """Return which part of a document is translated, from 0 to 1."""
        given = await self._gate.read(request, ProgressInput)
        return {"progress": self._progress.get(given.progress, 0.0)}

    def _only_source(self, given: Direction) -> str:
        sources = {one.source for one in self._gate.models.into(given.target, given.model)}
        if len(sources) > 1:
            raise ApiError(400, f"source=auto: name one of {', '.join(sorted(sources))}")
        return sources.pop()

    def _show(self, name: str, progress: float) -> None:
        if name:
            self._progress[name] = progress
            if len(self._progress) > _MAX_SHOWN:
                self._progress.popitem(last=False)

    def _keep(self, name: str, data: bytes) -> str:
        token = secrets.token_urlsafe(16)
        self._kept[token] = (name, data)
        while sum(len(one) for _, one in self._kept.values()) > _MAX_KEPT * self._max_bytes:
            self._kept.popitem(last=False)
        return token
