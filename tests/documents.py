"""Translation of documents by a function."""

from collections.abc import Callable
from pathlib import Path

from nmt.documents import open_document
from nmt.documents.pieces import placed, text_of


def translated(
    path: Path, translate: Callable[[str], str], is_rewritten: bool = True, target: str = "de"
) -> bytes:
    """Translate a document, linking each word to the word at its place."""
    document = open_document(path, "en", target)
    results = []
    for unit in document.units:
        text = text_of(unit)
        links = [(index, index) for index in range(len(text.split()))]
        results.append(placed(unit, translate(text), links) if is_rewritten else unit)
    return document.translated(results)
