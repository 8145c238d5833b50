"""Protection of tags, addresses and placeholders, which stay unchanged in a translation.

Models have not learnt to copy such spans. A text is first translated as it is. If spans are lost,
the text is translated again without its spans, which are then inserted by the word alignment.
"""

import bisect
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nmt.translation.alignment import Aligner
from nmt.translation.request import Links, Translation
from nmt.translation.translator import Translator

_SPAN = re.compile(
    r"""
    </? [A-Za-z][^<>]* >
    | (?: https?://|www\.) [^\s<>"]* [^\s<>".,;:!?)\]}'»”]
    | (?<![\w.+-]) [\w.+-]++ @ [\w-]+ (?:\.[\w-]+)+  # possessive: linear time in long words
    | \{\{ [^{}]+ \}\} | \$?\{ [^{}\s]+ \}
    | % \(\w+\) [a-z] | % \d*\$?[sdif] \b
    | __ \w+? __
    """,
    re.VERBOSE,
)

_TAG = re.compile(r"</?([A-Za-z][^<>\s/]*)")  # group 1: name of the tag

_Span = tuple[int, int]  # begin and end

_FIRST_EAST_ASIAN = "\u2e80"  # most scripts above it have no spaces
_AFTER_WORD = ".,;:!?…)»”"


@dataclass(frozen=True)
class Mark:
    """Span that was removed from a text.

    Attributes:
        text: the span.
        offset: index in the text without spans at which the span was.
    """

    text: str
    offset: int


def protected_spans(text: str) -> list[str]:
    """Return the protected spans of a text in order."""
    return [match[0] for match in _SPAN.finditer(text)]


@dataclass
class SpanCounts:
    """Numbers of protected spans by outcome."""

    kept: int = 0
    inserted: int = 0
    untranslated: int = 0

    def __str__(self) -> str:
        """Return a summary in one line."""
        return (
            f"protected spans: {self.kept:,} kept by the model, {self.inserted:,} inserted by"
            f" alignment, {self.untranslated:,} in untranslated lines"
        )


class Protection:
    """Restores protected spans that translations lack, by the links of an aligner."""

    def __init__(self, aligner: Aligner) -> None:
        self._aligner = aligner
        self.counts = SpanCounts()

    def restored(
        self, texts: Sequence[str], found: list[list[Translation]], translator: Translator
    ) -> list[list[Translation]]:
        """Return translations that contain the spans of their text.

        There may be fewer than num_best translations where the model lost spans.

        Args:
            texts: the texts.
            found: the translations of each text.
            translator: translates texts again, without their spans.
        """
        found = list(found)
        incomplete = []
        for index, text in enumerate(texts):
            if spans := protected_spans(text):
                kept = [one for one in found[index] if _keeps(one.text, spans)]
                if not any(map(str.isalnum, _SPAN.sub(" ", text))):
                    kept = [Translation(text, 0.0)]  # nothing to translate
                if kept:
                    found[index] = kept
                    self.counts.kept += len(spans)
                else:
                    incomplete.append(index)
        repaired = self._translate_without_spans([texts[i] for i in incomplete], translator)
        for index, translations in zip(incomplete, repaired, strict=True):
            found[index] = translations
        return found

    def _translate_without_spans(
        self, texts: list[str], translator: Translator
    ) -> list[list[Translation]]:
        """Remove the spans of texts, translate the rest, and insert the spans.

        If no translation of a text keeps all its spans, the translation is the text itself. Texts
        with spans have no constraints; see `Pipeline.check`.
        """
        if not texts:
            return []
        bare, marks = zip(*map(without_spans, texts), strict=True)
        found = translator.translate(bare)
        pairs = [
            (source, one.text) for source, some in zip(bare, found, strict=True) for one in some
        ]
        links = iter(self._aligner.links([s for s, _ in pairs], [t for _, t in pairs]))
        repaired = []
        for text, source, removed, some in zip(texts, bare, marks, found, strict=True):
            kept: list[Translation] = []
            # Text with spans → the first translation without spans that gave it. If a different one
            # gives the same text, it is dropped.
            bare_texts: dict[str, str] = {}
            for one in some:
                inserted = insert_marks(source, one.text, removed, next(links))
                is_duplicate = bare_texts.setdefault(inserted, one.text) != one.text
                if not is_duplicate and _keeps(inserted, protected_spans(text)):
                    kept.append(replace(one, text=inserted))
            if kept:
                self.counts.inserted += len(removed)
            else:
                self.counts.untranslated += len(removed)
            repaired.append(kept or [Translation(text, 0.0)])
        return repaired


