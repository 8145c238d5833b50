"""Split documents into sentences, and join the translations of the sentences.

Each line is a paragraph. White space around sentences, empty lines and list markers are kept.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.translation.request import Links, Translation, joined
from nmt.translation.sentences import sentence_spans

_BLANKS = " \t\u00a0\u3000"
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

    def join(self, found: Sequence[Sequence[Translation]], blank: str = " ") -> list[Translation]:
        """Join the best translations of all sentences, the second-best ones, and so on.

        `blank` separates sentences of a paragraph in the target language; it may be empty.
        The result has as many translations as the sentence with the fewest. Scores are summed and
        utilities averaged. Alignments contain the word indices of the document.
        """
        separators = self.target_separators(blank)
        return [self._join(best, separators) for best in zip(*found, strict=False)]

    def target_separators(self, blank: str) -> list[str]:
        """Return the separators, with `blank` instead of horizontal space between sentences."""
        first, *between, last = self.separators
        inner = [one if one.strip(_BLANKS) else blank and (one or blank) for one in between]
        return [first, *inner, last]

    def _join(self, translations: Sequence[Translation], separators: list[str]) -> Translation:
        first, *others = separators
        parts = (one.text + after for one, after in zip(translations, others, strict=True))
        links = self._joined_links(translations, separators)
        return joined(translations, first + "".join(parts), links)

    def _joined_links(
        self, translations: Sequence[Translation], separators: list[str]
    ) -> Links | None:
        links: Links = []
        source_words = target_words = 0
        columns = (self.sentences, translations, self.separators[:-1], separators[:-1])
        for sentence, one, separator, after in zip(*columns, strict=True):
            if one.alignment is None:
                return None
            # Without a blank, the first word belongs to the last one of the sentence before.
            source_words -= source_words > 0 and not separator
            target_words -= target_words > 0 and not after
            # A list marker is a word of both sides.
            num_markers = len(separator.split())
            links += [(source_words + i, target_words + i) for i in range(num_markers)]
            source_words += num_markers
            target_words += num_markers
            links += [(source_words + i, target_words + j) for i, j in one.alignment]
            source_words += len(sentence.split())
            target_words += len(one.text.split())
        return links
