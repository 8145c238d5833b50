"""Files of translators: XLIFF 1.2 and 2, and gettext's PO. Missing targets are filled in."""

import copy
import re
from collections.abc import Sequence
from pathlib import Path

from lxml import etree

from nmt.base.errors import UserError
from nmt.base.languages import primary
from nmt.documents.document import DocumentFile
from nmt.documents.pieces import Piece, Unit, text_of, to_unit
from nmt.documents.words import has_words
from nmt.documents.xml_text import Element, XmlFormat, parse_xml, to_xml

_INLINE = XmlFormat(frozenset({"g", "mrk", "pc"}), is_unique=True)
_STRING = re.compile(r'#[^~].*|(?:#~[ |]*)?(?:msg\w+(?:\[\d+\])?)?\s*"(?:[^"\\]|\\.)*"\s*')
_ENTRY = re.compile("#[:,.|]|msg")
_CHARSET = re.compile(rb'"Content-Type:[^"\n]*charset=(?!CHARSET)([\w.:-]+)')
# States of a target that is yet to be translated, in versions 1.2 and 2.
_OPEN = {None, "new", "needs-translation", "initial"}


class Xliff(DocumentFile):
    """XLIFF 1.2 and 2.x."""

    def __init__(self, path: Path, source: str, target: str) -> None:
        super().__init__(path, source, target)
        try:
            self._tree = parse_xml(path.read_bytes())
        except etree.XMLSyntaxError as error:
            raise self.invalid(error) from None
        root = self._tree.getroot()
        if etree.QName(root).localname != "xliff":
            raise self.invalid("its root is not <xliff>")
        self._namespace = root.tag.rpartition("xliff")[0]
        sides = ("source-language", "srcLang", source), ("target-language", "trgLang", target)
        for attribute, short, code in sides:
            given = {root.get(short), *(file.get(attribute) for file in root.iter("{*}file"))}
            if other := [one for one in given - {None} if primary(one) != primary(code)]:
                raise UserError(
                    f"{path}: its {attribute} is {other[0]}, but the model translates"
                    f" {source}-{target}; use another model or file"
                )
        self._is_first = root.get("version", "1.2").startswith("1")
        self._found: list[tuple[Element, Element, list[tuple[Element, Unit]]]] = []
        for element in root.iter(self._tag("trans-unit" if self._is_first else "segment")):
            if self._is_open(element):
                filled = copy.deepcopy(self._source_of(element))
                segments = filled.iterfind(f".//{self._tag('mrk')}[@mtype='seg']")
                units = [(one, _INLINE.read(one)) for one in list(segments) or [filled]]
                units = [(one, unit) for one, unit in units if has_words(text_of(unit))]
                if units:
                    self._found.append((element, filled, units))

    def _tag(self, name: str) -> str:
        return f"{self._namespace}{name}"

    def _source_of(self, element: Element) -> Element:
        """Return the source of a unit, in segments if it is divided."""
        divided = element.find(self._tag("seg-source"))
        return element.find(self._tag("source")) if divided is None else divided

    def _is_open(self, element: Element) -> bool:
        parents = [element, *element.iterancestors()]
        is_kept = any(one.get("translate") == "no" for one in parents)
        if is_kept or element.find(self._tag("source")) is None:
            return False
        target = element.find(self._tag("target"))
        if target is None or not "".join(target.itertext()).strip():
            return element.get("approved") != "yes"
        state = (target if self._is_first else element).get("state")
        return state in _OPEN - {None}

    @property
    def units(self) -> list[Unit]:
        """The sources without a translation."""
        return [unit for _, _, units in self._found for _, unit in units]

    def translated(self, units: Sequence[Unit]) -> bytes:
        """Return the file with translations of all its units."""
        translations = iter(units)
        for element, filled, segments in self._found:
            target = element.find(self._tag("target"))
            if target is None:
                source = self._source_of(element)
                target = etree.Element(self._tag("target"))
                target.tail = source.tail
                source.addnext(target)
            for segment, unit in segments:
                if (translation := next(translations)) is not unit:
                    _INLINE.write(segment, translation)
            del target[:]
            target.text = filled.text
            target.extend(list(filled))
            if self._is_first:
                target.set("state", "needs-review-translation")
                target.set("state-qualifier", "mt-suggestion")
            else:
                element.set("state", "translated")
        root = self._tree.getroot()
        files = root.iter(self._tag("file")) if self._is_first else [root]
        attribute = "target-language" if self._is_first else "trgLang"
        for file in files:
            if not file.get(attribute):
                file.set(attribute, self._target.replace("_", "-"))
        return to_xml(self._tree)


class Po(DocumentFile):
    """Messages of gettext."""

    def __init__(self, path: Path, source: str, target: str) -> None:
        super().__init__(path, source, target)
        import polib  # noqa: PLC0415 - of the packages for documents

        data = path.read_bytes()
        charset = _CHARSET.search(data)
        self._encoding = "utf-8" if charset is None else charset[1].decode()
        try:
            text = data.decode(self._encoding)
            self._line_end = "\r\n" if "\r\n" in text else "\n"
            text = text.replace("\r\n", "\n")
            # polib takes the last letter of an unfinished string for its quote.
            for number, line in enumerate(text.split("\n"), start=1):
                if '"' in line and not line.startswith("# ") and not _STRING.fullmatch(line):
                    raise ValueError(f"line {number}: a quote is missing")
            self._text, self._file = text, polib.pofile(text.removeprefix("\ufeff"))
        except (LookupError, OSError, ValueError) as error:
            raise self.invalid(error) from None
        self._open = [
            entry
            for entry in self._file
            if not entry.obsolete and not entry.translated() and has_words(entry.msgid)
        ]
        texts = (text for one in self._open for text in (one.msgid, one.msgid_plural) if text)
        self._units = [to_unit([Piece(text)]) for text in texts]

    @property
    def units(self) -> list[Unit]:
        """The messages without a translation; with a plural, both forms."""
        return self._units

    def translated(self, units: Sequence[Unit]) -> bytes:
        """Return the file with translations of all its units; what was fuzzy stays so."""
        # All objects in messages are symbols.
        texts = ("".join(p.text if p.item is None else p.item for p in unit) for unit in units)
        for entry in self._open:
            entry.msgstr = next(texts)
            if entry.msgid_plural:
                singular, plural = entry.msgstr, next(texts)
                numbers = sorted(entry.msgstr_plural) or [0, 1]
                entry.msgstr = ""
                entry.msgstr_plural = {n: plural if n else singular for n in numbers}
        text = self._with_entries().replace("\n", self._line_end)
        try:
            return text.encode(self._encoding)
        except UnicodeEncodeError:
            return text.replace(f"charset={self._encoding}", "charset=UTF-8", 1).encode()

    def _with_entries(self) -> str:
        """Return the file, in which only the entries without a translation are written again."""
        lines = self._text.split("\n")
        opened = set(map(id, self._open))
        first = next((i for i, line in enumerate(lines) if _ENTRY.match(line)), 0)
        end = len(lines)
        for entry in reversed(self._file):
            # Without a header, polib knows no line of the first entry, and takes the comments of
            # translators before it for those of the file.
            begin = entry.linenum - 1 if entry.linenum else first
            if id(entry) in opened:
                block = "\n".join(lines[begin:end])
                blank_lines = block[len(block.rstrip("\n")) :]
                lines[begin:end] = [str(entry).rstrip("\n") + blank_lines]
            end = begin
        return "\n".join(lines)