def without_spans(text: str) -> tuple[str, list[Mark]]:
    """Return a text without its spans, and the spans.

    A space replaces spans between two words, as in `one<br/>two`. Nothing replaces the opening or
    closing tags of pairs, which may be inside a word, as in `<b>w</b>ord`.
    """
    matches = list(_SPAN.finditer(text))
    pairs = _tag_pairs([match[0] for match in matches])
    closing = set(pairs.values())
    kept: list[str] = []
    marks: list[Mark] = []
    last = length = 0  # of the text that is kept
    end = ""  # its last character
    kinds: set[str] = set()  # of the spans since the last character
    for index, match in enumerate(matches):
        if match.start() > last:
            kinds.clear()
        kept.append(text[last : match.start()])
        length += len(kept[-1])
        end = kept[-1][-1:] or end
        last = match.end()
        marks.append(Mark(match[0], length))
        kinds.add("opening" if index in pairs else "closing" if index in closing else "single")
        is_inside = kinds in ({"opening"}, {"closing"})
        is_last = index + 1 == len(matches) or matches[index + 1].start() > last
        if is_last and not is_inside and _needs_space(end, text[last : last + 1]):
            kept.append(" ")
            length += 1
            end = " "
    return "".join([*kept, text[last:]]), marks


def _needs_space(end: str, start: str) -> bool:
    """Return whether a space must separate two characters between which spans were removed."""
    if not end or min(end, start) >= _FIRST_EAST_ASIAN:
        return False
    return start.isalnum() and (end.isalnum() or end in _AFTER_WORD)


def _keeps(translation: str, spans: Sequence[str]) -> bool:
    return Counter(protected_spans(translation)) == Counter(spans)


def insert_marks(source: str, translation: str, marks: Sequence[Mark], links: Links | None) -> str:
    """Insert marks into a translation.

    A pair of tags encloses the translations of the source words between them. Any other mark is
    inserted before the translation of the next source word, or at the end.

    `source` and `translation` have no spans. `marks` are in the order of the source. Without
    `links`, all marks go to the end.
    """
    words = _word_spans(translation)
    source_words = _word_spans(source)
    # (begin, end) of a source word and of a target word linked to it, in source order.
    linked = sorted((source_words[i], words[j]) for i, j in links or [])
    begins, ends = ([word[side] for word, _ in linked] for side in (0, 1))
    first, last_word = (_extremes([t for _, t in linked], choose) for choose in (min, max))

    pairs = _tag_pairs([mark.text for mark in marks])
    closing = set(pairs.values())
    insertions: list[tuple[int, int, str]] = []  # offset, index of the mark, text
    for index, mark in enumerate(marks):
        if index in closing:
            continue
        after = bisect.bisect_left(begins, mark.offset)
        offset = linked[after][1][0] if after < len(linked) else len(translation)
        if index not in pairs:
            insertions.append((offset, index, _with_spaces(translation, offset, mark)))
            continue
        end_mark = marks[pairs[index]]
        inside = bisect.bisect_right(ends, mark.offset), bisect.bisect_left(begins, end_mark.offset)
        end_offset = offset
        if inside[0] < inside[1]:
            offset = first(*inside)[0]
            begin, end_offset = last_word(*inside)
            # After a letter or digit, the closing tag precedes the punctuation of the word.
            bare = re.match(r".*\w", translation[begin:end_offset])
            if bare and source[end_mark.offset - 1 : end_mark.offset].isalnum():
                end_offset = begin + bare.end()
        insertions += [(offset, index, mark.text), (end_offset, pairs[index], end_mark.text)]
    parts, last = [], 0
    for offset, _, text in sorted(insertions):
        parts += [translation[last:offset], text]
        last = offset
    return "".join([*parts, translation[last:]])


def _word_spans(text: str) -> list[_Span]:
    return [match.span() for match in re.finditer(r"\S+", text)]


def _tag_pairs(spans: Sequence[str]) -> dict[int, int]:
    """Return the index of the closing tag of each opening tag that has one."""
    pairs: dict[int, int] = {}
    opened: list[tuple[int, str]] = []  # index and name
    numbers: Counter[str] = Counter()  # of opened tags by name
    for index, span in enumerate(spans):
        tag = _TAG.match(span)
        if tag and span.startswith("</"):
            while numbers[tag[1]]:
                begin, name = opened.pop()
                numbers[name] -= 1
                if name == tag[1]:
                    pairs[begin] = index
                    break
        elif tag and not span.endswith("/>"):
            opened.append((index, tag[1]))
            numbers[tag[1]] += 1
    return pairs


def _extremes(
    values: Sequence[_Span], choose: Callable[[_Span, _Span], _Span]
) -> Callable[[int, int], _Span]:
    """Return a function that gives min or max of values[begin:end] in constant time.

    Level k of the table has the results for all ranges of 2 ** k values (a sparse table).
    """
    levels = [list(values)]
    while (width := 2 ** (len(levels) - 1)) * 2 <= len(values):
        levels.append(list(map(choose, levels[-1], levels[-1][width:])))

    def of_range(begin: int, end: int) -> _Span:
        level = (end - begin).bit_length() - 1
        return choose(levels[level][begin], levels[level][end - 2**level])

    return of_range


def _with_spaces(translation: str, offset: int, mark: Mark) -> str:
    """Return a mark with the spaces that separate it from the words around it."""
    before = "" if offset == 0 or translation[offset - 1].isspace() else " "
    after = "" if offset == len(translation) else " "
    return f"{before}{mark.text}{after}"
