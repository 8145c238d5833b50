"""Sentence pairs from TMX (Translation Memory eXchange 1.4b) and XLIFF (1.2 and 2).

The file is read as a stream and divided at the starts of its units (`tu`, `trans-unit`,
`segment`), which are parsed one by one. A unit that is not valid is therefore skipped alone.
Nothing outside the file is loaded, and no entity is expanded except HTML's names of characters.

A unit has a text for each language. The text is read without formatting codes; codes that stand for
something, such as a line break, leave a blank between words.
"""

import codecs
import io
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from html.entities import html5
from itertools import product
from pathlib import Path
from typing import IO, Any

from lxml import etree

from data_prep.clean import Pair
from data_prep.manifest import FactsCache
from data_prep.names import side_of
from data_prep.readers import Reader
from data_prep.text_files import MAX_LINE_BYTES, SURROGATE, BadUnit, open_bytes
from nmt.base.errors import UserError, one_line

_BLOCK = 1 << 18
_MARK = "\x00"  # cannot occur in XML
_BREAKS = {"ph", "ut", "x"}
_CODES = {*_BREAKS, "bpt", "ept", "it", "bx", "ex", "sc", "ec", "sm", "em", "cp"}
_BETWEEN_WORDS = re.compile(rf"(?<=[\w.,;:!?…)\]%]){_MARK}+(?=[\w(\[¿¡„“«])")

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_ENCODING = re.compile(rb"""<\?xml[^>]*encoding\s*=\s*["']([\w.-]+)""")
_NAMESPACE = re.compile(r"""xmlns:[\w.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*')""")
_ENTITY = re.compile(r"&(\w+;)")
_XML_ENTITIES = {"amp;", "lt;", "gt;", "quot;", "apos;"}
_PARSER = etree.XMLParser(
    resolve_entities=False, load_dtd=False, no_network=True, remove_comments=True, remove_pis=True
)


