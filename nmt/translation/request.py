"""What is asked of a translation and what is found: the types of the whole pipeline."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from nmt.search.hypothesis import Hypothesis

Links = list[tuple[int, int]]
"""Pairs of indices, of a source word and a target word; see `word_spans`."""

Span = tuple[int, int]
"""Begin and end of a part of a text."""


def word_spans(text: str) -> list[Span]:
    """Return where the words of a text are, which white space separates."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def core_span(text: str, span: Span) -> Span:
    """Return where a word is without the punctuation around it; all of it if it is punctuation."""
    match = re.search(r"\w(?:.*\w)?", text[slice(*span)])
    return (span[0] + match.start(), span[0] + match.end()) if match else span


@dataclass(frozen=True)
class Request:
    """A text to translate, and constraints on its translation; none by default.

    Attributes:
        source: the text, a sentence or a document.
        prefix: text that the translation begins with.
        required: phrases that must occur in it, in this spelling.
        banned: phrases that must not occur in it, in this spelling.
        record: the JSON line that the request comes from; empty if it comes from no JSON line.
        columns: the columns of the tab-separated line that it comes from.
        terms: for each term, the forms of which one must occur; it comes from a glossary.
        annotated: the source with the translations of its terms, for a model trained with such
            sources; engines that cannot require terms read it if it is one segment.
    """

    source: str
    prefix: str = ""
    required: Sequence[str] = ()
    banned: Sequence[str] = ()
    record: dict[str, Any] = field(default_factory=dict)
    columns: Sequence[str] = ()
    terms: Sequence[Sequence[str]] = ()
    annotated: str = ""

    @property
    def is_constrained(self) -> bool:
        """Whether the request has any constraint."""
        return bool(self.prefix or self.required or self.terms or self.banned)


class TermOutcome(NamedTuple):
    """What became of a term of a glossary: its source, and its form in the translation.

    The form of a missed term is that of the glossary.
    """

    source: str
    form: str
    outcome: Literal["kept", "inflected", "missed"]


@dataclass(frozen=True)
class Translation:
    """One translation of a text.

    Attributes:
        text: plain text.
        score: the log-probability divided by the length penalty; if the text was translated in
            segments, the sum of their scores.
        alignment: for each link, the index of the source word and of the target word, from 0; None
            if it was not asked for, or if the text or the translation is too long for the model to
            read at once.
        hypotheses: tokens and log-probabilities, one entry per segment; none for an empty text.
        utility: expected utility, with minimum Bayes risk.
        notes: what the user should know, such as that the text was translated in segments.
        findings: what may be wrong, if translations are checked.
        confidence: mean of word_confidence; None if it is not known.
        word_confidence: probability that a word is right, 0 to 1, for each word.
        expected_chrf: the chrF that the translation is expected to have; None if it is not known.
        terms: outcomes of the terms of the text; None without a glossary.
    """

    text: str
    score: float
    alignment: Links | None = None
    hypotheses: "list[Hypothesis]" = field(default_factory=list, repr=False, compare=False)
    utility: float | None = None
    notes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    confidence: float | None = None
    word_confidence: Sequence[float] = ()
    expected_chrf: float | None = None
    terms: Sequence[TermOutcome] | None = None


def joined(parts: Sequence[Translation], text: str, alignment: Links | None = None) -> Translation:
    """Join the translations of the parts of a text, given the whole translation as plain text."""
    any_terms = any(one.terms is not None for one in parts)
    return Translation(
        text,
        sum((one.score for one in parts), 0.0),
        alignment,
        [hypothesis for one in parts for hypothesis in one.hypotheses],
        _mean([one.utility for one in parts]),
        tuple(note for one in parts for note in one.notes),
        tuple(finding for one in parts for finding in one.findings),
        _mean([one.confidence for one in parts]),
        tuple(probability for one in parts for probability in one.word_confidence),
        _mean([one.expected_chrf for one in parts]),
        [term for one in parts for term in one.terms or ()] if any_terms else None,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def notes_on(
    found: Sequence[Sequence[Translation]], first_line: int = 1, unit: str = "line"
) -> list[str]:
    """Return the notes on the translations of consecutive lines, each as `line 3: …`."""
    return [
        f"{unit} {number}: {note}"
        for number, translations in enumerate(found, start=first_line)
        for note in dict.fromkeys(
            [
                *(note for one in translations for note in one.notes),
                *(
                    f"term not in the translation: {term.source} ({term.form})"
                    for term in translations[0].terms or ()
                    if term.outcome == "missed"
                ),
                *translations[0].findings,
            ]
        )
    ]
