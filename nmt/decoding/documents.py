"""Documents: their sentences are translated one by one and put together again.

A line is a paragraph. White space around and between sentences, empty lines and the marks of lists
stay as they are.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.decoding.formats import Answer
from nmt.decoding.sentences import sentence_spans
from nmt.decoding.translator import Translation

# The mark of a point in a list, with the space behind it; it is no part of its sentence.
_LIST_MARK = re.compile(r"\s*(?:[-*•–—·▪◦]|\(?(?:\d{1,3}|[a-zA-Z])[.)])\s+(?=\S)")


@dataclass(frozen=True)
class Document:
    """A text, taken apart.

    Attributes:
        sentences: its sentences.
        between: what stands before the first, between them, and after the last: one more.
    """

    sentences: list[str]
    between: list[str]


def taken_apart(text: str, language: str) -> Document:
    """The sentences of a text, of one paragraph a line."""
    sentences: list[str] = []
    between: list[str] = []
    last = 0
    for paragraph in re.finditer(r"[^\n]+", text):
        mark = _LIST_MARK.match(paragraph[0])
        first = paragraph.start() + (mark.end() if mark else 0)
        for begin, end in sentence_spans(text[first : paragraph.end()], language):
            between.append(text[last : first + begin])
            sentences.append(text[first + begin : first + end])
            last = first + end
    return Document(sentences, [*between, text[last:]])


def put_together(document: Document, answers: Sequence[Answer]) -> Answer:
    """The answer to a document from those to its sentences, rank by rank.

    There are as many translations as the sentence with the fewest has. Scores are summed, utilities
    averaged; alignments count words of the whole.
    """
    if not answers:
        empty = Translation("".join(document.between), 0.0, [])
        return Answer([empty])
    ranks = range(min(len(answer.translations) for answer in answers))
    aligned_ranks = range(min(len(answer.alignments) for answer in answers))
    has_utilities = bool(answers[0].utilities)
    alignments = [_joined_alignment(document, answers, rank) for rank in aligned_ranks]
    utilities = [
        sum(answer.utilities[rank] for answer in answers) / len(answers)
        for rank in ranks
        if has_utilities
    ]
    translations = [
        _joined(document, [each.translations[rank] for each in answers]) for rank in ranks
    ]
    return Answer(translations, alignments, utilities)


def _joined(document: Document, translations: Sequence[Translation]) -> Translation:
    first, *others = document.between
    parts = [first]
    for translation, between in zip(translations, others, strict=True):
        parts += [translation.text, between]
    return Translation(
        "".join(parts),
        sum(translation.score for translation in translations),
        [hypothesis for translation in translations for hypothesis in translation.hypotheses],
    )


def _joined_alignment(document: Document, answers: Sequence[Answer], rank: int) -> str | None:
    links = []
    source_words = target_words = 0
    for sentence, answer, between in zip(
        document.sentences, answers, document.between, strict=False
    ):
        # The mark of a list is a word of both sides.
        for mark in range(len(between.split())):
            links.append(f"{source_words + mark}-{target_words + mark}")
        source_words += len(between.split())
        target_words += len(between.split())
        alignment = answer.alignments[rank]
        if alignment is None:
            return None
        for link in alignment.split():
            source, target = map(int, link.split("-"))
            links.append(f"{source_words + source}-{target_words + target}")
        source_words += len(sentence.split())
        target_words += len(answer.translations[rank].text.split())
    return " ".join(links)
