"""Translation of a document."""

from collections.abc import Sequence

from nmt.base.progress import Advance
from nmt.documents.document import DocumentFile
from nmt.documents.pieces import placed, text_of
from nmt.translation.pipeline import Pipeline
from nmt.translation.request import Request, Translation


def translate_document(
    document: DocumentFile, pipeline: Pipeline, progress: Advance | None = None
) -> tuple[bytes, list[list[Translation]]]:
    """Translate the text of a document, and put its formats back by alignment.

    Returns:
        The translated file, and the translations of its units, for their notes.
    """
    found = pipeline.translate(list(map(Request, texts_of(document))), progress)
    return with_translations(document, found), found


def texts_of(document: DocumentFile) -> list[str]:
    """Return the text of each unit of a document."""
    return [text_of(unit) for unit in document.units]


def with_translations(document: DocumentFile, found: Sequence[Sequence[Translation]]) -> bytes:
    """Return a document with the best translation of each unit.

    A unit whose translation equals its text keeps its formats exactly.
    """
    translated = []
    for unit, (best, *_) in zip(document.units, found, strict=True):
        is_same = best.text == text_of(unit)
        translated.append(unit if is_same else placed(unit, best.text, best.alignment))
    return document.translated(translated)
