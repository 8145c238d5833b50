"""Files of terms: TSV, CSV and TBX."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import regex

from nmt.base.errors import UserError
from nmt.base.files import check_readable, read_lines
from nmt.base.languages import primary

_COLUMNS = ("source", "target", "pos", "case", "translate")
_VALUES = {"case": ("", "any", "exact"), "translate": ("", "yes", "no", "true", "false", "1", "0")}
_PROPER_NOUNS = ("proper noun", "propernoun", "propn", "name")
_NOUNS = ("noun", "n")
_OTHER_WORDS = ("verb", "v", "adjective", "adj", "adverb", "adv")
_SHORTEST_NAME = 4  # of a language; there are languages such as E
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
        shows_nouns = primary(language) in ("de", "lb") and self.pos in _NOUNS + _OTHER_WORDS
        return not shows_nouns or is_capital == (self.pos in _NOUNS)


def read_terms(path: Path, source: str, target: str) -> list[Term]:
    """Read a TSV, CSV or TBX file.

    The columns are source, target, pos, case and translate, in this order, or in that of a first
    line that names them or the languages. `case` is `any` or `exact`. A term whose target is empty,
    or with `translate` no, stays as it is. Deprecated translations of TBX are left out.

    Raises:
        UserError: the file is not UTF-8, a row, quotes or the XML are malformed, or there are no
            terms of this language pair.
    """
    check_readable(path)
    if path.suffix.lower() in (".tbx", ".xml"):
        return _terms(_read_tbx(path, source, target), str(path), source, target)
    return parse_terms("\n".join(read_lines(path)), str(path), source, target)


def parse_terms(
    text: str, name: str, source: str, target: str, may_lack_targets: bool = False
) -> list[Term]:
    """Parse the text of a TSV or CSV file; error messages begin with its name.

    With `may_lack_targets`, all terms of a text of one column stay as they are, without a header.
    """
    rows = _read_table(text, name, source, target, may_lack_targets)
    return _terms(rows, name, source, target)


_Row = tuple[str, str, bool, str]


def _terms(rows: Iterable[_Row], name: str, source: str, target: str) -> list[Term]:
    """Return a term for each source, form and part of speech, with all its translations."""
    targets: defaultdict[tuple[str, bool, str], list[str]] = defaultdict(list)
    for term, translation, is_exact, pos in rows:
        targets[term, is_exact, pos.lower()].append(translation)
    if not targets:
        raise UserError(f"{name}: has no terms in {source} and {target}")
    return [
        Term(term, tuple(dict.fromkeys(translations)), is_exact, pos)
        for (term, is_exact, pos), translations in targets.items()
    ]


def _read_table(
    text: str, name: str, source: str, target: str, may_lack_targets: bool
) -> Iterator[_Row]:
    line = text.partition("\n")[0]
    first = regex.sub('"[^"]*"', "", line)
    delimiter = "\t" if "\t" in first else ";" if first.count(";") > first.count(",") else ","
    has_quotes = delimiter != "\t" or '"' in line
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE
    rows = csv.reader(io.StringIO(text), delimiter=delimiter, quoting=quoting, strict=True)
    columns, width = list(_COLUMNS), 0
    number = 1  # of the first line of a row
    try:
        for cells in rows:
            values = [cell.strip() for cell in cells]
            if number == 1 and (header := _header(values, source, target)):
                columns = header
            elif any(values):
                width = max(width, len(values))
                yield _row(values, columns)
            number = rows.line_num + 1
    except csv.Error as error:
        raise UserError(f"{name}: line {number}: {error}; correct its quotes") from None
    except UserError as error:
        raise UserError(f"{name}: line {number}: {error}") from None
    if width == 1 and "target" in columns and not may_lack_targets:
        raise UserError(
            f"{name}: has one column; write the translation after a tab, or, if all terms stay as"
            " they are, source in the first line"
        )


def _header(values: Sequence[str], source: str, target: str) -> list[str]:
    """Return the columns that the first line names; none if it is a term.

    Raises:
        UserError: it names other languages.
    """
    own = {source.lower(): "source", target.lower(): "target"}
    names = {primary(code): side for code, side in own.items()} | own
    found = [_language(value) for value in values]
    columns = [
        names.get(value.lower()) or names.get(code) or value.lower()
        for value, code in zip(values, found, strict=True)
    ]
    if "source" in columns and ("target" in columns or set(columns) <= set(_COLUMNS)):
        if twice := [side for side in own.values() if columns.count(side) > 1]:
            raise UserError(f"names the column {twice[0]} twice; remove one, or rename it")
        return columns
    are_names = all(
        code or column in ("", *_COLUMNS) for code, column in zip(found, columns, strict=True)
    )
    if are_names and len(others := sorted({*found} - {""})) > 1:
        raise UserError(
            f"names the languages {' and '.join(others)}, not {source} and {target}; correct it, or"
            " write source and target"
        )
    return []


def _language(text: str) -> str:
    """Return the code of a language that is given by its code or name; empty if it is none."""
    from langcodes import Language, find  # noqa: PLC0415 - takes a tenth of a second

    if regex.fullmatch("[A-Za-z]{2}([-_][A-Za-z]{2,4})?", text):
        return primary(text) if Language.get(primary(text)).is_valid() else ""
    try:
        return str(find(text).language) if len(text) >= _SHORTEST_NAME else ""
    except LookupError:
        return ""


def _row(values: Sequence[str], columns: Sequence[str]) -> _Row:
    if any(values[len(columns) :]):
        raise UserError(
            f"column {len(columns) + 1} has no name; name all columns in the first line, such as"
            " source, target, note"
        )
    row = dict(zip(columns, values, strict=False))
    if not row.get("source"):
        raise UserError("has no source term; add one, or remove it")
    for column, known in _VALUES.items():
        if row.get(column, "").lower() not in known:
            raise UserError(
                f"column {columns.index(column) + 1} ({column}) has {row[column]!r}, not"
                f" {' or '.join(known[1:])}; correct it, or name the columns in the first line"
            )
    translate, target = row.get("translate", "").lower(), row.get("target", "")
    if translate in ("no", "false", "0"):
        target = ""
    elif translate and not target:
        raise UserError(f"translate={translate} needs a target; add one, or write no")
    is_exact = row.get("case", "").lower() == "exact" or not target
    return row["source"], target or row["source"], is_exact, row.get("pos", "")


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
                    one.get("type") or etree.QName(one).localname: "".join(one.itertext()).strip()
                    for one in term.getparent().iterchildren("{*}*")
                }
                status = notes.get("administrativeStatus", "")
                if text := "".join(term.itertext()).strip():
                    terms[code].append((text, notes.get("partOfSpeech", ""), status))
        allowed = [one for one in terms[primary(target)] if not one[2].startswith(_OUTDATED)]
        allowed.sort(key=lambda one: not one[2].startswith("preferred"))
        for found, pos, _ in terms[primary(source)]:
            yield from ((found, translation, False, pos) for translation, *_ in allowed)
