"""Files of terms: TSV, CSV and TBX."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import regex

from nmt.base.errors import UserError
from nmt.base.files import check_readable
from nmt.base.languages import primary

_COLUMNS = ("source", "target", "pos", "case", "translate")
_VALUES = {"case": ("", "any", "exact"), "translate": ("", "yes", "no", "true", "false", "1", "0")}
_PROPER_NOUNS = ("proper noun", "propernoun", "propn", "name")
_OUTDATED = ("deprecated", "superseded")  # beginnings of administrativeStatus in TBX


@dataclass(frozen=True)
class Term:
    """A term.

    Attributes:
        source: as the glossary writes it.
        targets: its translations, the preferred one first.
        is_exact: whether case and form are those of the glossary, on both sides.
        pos: part of speech, such as `noun`; may be empty.
    """

    source: str
    targets: tuple[str, ...]
    is_exact: bool = False
    pos: str = ""

    def fits(self, word: str, language: str) -> bool:
        """Return whether the case of a word inside a sentence agrees with the part of speech.

        Proper nouns have a capital, in German and Luxembourgish all nouns and no other words.
        """
        is_capital = word[:1].isupper()
        if self.pos in _PROPER_NOUNS:
            return is_capital
        shows_nouns = bool(self.pos) and primary(language) in ("de", "lb")
        return not shows_nouns or is_capital == (self.pos in ("noun", "n"))


def read_terms(path: Path, source: str, target: str) -> list[Term]:
    """Read a TSV, CSV or TBX file.

    The columns are source, target, pos, case and translate, in this order, or in that of a first
    line that names them or the languages. `case` is `any` or `exact`. A term without a target, or
    with `translate` no, stays as it is. Deprecated translations of TBX are left out.

    Raises:
        UserError: the file is not UTF-8, a row, quotes or the XML are malformed, or there are no
            terms of this language pair.
    """
    check_readable(path)
    if path.suffix.lower() in (".tbx", ".xml"):
        return _terms(_read_tbx(path, source, target), str(path), source, target)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8: {error.reason} at byte {error.start:,}") from None
    return parse_terms(text, str(path), source, target)


def parse_terms(text: str, name: str, source: str, target: str) -> list[Term]:
    """Parse the text of a TSV or CSV file; error messages begin with its name."""
    return _terms(_read_table(text, name, source, target), name, source, target)


_Row = tuple[str, str, bool, str]


def _terms(rows: Iterable[_Row], name: str, source: str, target: str) -> list[Term]:
    targets: defaultdict[tuple[str, bool, str], list[str]] = defaultdict(list)
    for term, translation, is_exact, pos in rows:
        targets[term, is_exact, pos.lower()].append(translation)
    if not targets:
        raise UserError(f"{name}: has no terms in {source} and {target}")
    return [
        Term(term, tuple(dict.fromkeys(translations)), is_exact, pos)
        for (term, is_exact, pos), translations in targets.items()
    ]


def _read_table(text: str, name: str, source: str, target: str) -> Iterator[_Row]:
    has_quotes = '"' in text.partition("\n")[0]
    first = regex.sub('"[^"]*"', "", text.partition("\n")[0])
    delimiter = "\t" if "\t" in first else ";" if first.count(";") > first.count(",") else ","
    quoting: Literal[0, 3] = (
        csv.QUOTE_NONE if delimiter == "\t" and not has_quotes else csv.QUOTE_MINIMAL
    )
    columns = list(_COLUMNS)
    names = {source.lower(): "source", target.lower(): "target"}
    lines = csv.reader(io.StringIO(text), delimiter=delimiter, quoting=quoting, strict=True)
    for number, cells in enumerate(_checked(lines, name), start=1):
        values = [cell.strip() for cell in cells]
        given = [names.get(value.lower(), value.lower()) for value in values]
        if number == 1 and {"source", "target"} <= set(given):
            columns = given
        elif any(values):
            row = dict(zip(columns, values, strict=False))
            if not row.get("source"):
                raise UserError(f"{name}: line {number}: has no source term; add one, or remove it")
            for column, known in _VALUES.items():
                if row.get(column, "").lower() not in known:
                    raise UserError(
                        f"{name}: line {number}: {column}={row[column]} is not one of"
                        f" {', '.join(known[1:])}; correct it, or name the columns in a first line"
                    )
            kept = row.get("translate", "").lower() in ("no", "false", "0")
            is_exact = row.get("case", "").lower() == "exact" or kept or not row.get("target")
            translation = row["source"] if kept else row.get("target") or row["source"]
            yield row["source"], translation, is_exact, row.get("pos", "")


def _checked(lines: Iterable[list[str]], name: str) -> Iterator[list[str]]:
    try:
        yield from lines
    except csv.Error as error:
        raise UserError(f"{name}: {error}; correct the quotes of the file") from None


def _read_tbx(path: Path, source: str, target: str) -> Iterator[_Row]:
    from lxml import etree  # noqa: PLC0415 - few glossaries need it

    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    try:
        root = etree.parse(path, parser).getroot()
    except etree.XMLSyntaxError as error:
        raise UserError(f"{path}: is no valid TBX file: {error}; repair it") from None
    language = "{http://www.w3.org/XML/1998/namespace}lang"
    for entry in root.iter("{*}termEntry", "{*}conceptEntry"):
        terms: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for part in entry.iter("{*}langSet", "{*}langSec"):
            code = primary(part.get(language, ""))
            for term in part.iter("{*}term"):
                notes = {
                    each.get("type") or etree.QName(each).localname: "".join(
                        each.itertext()
                    ).strip()
                    for each in term.getparent().iterchildren("{*}*")
                }
                status = notes.get("administrativeStatus", "")
                terms[code].append((notes["term"], notes.get("partOfSpeech", ""), status))
        allowed = [one for one in terms[primary(target)] if not one[2].startswith(_OUTDATED)]
        allowed.sort(key=lambda one: not one[2].startswith("preferred"))
        for found, pos, _ in terms[primary(source)]:
            for translation, _, _ in allowed if found else ():
                if translation:
                    yield found, translation, False, pos
