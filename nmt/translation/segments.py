"""Splitting of texts that are too long for a model into segments."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.tokenizer import Tokenizer
from nmt.translation.sentences import sentence_spans


@dataclass(frozen=True)
class Segment:
    """Part of a text that is searched as one source; its ids have no EOS."""

    text_index: int
    ids: list[int]


@dataclass(frozen=True)
class Segmenter:
    """Splits texts of the source language into segments of at most `max_ids` without EOS."""

    tokenizer: Tokenizer
    language: str
    max_ids: int

    def segments(self, texts: Sequence[str]) -> list[Segment]:
        """Return one segment per text, several per over-long text and none per blank text."""
        segments: list[Segment] = []
        encoded = self.tokenizer.encode(texts)
        for index, (text, ids) in enumerate(zip(texts, encoded, strict=True)):
            if not ids or not text.strip():
                continue
            if len(ids) <= self.max_ids:
                segments.append(Segment(index, ids))
            else:
                parts = self.tokenizer.encode(self._split(text))
                segments += [Segment(index, part) for part in parts if part]
        return segments

    def _split(self, text: str) -> list[str]:
        """Split an over-long text after sentences, and sentences that do not fit between words.

        Sentences are not joined up to the limit: a model trained on single sentences translates the
        first of several and drops the others.
        """
        parts: list[str] = []
        for begin, end in sentence_spans(text, self.language):
            sentence = text[begin:end]
            parts += [sentence] if self._fits(sentence) else self._join(sentence.split())
        return [half for part in parts for half in self._halves(part)]

    def _join(self, words: list[str]) -> list[str]:
        """Join neighbouring words as long as they fit together."""
        lengths = [len(ids) for ids in self.tokenizer.encode(words)]
        joined: list[str] = []
        available = 0
        for word, length in zip(words, lengths, strict=True):
            if joined and length <= available:
                joined[-1] += f" {word}"
                available -= length
            else:
                joined.append(word)
                available = self.max_ids - length
        return joined

    def _fits(self, text: str) -> bool:
        return len(self.tokenizer.encode([text])[0]) <= self.max_ids

    def _halves(self, text: str) -> list[str]:
        """Halve a text until its parts fit; a single character cannot be split."""
        if len(text) <= 1 or self._fits(text):
            return [text]
        middle = len(text) // 2
        return self._halves(text[:middle]) + self._halves(text[middle:])
