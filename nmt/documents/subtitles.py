"""Subtitles: SubRip (.srt) and WebVTT (.vtt).

A sentence that extends over several cues is translated as a whole. The ends of cues are objects in
it, which follow the word alignment; numbers, times and settings are kept.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from nmt.base.languages import closing_marks, has_word_blanks, sentence_marks
from nmt.documents.document import Slot, TextFile, Token, divided, kind_of
from nmt.documents.html import escape_html, texts
from nmt.documents.pieces import Piece, Unit, text_of

# The line of times, and the lines of text after it, up to a blank line or the next number.
_CUE = re.compile(r"-->[^\n]*\n((?:(?!\d+\s*\n[^\n]*-->)[^\S\n]*[^\s][^\n]*(?:\n|\Z))+)")
_TAG = re.compile(r"<(?P<close>/)?(?P<name>[A-Za-z]\w*)[^<>]*>|\{\\[^{}]*\}|<[\d:.]+>")
_SPEAKER = re.compile(r"(?:<[^<>]*>|\{[^{}]*\}|\s)*[-–—]\s*\S")
_LINE = re.compile(r"[^\n]+")
_MOST_CUES = 4  # in one sentence
# Characters in a line, by whether the language has blanks between words: what broadcasters use for
# Latin script and for Chinese.
_LINE_LENGTH = {True: 42, False: 16}

_Span = tuple[int, int]


class Subtitles(TextFile):
    """SubRip and WebVTT."""

    def parse(self, text: str) -> Iterator[str]:
        """Yield what is kept, and each sentence with the times inside it."""
        if text.strip() and not _CUE.search(text):
            raise self.invalid("it has no line of times with text after it")
        position = 0
        for spans in _sentences(text):
            yield text[position : spans[0][0]]
            tokens = list(_tokens(text[slice(*spans[0])]))
            for before, after in pairwise(spans):
                tokens.append(Token(text[before[1] : after[0]], "object", " "))
                tokens += _tokens(text[slice(*after)])
            yield self.slot(tokens, escape_html if kind_of(self._path) == "vtt" else str)
            position = spans[-1][1]
        yield text[position:]

    def render(self, slot: Slot, unit: Unit) -> str:
        """Write the cues of a sentence, each in at most two lines."""
        cues, times = [[]], [""]  # type: ignore[var-annotated]
        for piece in unit:
            if piece.item is not None and "-->" in piece.item:
                times.append(piece.item)
                cues.append([])
            else:
                cues[-1].append(piece)
        if len(cues) > 1 and not all(text_of(cue).strip() for cue in cues):
            cues = self._shared_out(unit, len(cues))
        line_end = "\r\n" if "\r\n" in self._text else "\n"
        lines = [self._wrapped(super(Subtitles, self).render(slot, cue).strip()) for cue in cues]
        ended = [line.replace("\n", line_end) for line in lines]
        return "".join(time + line for time, line in zip(times, ended, strict=True))

    def _shared_out(self, unit: Unit, count: int) -> list[Unit]:
        """Give each cue a part of about the same length: alignment left one of them empty."""
        text = " ".join(text_of(unit).split())
        gap = " " if has_word_blanks(self._target) else ""
        words = text.split() if gap else list(text)
        bounds = [index * len(words) // count for index in range(count + 1)]
        return [[Piece(gap.join(words[a:b]) or "…")] for a, b in pairwise(bounds)]

    def _wrapped(self, text: str) -> str:
        """Break a text into at most two lines of about the same length; a speaker has one."""
        has_blanks = has_word_blanks(self._target)
        longest = _LINE_LENGTH[has_blanks]
        if len(_TAG.sub("", text)) <= longest or _SPEAKER.match(text):
            return text
        if not has_blanks:
            half = (len(text) + 1) // 2
            return f"{text[:half]}\n{text[half:]}"
        blanks = [match.start() for match in re.finditer(" ", text)]
        if not blanks:
            return text
        # The longer line is as short as possible; of two such blanks, the last one is taken.
        middle = min(blanks, key=lambda blank: (max(blank, len(text) - blank - 1), -blank))
        return f"{text[:middle]}\n{text[middle + 1 :]}"


def _sentences(text: str) -> Iterator[list[_Span]]:
    """Yield the spans of the text of consecutive cues that are one sentence.

    A cue in which several speakers have a line each is one unit for each line.
    """
    sentence: list[_Span] = []
    for match in _CUE.finditer(text):
        begin = match.start(1)
        end = begin + len(match[1].rstrip())
        starts = [line.start() for line in _LINE.finditer(match[1]) if _SPEAKER.match(line[0])]
        if sentence and (_SPEAKER.match(match[1]) or len(sentence) == _MOST_CUES):
            yield sentence
            sentence = []
        if len(starts) > 1 and starts[0] == 0:
            for first, last in pairwise([*starts, end - begin]):
                length = len(match[1][first:last].rstrip())
                yield [(begin + first, begin + first + length)]
            continue
        sentence.append((begin, end))
        if _sentence_end().search(text, begin, end):
            yield sentence
            sentence = []
    if sentence:
        yield sentence


@cache
def _sentence_end() -> re.Pattern[str]:
    """Match the mark at the end of a sentence, with the quotes, brackets and tags after it."""
    marks, closing = re.escape(sentence_marks()), re.escape(closing_marks())
    return re.compile(rf"[{marks}…♪:][{closing}]*(?:\s|</[^<>]*>)*\Z")


def _tokens(text: str) -> Iterator[Token]:
    for before, match in divided(_TAG, text):
        yield from texts(before)
        if match and match["name"]:
            yield Token(match[0], "end" if match["close"] else "begin", name=match["name"])
        elif match:
            yield Token(match[0], "object")
