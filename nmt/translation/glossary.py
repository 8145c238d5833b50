"""Glossaries: terms that a translation must use.

A term is found in a source by the lemmas of its words, or by the words themselves, without regard
to case, in languages whose lemmas are not known. Its translation must occur in one of its forms:
as the glossary writes it, or inflected as in the training text.
"""

import csv
import io
import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

import regex

from nmt.base.errors import UserError
from nmt.base.files import check_readable
from nmt.base.languages import has_word_blanks, primary
from nmt.trained_model import TrainedModel, word_forms
from nmt.translation.request import Request

_WORD = regex.compile(r"[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}'’-]*[\p{L}\p{M}\p{N}])?")
_COLUMNS = ("source", "target", "pos", "case", "translate")
_MOST_FORMS = 16  # of one term
MOST_WORDS = 100_000
"""Number of word forms that a model folder has: the most frequent ones."""


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


@dataclass
class TermCounts:
    """Numbers of terms by outcome."""

    kept: int = 0
    inflected: int = 0
    missed: int = 0

    def __str__(self) -> str:
        """Return a summary in one line."""
        return (
            f"terms: {self.kept:,} as in the glossary, {self.inflected:,} inflected,"
            f" {self.missed:,} missed"
        )


@dataclass
class Glossary:
    """The terms of a language pair.

    Attributes:
        source: code of the source language.
        target: code of the target language.
        terms: the terms.
        words: word forms of the target language.
    """

    source: str
    target: str
    terms: Sequence[Term]
    words: Collection[str] = ()
    counts: TermCounts = field(default_factory=TermCounts)

    def found_in(self, text: str) -> list[Term]:
        """Return the terms in a text, each once.

        From left to right, the longest term at each word is taken; those to be used exactly first.
        """
        if not has_word_blanks(self.source):
            found = (self._by_text[each.casefold()] for each in self._pattern.findall(text))
            return list(dict.fromkeys(found))
        words = list(_WORD.finditer(text))
        keys = [_key(word[0], self.source) for word in words]
        terms: dict[Term, None] = {}
        start = 0
        while start < len(words):
            longest = min(self._longest, len(words) - start)
            taken = start + 1
            for end in range(start + longest, start, -1):
                candidates = self._by_key.get(tuple(keys[start:end]), ())
                term = next((t for t in candidates if _matches(t, text, words[start:end])), None)
                if term:
                    terms[term] = None
                    taken = end
                    break
            start = taken
        return list(terms)

    @cached_property
    def _by_text(self) -> dict[str, Term]:
        """The terms by their text, in languages without blanks between words."""
        return {term.source.casefold(): term for term in self.terms}

    @cached_property
    def _pattern(self) -> "regex.Pattern[str]":
        longest_first = sorted(self._by_text, key=len, reverse=True)
        return regex.compile("|".join(map(regex.escape, longest_first)), regex.IGNORECASE)

    @cached_property
    def _by_key(self) -> dict[tuple[str, ...], list[Term]]:
        by_key: defaultdict[tuple[str, ...], list[Term]] = defaultdict(list)
        for term in sorted(self.terms, key=lambda term: not term.is_exact):
            by_key[tuple(_key(w, self.source) for w in _WORD.findall(term.source))].append(term)
        return by_key

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._by_key), default=0)

    @cached_property
    def _by_lemma(self) -> dict[str, list[str]]:
        wanted = {
            _key(word, self.target)
            for term in self.terms
            for target in term.targets
            for word in _WORD.findall(target)
        }
        by_lemma: defaultdict[str, list[str]] = defaultdict(list)
        for word in self.words:
            if (key := _key(word, self.target)) in wanted:
                by_lemma[key].append(word)
        return by_lemma

    def forms(self, term: Term) -> list[str]:
        """Return how the translation of a term may be written, the glossary's forms first."""
        if term.is_exact:
            return list(term.targets)
        forms: dict[str, None] = dict.fromkeys(term.targets)
        for target in term.targets:
            words = _WORD.findall(target)
            if " ".join(words) == target:
                known = ([w, *self._by_lemma.get(_key(w, self.target), ())] for w in words)
                inflected = map(" ".join, itertools.product(*known))
                forms.update(dict.fromkeys(itertools.islice(inflected, _MOST_FORMS)))
        # At the start of a sentence.
        capital = [form[:1].upper() + form[1:] for form in forms]
        return list(dict.fromkeys([*forms, *capital]))

    def required(self, request: Request) -> Request:
        """Return a request that also requires the terms of its source."""
        terms = [self.forms(term) for term in self.found_in(request.source)]
        return replace(request, terms=[*request.terms, *terms])

    def count(self, source: str, translation: str) -> None:
        """Count the outcome of each term of a source."""
        for term in self.found_in(source):
            capital = [target[:1].upper() + target[1:] for target in term.targets]
            if any(self._occurs(form, translation) for form in (*term.targets, *capital)):
                self.counts.kept += 1
            elif any(self._occurs(form, translation) for form in self.forms(term)):
                self.counts.inflected += 1
            else:
                self.counts.missed += 1

    def _occurs(self, form: str, text: str) -> bool:
        """Return whether a form occurs in a text, not inside a longer word."""
        if not has_word_blanks(self.target):
            return form in text
        pattern = rf"(?<![\p{{L}}\p{{N}}]){regex.escape(form)}(?![\p{{L}}\p{{N}}])"
        return regex.search(pattern, text) is not None


