"""Files that are archives of XML: Word, PowerPoint, Excel, OpenDocument, InDesign (IDML)."""

import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lxml import etree

from nmt.documents.document import DocumentFile, kind_of
from nmt.documents.pieces import Unit, text_of
from nmt.documents.words import has_words
from nmt.documents.xml_text import Element, XmlFormat, parse_xml, to_xml

_MAX_PART = 1 << 28  # bytes of one XML file in an archive
_MAX_CELL = 32_767  # characters of a cell that Excel reads; a longer translation is left out


@dataclass(frozen=True)
class _Kind:
    """Where text is: files of the archive, tags of paragraphs, and what is in them."""

    files: re.Pattern[str]
    paragraphs: tuple[str, ...]
    form: XmlFormat


_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_OFFICE, _TABLE, _TEXT = (
    f"{{urn:oasis:names:tc:opendocument:xmlns:{name}:1.0}}" for name in ("office", "table", "text")
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DRAWING = XmlFormat(
    _names("r"),
    leaf="t",
    properties=_names("pPr rPr endParaRPr"),
    blanks={"br": "\n", "tab": " "},
)

_KINDS = {
    "docx": _Kind(
        re.compile(
            r"word/(?:(?:document|header\d*|footer\d*|footnotes|endnotes|comments)"
            r"|(?:diagrams|charts)/[^/]+)\.xml"
        ),
        (f"{_W}p", f"{_A}p"),
        XmlFormat(
            _names("r hyperlink ins moveTo smartTag customXml dir bdo sdt sdtContent"),
            leaf="t",
            properties=_names("pPr rPr sdtPr sdtEndPr endParaRPr smartTagPr customXmlPr"),
            blanks={"br": "\n", "cr": "\n", "tab": " "},
            dropped=_names("proofErr lastRenderedPageBreak"),
        ),
    ),
    "pptx": _Kind(
        re.compile(r"ppt/(?:slides|notesSlides|diagrams|charts|comments)/[^/]+\.xml"),
        (f"{_A}p",),
        _DRAWING,
    ),
    "xlsx": _Kind(
        re.compile(
            r"xl/(?:sharedStrings|(?:comments/)?comments?\d*"
            r"|(?:worksheets/sheet|drawings/drawing|charts/chart)\d+)\.xml"
        ),
        (f"{_S}si", f"{_S}is", f"{_S}text", f"{_A}p"),
        _DRAWING,
    ),
    "odt": _Kind(
        re.compile(r"(?:content|styles)\.xml"),
        (f"{_TEXT}p", f"{_TEXT}h"),
        XmlFormat(
            _names("span a ruby-base meta"),
            blanks={"s": " ", "tab": " ", "line-break": "\n"},
            dropped=_names("soft-page-break"),
        ),
    ),
    "idml": _Kind(
        re.compile(r"Stories/[^/]+\.xml"),
        ("ParagraphStyleRange",),
        XmlFormat(
            _names("CharacterStyleRange HyperlinkTextSource XMLElement"),
            leaf="Content",
            run="CharacterStyleRange",
            properties=_names("Properties"),
            blanks={"Br": "\n"},
        ),
    ),
}
_KINDS.update(ods=_KINDS["odt"], odp=_KINDS["odt"])


class Archive(DocumentFile):
    """An archive of XML files; those with text are rewritten, the others are copied."""

    def __init__(self, path: Path, source: str, target: str) -> None:
        super().__init__(path, source, target)
        self._kind = _KINDS[kind_of(path)]
        self._trees: dict[str, Element] = {}
        self._paragraphs: list[tuple[Element, Unit]] = []
        try:
            with zipfile.ZipFile(path) as archive:
                if damaged := archive.testzip():
                    raise self.invalid(f"{damaged} is damaged")
                kept = _table_headers(archive) if kind_of(path) == "xlsx" else set()
                for entry in archive.infolist():
                    if self._kind.files.fullmatch(entry.filename):
                        if entry.file_size > _MAX_PART:
                            raise self.invalid(f"{entry.filename} has {entry.file_size:,} bytes")
                        self._read(entry.filename, archive.read(entry), kept)
        # RuntimeError: the archive has a password, or its compression is unknown.
        except (zipfile.BadZipFile, etree.XMLSyntaxError, RuntimeError) as error:
            raise self.invalid(error) from None
        if not self._trees:
            raise self.invalid("it has no file with text")

    def _read(self, name: str, data: bytes, kept: set[str]) -> None:
        self._trees[name] = tree = parse_xml(data)
        found = []
        # Inner paragraphs, as of a text box, first: their elements move with the outer ones.
        for paragraph in reversed(list(tree.iter(*self._kind.paragraphs))):
            unit = self._kind.form.read(paragraph)
            is_kept = text_of(unit) in kept or any(map(_is_kept, paragraph.iterancestors()))
            if has_words(text_of(unit)) and not is_kept:
                found.append((paragraph, unit))
        self._paragraphs += reversed(found)

    @property
    def units(self) -> list[Unit]:
        """The texts to translate."""
        return [unit for _, unit in self._paragraphs]

    def translated(self, units: Sequence[Unit]) -> bytes:
        """Return the file with translations of all its units."""
        for (paragraph, unit), translation in zip(self._paragraphs, units, strict=True):
            is_too_long = kind_of(self._path) == "xlsx" and len(text_of(translation)) > _MAX_CELL
            if translation is not unit and not is_too_long:
                self._kind.form.write(paragraph, translation)
        out = io.BytesIO()
        with zipfile.ZipFile(self._path) as archive, zipfile.ZipFile(out, "w") as written:
            for entry in archive.infolist():
                tree = self._trees.get(entry.filename)
                data = archive.read(entry) if tree is None else to_xml(tree)
                written.writestr(entry, data, entry.compress_type)
        return out.getvalue()


def _is_kept(element: Element) -> bool:
    """Return whether an element of OpenDocument has deleted text, or a cell that is computed."""
    is_cell = element.tag == f"{_TABLE}table-cell"
    is_text = element.get(f"{_OFFICE}value-type", "string") == "string"
    is_computed = is_cell and (element.get(f"{_TABLE}formula") or not is_text)
    return bool(is_computed) or element.tag == f"{_TEXT}tracked-changes"


def _table_headers(archive: zipfile.ZipFile) -> set[str]:
    """Return the names of the columns of tables in a workbook, which must equal their cells."""
    names = [name for name in archive.namelist() if re.fullmatch(r"xl/tables/[^/]+\.xml", name)]
    columns = (parse_xml(archive.read(name)).iter(f"{_S}tableColumn") for name in names)
    return {column.get("name") for some in columns for column in some}