class XmlReader(Reader):
    """The units of a TMX or XLIFF file.

    A unit that lacks a language becomes a pair with an empty side. Cleaning drops and counts it.
    Several variants of a language in a unit, such as `en-GB` and `en-US`, are several pairs.

    Args:
        path: the file.
        languages: codes of source and target.
        cache: sizes and hashes of files.
        is_xliff: whether the file is XLIFF.
    """

    has_lines = False

    def __init__(
        self, path: Path, languages: tuple[str, str], cache: FactsCache, is_xliff: bool
    ) -> None:
        super().__init__([path], cache)
        self._path, self._languages, self._is_xliff = path, languages, is_xliff
        # The languages of the sides of an XLIFF file, until the file names them.
        self._sides = dict(zip(("source", "target"), languages, strict=True))
        name = r"(?:[\w.-]+:)?" + ("(?:trans-unit|segment)" if is_xliff else "tu")
        self._start, self._end = re.compile(rf"(?=<{name}[\s>])"), re.compile(rf"</{name}\s*>")

    def _read(self) -> Iterator[Pair | BadUnit]:
        """Read the units.

        Raises:
            UserError: no unit has both languages, or the encoding is unknown.
        """
        found: Counter[str] = Counter()
        num_pairs, problem = 0, None
        with open_bytes(self._path) as stream:
            for unit in self._units(stream):
                if isinstance(unit, BadUnit):
                    problem = problem or unit
                    yield unit
                    continue
                found.update(code for code, _ in unit)
                sources, targets = (self._texts_of(unit, side) for side in (0, 1))
                for pair in dict.fromkeys(map(Pair, *zip(*product(sources, targets), strict=True))):
                    num_pairs += bool(pair.source and pair.target)
                    yield pair
        if not num_pairs:
            known = ", ".join(f"{code} ({count:,})" for code, count in found.most_common(20))
            wanted = " and ".join(self._languages)
            reason = f"line {problem.line}: {problem.kind}" if problem else "is it the right file?"
            raise UserError(
                f"{self._path}: no translation unit has text in {wanted}; "
                + (
                    f"the languages of the file are {one_line(known)}; set corpus.direction to two"
                    " languages of one unit"
                    if known
                    else reason
                )
            )

    def _texts_of(self, unit: list[tuple[str, str]], side: int) -> list[str]:
        """Return the texts of a unit that fit the language of a side best; [""] if none fits."""
        fitting = [
            (found[1], text)
            for code, text in unit
            if (found := side_of(code, self._languages)) and found[0] == side
        ]
        best = min(fitting, default=(0, ""))[0]
        return [text for rank, text in fitting if rank == best] or [""]

    def _units(self, stream: IO[bytes]) -> Iterator[list[tuple[str, str]] | BadUnit]:
        """Yield the language and the text of each variant of each unit."""
        namespaces, is_comment, is_first = "", False, True
        for line, part in self._parts(stream):
            end = self._end.search(part)
            unit, rest = (part[: end.end()], part[end.end() :]) if end else (part, "")
            if is_first:
                is_first, unit, rest = False, "", part
                namespaces = " ".join(dict.fromkeys(_NAMESPACE.findall(part)))
            if unit and not is_comment:
                yield (
                    self._variants(unit, line, namespaces)
                    if end
                    else BadUnit("a unit without an end", line, part)
                )
            self._find_languages(rest)
            if "-->" in rest or "<!--" in rest:
                is_comment = rest.rfind("<!--") > rest.rfind("-->")

    def _parts(self, stream: IO[bytes]) -> Iterator[tuple[int, str]]:
        """Divide the text before each unit; yield each part with the number of its first line."""
        head: bytes = stream.peek(1024)[:1024]  # type: ignore[attr-defined]
        boms = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
        named = _ENCODING.search(head)
        encoding = boms.get(head[:2]) or (named[1].decode() if named else "utf-8")
        try:
            text = io.TextIOWrapper(stream, encoding, errors="surrogateescape", newline="")
        except LookupError:
            raise UserError(f"{self._path}: has the unknown encoding {encoding}") from None
        buffer, line = "", 1
        for block in iter(partial(text.read, _BLOCK), ""):
            *whole, buffer = self._start.split(buffer + block)
            for part in whole:
                yield line, part
                line += part.count("\n")
            if len(buffer) > MAX_LINE_BYTES:
                raise UserError(
                    f"{self._path}: line {line}: a unit is longer than {MAX_LINE_BYTES // 10**6}"
                    " MB; is it a TMX or XLIFF file?"
                )
        yield line, buffer

    def _find_languages(self, text: str) -> None:
        """Store the languages that an XLIFF file names between its units."""
        for side, short in (("source", "src"), ("target", "trg")) if self._is_xliff else ():
            named = re.findall(rf"""\s(?:{side}-language|{short}Lang)\s*=\s*["']([\w-]+)""", text)
            self._sides |= {side: named[-1]} if named else {}

    def _variants(self, unit: str, line: int, namespaces: str) -> list[tuple[str, str]] | BadUnit:
        if not unit.isascii() and SURROGATE.search(unit):
            return BadUnit("bytes that are not in the encoding of the file", line, unit)
        unit_text = _ENTITY.sub(_character, unit)
        try:
            [parsed] = etree.fromstring(f"<r {namespaces}>{unit_text}</r>", _PARSER)
            if self._is_xliff:
                found = [(code, parsed.find(f"{{*}}{side}")) for side, code in self._sides.items()]
                return [(code, _text_of(one)) for code, one in found if one is not None]
            texts, problem = [], ""
            for variant in parsed.iterchildren("{*}tuv"):
                segment = variant.find("{*}seg")
                code = variant.get(_LANGUAGE) or variant.get("lang")  # `lang` until TMX 1.1
                if segment is None or not code:
                    problem = "a tuv without seg" if segment is None else "a tuv without xml:lang"
                    line += variant.sourceline - 1
                else:
                    texts.append((code, _text_of(segment)))
        except (etree.XMLSyntaxError, ValueError) as error:
            lineno = getattr(error, "lineno", None) or 1
            return BadUnit(_kind(str(error)), line + lineno - 1, unit)
        if not problem or all("".join(self._texts_of(texts, side)) for side in (0, 1)):
            return texts
        return BadUnit(problem, line, unit)


def _character(entity: re.Match[str]) -> str:
    """Return the character of an entity of HTML, which XML does not know, or the entity."""
    return entity[0] if entity[1] in _XML_ENTITIES else html5.get(entity[1], entity[0])


def _kind(error: str) -> str:
    """Return the kind of a bad unit for an error of the parser."""
    for part, kind in (
        ("Char", "a character that XML forbids"),
        ("control", "a character that XML forbids"),
        ("EntityRef", "an ampersand that is not written as &amp;"),
        ("ntity", "an unknown entity"),
    ):
        if part in error:
            return kind
    return "not valid XML"


def _text_of(element: Any) -> str:
    text = _BETWEEN_WORDS.sub(" ", "".join(_texts(element)))
    return text.replace(_MARK, "")


def _texts(element: Any) -> Iterator[str]:
    """Yield the text of an element in parts, with marks for codes that may separate words."""
    yield element.text or ""
    for child in element:
        if child.tag is etree.Entity:
            raise ValueError(f"the entity {child.text} is unknown")
        name = str(child.tag).rpartition("}")[2]  # `QName` fails for unbound prefixes
        if name not in _CODES:
            yield from _texts(child)
        elif name in _BREAKS:
            yield _MARK
        yield child.tail or ""
