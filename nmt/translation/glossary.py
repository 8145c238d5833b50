"""Glossaries: terms that a translation must use.

A term is found in a source by the lemmas of its words, or by the words themselves, without regard
to case, in languages whose lemmas are not known. Its translation must occur in one of its forms:
as the glossary writes it, or inflected as in the training text.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import islice, product
from pathlib import Path

import regex

from nmt.base.files import file_inside, read_lines
from nmt.base.languages import has_word_blanks, unspaced_characters
from nmt.base.layout import FORMS_FILE
from nmt.base.terms import WORD, lemma, with_terms
from nmt.trained_model import TrainedModel, word_forms
from nmt.translation.request import Request, TermOutcome, Translation
from nmt.translation.term_files import Term, read_terms

_MOST_FORMS = 16  # of one term
MOST_WORDS = 100_000
"""Number of word forms that a model folder has: the most frequent ones."""


TermForms = Mapping[str, Sequence[str]]
"""Forms of the targets of terms."""


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
        aligned: forms of the targets of terms, from text that the model was adapted to.
        is_annotated: whether translations of terms are also written into the source, for models
            trained with such sources.
        counts: outcomes of the terms in all translations.
    """

    source: str
    target: str
    terms: Sequence[Term]
    words: Collection[str] = ()
    is_annotated: bool = False
    aligned: TermForms = field(default_factory=dict)
    counts: TermCounts = field(default_factory=TermCounts)

    def found_in(self, text: str) -> list[Term]:
        """Return the terms in a text, each once."""
        return list(dict.fromkeys(term for _, _, term in self.occurrences(text)))

    def occurrences(self, text: str) -> Iterator[tuple[int, int, Term]]:
        """Yield start, end and term of each occurrence in a text.

        From left to right, the longest term at each word is taken; those to be used exactly first.
        """
        tokens, keys = _tokens(text, self.source)
        start = 0
        while start < len(tokens):
            taken = start + 1
            begin = tokens[start].start()
            for after in range(min(start + self._longest, len(tokens)), start, -1):
                candidates = self._by_key.get((keys[start].lstrip(), *keys[start + 1 : after]), ())
                end = tokens[after - 1].end()
                fitting = (t for t in candidates if self._fits(t, text, begin, end, after == taken))
                if term := next(fitting, None):
                    yield begin, end, term
                    taken = after
                    break
            start = taken

    def _fits(self, term: Term, text: str, begin: int, end: int, is_word: bool) -> bool:
        """Return whether a part of a text with the right keys is a term."""
        before, after = text[max(0, begin - 1) : begin], text[end : end + 1]
        sides = (before, term.source[0]), (after, term.source[-1])
        is_longer = any(one == own and not own.isalnum() for one, own in sides)
        is_other = is_longer or after in ("+", "#")  # C++ and C#, not C
        is_same = not term.is_exact or text[begin:end] == term.source
        # Any word may have a capital at the start of a sentence.
        has_case = not is_word or begin == 0 or term.fits(text[begin:end], self.source)
        return not is_other and is_same and has_case

    @cached_property
    def _by_key(self) -> dict[tuple[str, ...], list[Term]]:
        """The terms by the keys of their tokens, those to be used exactly first."""
        by_key: defaultdict[tuple[str, ...], list[Term]] = defaultdict(list)
        for term in sorted(self.terms, key=lambda term: not term.is_exact):
            by_key[tuple(_tokens(term.source, self.source)[1])].append(term)
        return by_key

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._by_key), default=0)

    @cached_property
    def _by_lemma(self) -> dict[str, list[str]]:
        """The word forms of each lemma that is in a target."""
        targets = " ".join(target for term in self.terms for target in term.targets)
        wanted = {_key(word, self.target) for word in WORD.findall(targets)}
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
            forms.update(dict.fromkeys(self.aligned.get(target, ())))
            words = WORD.findall(target)
            if " ".join(words) == target:
                known = [[w, *self._by_lemma.get(_key(w, self.target), ())] for w in words]
                if len(words) == 1:
                    known = [[w for w in known[0] if w == target or term.fits(w, self.target)]]
                inflected = map(" ".join, product(*known))
                forms.update(dict.fromkeys(islice(inflected, _MOST_FORMS)))
        return _with_capitals(forms)

    def applied(self, request: Request) -> Request:
        """Return a request that also requires the terms of its source, and may annotate them."""
        found = list(self.occurrences(request.source))
        terms = [self.forms(term) for term in dict.fromkeys(term for _, _, term in found)]
        text = ""
        if self.is_annotated and found:
            text = with_terms(request.source, ((s, e, term.targets[0]) for s, e, term in found))
        return replace(request, terms=[*request.terms, *terms], annotated=text)

    def outcomes(self, source: str, translation: str) -> Iterator[TermOutcome]:
        """Yield the outcome of each term of a source."""
        for term in self.found_in(source):
            given = _with_capitals(term.targets)
            forms = [*given, *self.forms(term)]
            form = next((one for one in forms if self._occurs(one, translation)), None)
            if form is None:
                yield TermOutcome(term.source, term.targets[0], "missed")
            else:
                yield TermOutcome(term.source, form, "kept" if form in given else "inflected")

    def reported(self, source: str, found: Sequence[Translation]) -> list[Translation]:
        """Return the translations of a source with the outcomes of its terms; count the first."""
        reported = [replace(one, terms=list(self.outcomes(source, one.text))) for one in found]
        for term in reported[0].terms or ():
            vars(self.counts)[term.outcome] += 1
        return reported

    def _occurs(self, form: str, text: str) -> bool:
        """Return whether a form occurs in a text, not inside a longer word."""
        if not has_word_blanks(self.target):
            return form in text
        before = r"(?<![\p{L}\p{N}])" * form[0].isalnum()
        after = r"(?![\p{L}\p{N}])" * form[-1].isalnum()
        return regex.search(before + regex.escape(form) + after, text) is not None