def open_glossary(path: Path, model: TrainedModel, folder: Path) -> Glossary:
    """Read a glossary for the model in a folder, whose word forms it may use."""
    config = model.config
    return read_glossary(path, config.source_language, config.target_language, word_forms(folder))


def read_glossary(path: Path, source: str, target: str, words: Collection[str] = ()) -> Glossary:
    """Read a TSV, CSV or TBX file.

    The columns are source, target, pos, case and translate, in this order, or in that of a first
    line that names them or the languages. `case` may be `exact`. A term without a target, or with
    `translate` no, stays as it is.

    Raises:
        UserError: the file is no glossary of this language pair.
    """
    check_readable(path)
    rows = _read_tbx if path.suffix.lower() in (".tbx", ".xml") else _read_table
    by_source: defaultdict[tuple[str, bool], list[str]] = defaultdict(list)
    for term, translation, is_exact in rows(path, source, target):
        by_source[term, is_exact].append(translation)
    if not by_source:
        raise UserError(f"{path}: has no terms in {source} and {target}")
    terms = [Term(one, tuple(dict.fromkeys(t)), exact) for (one, exact), t in by_source.items()]
    return Glossary(source, target, terms, words)


_Row = tuple[str, str, bool]


def _read_table(path: Path, source: str, target: str) -> Iterator[_Row]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8: {error.reason} at byte {error.start:,}") from None
    has_quotes = '"' in text.partition("\n")[0]
    first = regex.sub('"[^"]*"', "", text.partition("\n")[0])
    delimiter = "\t" if "\t" in first else ";" if first.count(";") > first.count(",") else ","
    quoting: Literal[0, 3] = (
        csv.QUOTE_NONE if delimiter == "\t" and not has_quotes else csv.QUOTE_MINIMAL
    )
    columns = list(_COLUMNS)
    names = {source.lower(): "source", target.lower(): "target"}
    lines = csv.reader(io.StringIO(text), delimiter=delimiter, quoting=quoting, strict=True)
    for number, cells in enumerate(_checked(lines, path), start=1):
        values = [cell.strip() for cell in cells]
        given = [names.get(value.lower(), value.lower()) for value in values]
        if number == 1 and {"source", "target"} <= set(given):
            columns = given
        elif any(values):
            row = dict(zip(columns, values, strict=False))
            if not row.get("source"):
                raise UserError(f"{path}: line {number}: has no source term; add one, or remove it")
            kept = row.get("translate", "").lower() in ("no", "false", "0")
            is_exact = row.get("case", "").lower() == "exact" or kept or not row.get("target")
            translation = row["source"] if kept else row.get("target") or row["source"]
            yield row["source"], translation, is_exact


def _checked(lines: Iterable[list[str]], path: Path) -> Iterator[list[str]]:
    try:
        yield from lines
    except csv.Error as error:
        raise UserError(f"{path}: {error}; correct the quotes of the file") from None


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


def frequent_words(lines: Iterable[str]) -> list[str]:
    """Return the words that occur at least twice, most frequent first, at most `MOST_WORDS`."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(_WORD.findall(line))
    return [word for word, count in counts.most_common(MOST_WORDS) if count > 1]


@cache
def _key(word: str, language: str) -> str:
    """Return what the forms of a word have in common: its lemma, or the word without its case."""
    import simplemma  # noqa: PLC0415 - only glossaries need it

    try:
        return str(simplemma.lemmatize(word, lang=primary(language))).casefold()
    except ValueError:  # an unknown language
        return word.casefold()


def _matches(term: Term, text: str, words: "Sequence[regex.Match[str]]") -> bool:
    """Return whether matched words of a text are a term with its symbols, as in C++ or .NET."""
    parts = list(_WORD.finditer(term.source))
    before, after = term.source[: parts[0].start()], term.source[parts[-1].end() :]
    begin, end = words[0].start(), words[-1].end()
    has_symbols = text[:begin].endswith(before) and text[end:].startswith(after)
    is_other = not after and text[end : end + 1] in ("+", "#")
    is_same = not term.is_exact or text[begin:end] == term.source[len(before) : parts[-1].end()]
    return has_symbols and not is_other and is_same
