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


@dataclass(frozen=True)
class Term:
    """A term.

    Attributes:
        source: as the glossary writes it.
        targets: its translations, the preferred one first.
        is_exact: whether case and form are those of the glossary, on both sides.
    """

    source: str
    targets: tuple[str, ...]
    is_exact: bool = False


def read_terms(path: Path, source: str, target: str) -> list[Term]:
    """Read a TSV, CSV or TBX file.

    The columns are source, target, pos, case and translate, in this order, or in that of a first
    line that names them or the languages. `case` may be `exact`. A term without a target, or with
    `translate` no, stays as it is.

    Raises:
        UserError: the file has no terms of this language pair.
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


_Row = tuple[str, str, bool]


def _terms(rows: Iterable[_Row], name: str, source: str, target: str) -> list[Term]:
    by_source: defaultdict[tuple[str, bool], list[str]] = defaultdict(list)
    for term, translation, is_exact in rows:
        by_source[term, is_exact].append(translation)
    if not by_source:
        raise UserError(f"{name}: has no terms in {source} and {target}")
    return [Term(one, tuple(dict.fromkeys(t)), exact) for (one, exact), t in by_source.items()]


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
            kept = row.get("translate", "").lower() in ("no", "false", "0")
            is_exact = row.get("case", "").lower() == "exact" or kept or not row.get("target")
            translation = row["source"] if kept else row.get("target") or row["source"]
            yield row["source"], translation, is_exact


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
        terms: defaultdict[str, list[str]] = defaultdict(list)
        for part in entry.iter("{*}langSet", "{*}langSec"):
            code = primary(part.get(language, ""))
            terms[code] += ["".join(term.itertext()).strip() for term in part.iter("{*}term")]
        for term in filter(None, terms[primary(source)]):
            for translation in filter(None, terms[primary(target)]):
                yield term, translation, False
