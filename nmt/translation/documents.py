"""Split documents into sentences, and join the translations of the sentences.

Each line is a paragraph. White space around sentences, empty lines and list markers are kept.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.translation.alignment import Links
from nmt.translation.formats import Answer
from nmt.translation.sentences import sentence_spans
from nmt.translation.translator import Translation

# Marker of a list item and the space after it; both are outside the sentence.
_LIST_MARKER = re.compile(r"\s*(?:[-*•–—·▪◦]|\(?(?:\d{1,3}|[a-zA-Z])[.)])\s+(?=\S)")


@dataclass(frozen=True)
class Document:
    """Sentences of a text and the text between them.

    Attributes:
        sentences: n sentences; one empty sentence if the text is blank.
        separators: n + 1 strings: before the first sentence, between sentences, after the last.
    """

    sentences: list[str]
    separators: list[str]

    @classmethod
    def split(cls, text: str, language: str) -> "Document":
        """Split a text into sentences; each of its lines is a paragraph."""
        sentences: list[str] = []
        separators: list[str] = []
        previous_end = 0
        for paragraph in re.finditer(r"[^\n]+", text):
            marker = _LIST_MARKER.match(paragraph[0])
            first = paragraph.start() + (marker.end() if marker else 0)
            for begin, end in sentence_spans(text[first : paragraph.end()], language):
                separators.append(text[previous_end : first + begin])
                sentences.append(text[first + begin : first + end])
                previous_end = first + end
        if not sentences:
            return cls([""], [text, ""])
        return cls(sentences, [*separators, text[previous_end:]])

    def join(self, answers: Sequence[Answer]) -> Answer:
        """Join the best translations of all sentences, the second-best ones, and so on.

        The result has as many translations as the sentence with the fewest. Scores are summed and
        utilities averaged. Alignments contain the word indices of the document.
        """
        by_rank = zip(*(answer.translations for answer in answers), strict=False)
        num_alignments = min(len(answer.alignments) for answer in answers)
        utilities = zip(*(answer.utilities for answer in answers), strict=False)
        return Answer(
            [self._join_translations(translations) for translations in by_rank],
            [self._join_links(answers, rank) for rank in range(num_alignments)],
            [sum(values) / len(values) for values in utilities],
        )

    def _join_translations(self, translations: Sequence[Translation]) -> Translation:
        first, *others = self.separators
        parts = (one.text + after for one, after in zip(translations, others, strict=True))
        return Translation(
            first + "".join(parts),
            sum(translation.score for translation in translations),
            [hypothesis for translation in translations for hypothesis in translation.hypotheses],
        )

    def _join_links(self, answers: Sequence[Answer], rank: int) -> Links | None:
        joined: Links = []
        source_words = target_words = 0
        parts = zip(self.sentences, answers, self.separators[:-1], strict=True)
        for sentence, answer, separator in parts:
            # A list marker is a word of both sides.
            num_markers = len(separator.split())
            joined += [(source_words + i, target_words + i) for i in range(num_markers)]
            source_words += num_markers
            target_words += num_markers
            links = answer.alignments[rank]
            if links is None:
                return None
            joined += [(source_words + i, target_words + j) for i, j in links]
            source_words += len(sentence.split())
            target_words += len(answer.translations[rank].text.split())
        return joined
