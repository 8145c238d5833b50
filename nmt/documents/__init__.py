"""Documents of many kinds: their text is translated, their layout stays."""

from pathlib import Path
from typing import TypeVar

from nmt.base.errors import UserError
from nmt.documents.document import DocumentFile, kind_of

_ENDINGS = (
    "docx pptx xlsx odt ods odp idml html htm xhtml md markdown srt vtt xlf xliff po pot json"
)

_ADVICE = {
    "pdf": "it has no paragraphs to keep; open it in a word processor and save it as docx or odt",
    "doc docm rtf": "save it as docx or odt",
    "xls xlsm xlsb numbers": "save it as xlsx or ods",
    "csv": "save it as xlsx, ods or tsv, or read it line by line with format=text",
    "ppt pps key": "save it as pptx or odp",
    "indd": "export it as idml",
    "epub zip gz 7z rar": "unpack it and translate its files",
    "png jpg jpeg gif webp tif tiff": "it is a picture, not text",
    "mp3 mp4 wav mkv mov": "write its subtitles as srt first",
    "tmx": "it is a translation memory; export the text to translate as xliff",
}


Value = TypeVar("Value")


def _of_kind(path: Path, values: dict[str, Value]) -> Value | None:
    """Return the value for the ending of a file."""
    kind = kind_of(path)
    return next((value for kinds, value in values.items() if kind in kinds.split()), None)


def is_document(path: Path) -> bool:
    """Return whether a file is a document by its ending, not lines of text.

    Raises:
        UserError: documents of this kind cannot be translated.
    """
    if advice := _of_kind(path, _ADVICE):
        raise UserError(f"{path}: {path.suffix} files cannot be translated: {advice}")
    return kind_of(path) in _ENDINGS.split()


def open_document(path: Path, source: str, target: str) -> DocumentFile:
    """Read a document; `source` and `target` are the codes of the languages.

    Raises:
        UserError: the file is not what its ending says.
    """
    # Here, because lines of text need no parsers.
    from nmt.documents.catalogues import Po, Xliff  # noqa: PLC0415
    from nmt.documents.html import Html  # noqa: PLC0415
    from nmt.documents.json_strings import Json  # noqa: PLC0415
    from nmt.documents.markdown import Markdown  # noqa: PLC0415
    from nmt.documents.office import Archive  # noqa: PLC0415
    from nmt.documents.subtitles import Subtitles  # noqa: PLC0415

    kinds: dict[str, type[DocumentFile]] = {
        "html htm xhtml": Html,
        "md markdown": Markdown,
        "srt vtt": Subtitles,
        "xlf xliff": Xliff,
        "po pot": Po,
        "json": Json,
    }
    return (_of_kind(path, kinds) or Archive)(path, source, target)
