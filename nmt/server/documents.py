"""Translation of documents that clients send."""

import asyncio
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

from nmt.base.errors import UserError
from nmt.base.files import is_plain_name
from nmt.base.progress import Advance
from nmt.documents import is_document, open_document
from nmt.documents.document import DocumentFile
from nmt.documents.translate import texts_of, with_translations
from nmt.server.errors import ApiError
from nmt.server.languages import ServedModel
from nmt.server.worker import Options
from nmt.translation.request import Request

_MAX_EXPANSION = 20
"""Largest size of the files in an archive, as a multiple of the largest size of an archive."""


async def translated_document(
    name: str,
    data: bytes,
    model: ServedModel,
    max_bytes: int,
    options: Options,
    progress: Advance | None = None,
) -> bytes:
    """Translate a document.

    Args:
        name: name of the file, whose ending is its kind.
        data: its contents.
        model: the model.
        max_bytes: the largest size of a document.
        options: what is asked of the translation.
        progress: called with the part that is translated, from 0 to 1.

    Raises:
        ApiError: the document is invalid, or too many requests wait.
    """
    if not is_plain_name(name):
        raise ApiError(400, "file: its name is empty, hidden or has a slash; rename it")
    with tempfile.TemporaryDirectory() as folder:
        try:
            document = await asyncio.to_thread(_opened, Path(folder, name), data, model, max_bytes)
            requests = [Request(text) for text in texts_of(document)]
            detailed = replace(options, has_details=True)
            found = await model.worker.translate(requests, detailed, progress)
            return await asyncio.to_thread(with_translations, document, found)
        except (UserError, OSError, zipfile.BadZipFile) as error:
            if isinstance(error, ApiError):
                raise
            raise ApiError(400, str(error).replace(f"{folder}/", "")) from None


def _opened(path: Path, data: bytes, model: ServedModel, max_bytes: int) -> DocumentFile:
    if not is_document(path):
        raise ApiError(400, f"{path.name} is no document of a kind that can be translated")
    path.write_bytes(data)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > _MAX_EXPANSION * max_bytes:
            raise ApiError(413, f"{path.name} has {size:,} bytes when unpacked; divide it")
    return open_document(path, model.source, model.target)