def open_glossary(path: Path, models: Sequence[TrainedModel], folder: Path) -> Glossary:
    """Read a glossary for a model or an ensemble.

    `folder` is that of the first model, whose word forms and forms of terms the glossary may use.
    """
    return glossary_of(read_terms(path, *models[0].config.languages), models, folder)


def glossary_of(terms: Sequence[Term], models: Sequence[TrainedModel], folder: Path) -> Glossary:
    """Return a glossary of terms, see `open_glossary`."""
    words, forms = word_forms(folder), _read_forms(folder)
    is_annotated = all(model.config.terminology for model in models)
    return Glossary(*models[0].config.languages, terms, words, is_annotated, forms)


def _read_forms(folder: Path) -> TermForms:
    if not (folder / FORMS_FILE).exists():
        return {}
    lines = (line.split("\t") for line in read_lines(file_inside(folder, FORMS_FILE)))
    return {term: forms for term, *forms in lines}


def frequent_words(counts: Counter[str]) -> list[str]:
    """Return the words that occur at least twice, most frequent first, at most `MOST_WORDS`."""
    return [word for word, count in counts.most_common(MOST_WORDS) if count > 1]


def _with_capitals(forms: Iterable[str]) -> list[str]:
    """Return forms, and then as they are at the start of a sentence."""
    forms = list(forms)
    return list(dict.fromkeys([*forms, *(form[:1].upper() + form[1:] for form in forms)]))


def _key(word: str, language: str) -> str:
    """Return what the forms of a word have in common: its lemma, or the word without its case."""
    return lemma(word, language).casefold()


def _tokens(text: str, language: str) -> "tuple[list[regex.Match[str]], list[str]]":
    """Return the words and symbols of a text and their keys, after white space with a blank.

    Letters of scripts without blanks between words are tokens of their own.
    """
    found = list(_token().finditer(text))
    blanks = (" " * text[max(0, one.start() - 1) : one.start()].isspace() for one in found)
    return found, [f"{b}{_key(one[0], language)}" for b, one in zip(blanks, found, strict=True)]


@cache
def _token() -> "regex.Pattern[str]":
    letter = rf"[[\p{{L}}\p{{N}}]--[{unspaced_characters()}]]"
    inner = rf"[{letter}\p{{M}}]"
    return regex.compile(rf"{letter}(?:[{inner}'’-]*{inner})?|\S", regex.VERSION1)
