"""Translation of a document."""

from nmt.documents.document import DocumentFile
from nmt.documents.pieces import placed, text_of
from nmt.translation.pipeline import Pipeline, Progress
from nmt.translation.request import Request, Translation


def translate_document(
    document: DocumentFile, pipeline: Pipeline, progress: Progress | None = None
) -> tuple[bytes, list[list[Translation]]]:
    """Translate the text of a document, and put its formats back by alignment.

    A unit whose translation equals its text keeps its formats exactly.

    Returns:
        The translated file, and the translations of its units, for their notes.
    """
    units = document.units
    texts = [text_of(unit) for unit in units]
    found = pipeline.translate([Request(text) for text in texts], progress)
    translated = [
        unit if best.text == text else placed(unit, best.text, best.alignment)
        for unit, text, (best, *_) in zip(units, texts, found, strict=True)
    ]
    return document.translated(translated), found
