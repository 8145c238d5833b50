"""Tags, addresses and placeholders stay in a translation letter by letter.

The model has learnt nothing about them. So a text is translated as it is; where a span does not
come out whole, it is translated with words that models tend to copy in its place; where these do
not come out either, and for all tags, it is left out and put where the words around it went.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from nmt.decoding.alignment import Aligner, Links
from nmt.decoding.markup import Mark, put_back
from nmt.decoding.task import Demand, Wish
from nmt.decoding.translator import Translation

_SPAN = re.compile(
    r"""
    (?P<tag> </?[A-Za-z][^<>]*> )
    | (?: https?://|www\.) [^\s<>"]* [^\s<>".,;:!?)\]}'»”]
    | (?<![\w.+-]) [\w.+-]++ @ [\w-]+ (?:\.[\w-]+)+  # tried once a word, however long
    | \{\{ [^{}]+ \}\} | \$?\{ [^{}\s]+ \}
    | % \(\w+\) [a-z] | % \d*\$?[sdif] \b
    | __ \w+? __
    """,
    re.VERBOSE,
)

# Words to stand for spans, by kind: which kind a model copies depends on its text.
_STAND_INS = (
    ("Tom", "Maria", "Peter", "Anna", "Paul", "Martin"),
    ("Paris", "Berlin", "London", "Boston", "Madrid", "Lima"),
    ("17", "23", "48", "36", "59", "61"),
    ("X", "Y", "Z", "Q", "W", "K"),
)


class Translates(Protocol):
    """What a translator offers."""

    def translate(
        self,
        texts: Sequence[str],
        progress: Callable[[int], None] | None = None,
        lines: Sequence[int] | None = None,
        wishes: Sequence[Wish] | None = None,
    ) -> list[list[Translation]]:
        """For each text its translations, best first."""

    def demand(self, wish: Wish) -> Demand:
        """What a wish asks of the ids; a UserError where it cannot be met."""


def spans(text: str) -> list[str]:
    """What is to stay as it is, in order."""
    return [match[0] for match in _SPAN.finditer(text)]


@dataclass
class Tally:
    """How many spans came out whole, and by which way.

    Attributes:
        lines: texts with spans.
        kept: the model kept them.
        stood_in: a word stood for them.
        put_back: they were put where the words around them went.
        untranslated: they are in texts that were left as they were, as no way kept them.
    """

    lines: int = 0
    kept: int = 0
    stood_in: int = 0
    put_back: int = 0
    untranslated: int = 0

    def told(self) -> str:
        """In one line."""
        total = self.kept + self.stood_in + self.put_back + self.untranslated
        untranslated = (
            f"; {self.untranslated:,} in lines left untranslated" if self.untranslated else ""
        )
        return (
            f"{total:,} protected spans in {self.lines:,} lines: {self.kept:,} kept by the model,"
            f" {self.stood_in:,} by words that stood for them, {self.put_back:,} put back by"
            f" alignment{untranslated}"
        )


class ProtectingTranslator:
    """A translator that keeps spans.

    Args:
        translator: what translates.
        aligner: tells where words went.
    """

    def __init__(self, translator: Translates, aligner: Aligner) -> None:
        self._translator = translator
        self._aligner = aligner
        self.tally = Tally()

    def translate(
        self,
        texts: Sequence[str],
        progress: Callable[[int], None] | None = None,
        lines: Sequence[int] | None = None,
        wishes: Sequence[Wish] | None = None,
    ) -> list[list[Translation]]:
        """For each text its translations, best first; those that are given have every span.

        Where the model lost some, fewer may be given than were asked for.
        """
        lines = lines or range(1, len(texts) + 1)
        found = self._translator.translate(texts, progress, lines, wishes)
        left = {}
        for place, text in enumerate(texts):
            if wanted := spans(text):
                self.tally.lines += 1
                whole = [each for each in found[place] if _keeps(each.text, wanted)]
                if not _has_words(text):
                    whole = [Translation(text, 0.0, [])]
                if whole:
                    found[place] = whole
                    self.tally.kept += len(wanted)
                else:
                    left[place] = text
        for stand_ins in (*_STAND_INS, ()):
            for place, some in self._repaired(left, stand_ins, lines, wishes).items():
                found[place] = some
                del left[place]
        for place, text in left.items():
            found[place] = [Translation(text, 0.0, [])]
            self.tally.untranslated += len(spans(text))
        return found

    def demand(self, wish: Wish) -> Demand:
        """What a wish asks of the ids; see `Translator`."""
        return self._translator.demand(wish)

    def _repaired(
        self,
        texts: dict[int, str],
        stand_ins: Sequence[str],
        lines: Sequence[int],
        wishes: Sequence[Wish] | None,
    ) -> dict[int, list[Translation]]:
        """Translations with every span, by place, where there are any."""
        bare = {
            place: each
            for place, text in texts.items()
            if (each := _without_spans(text, stand_ins)) is not None
        }
        places = list(bare)
        if not places:
            return {}
        translated = self._translator.translate(
            [bare[place].text for place in places],
            lines=[lines[place] for place in places],
            wishes=wishes and [wishes[place] for place in places],
        )
        pairs = [
            (place, translation)
            for place, some in zip(places, translated, strict=True)
            for translation in some
            if all(_times(word, translation.text) == 1 for word in bare[place].stand_ins)
        ]
        links = self._aligner.links(
            [bare[place].text for place, _ in pairs], [each.text for _, each in pairs]
        )
        found: dict[int, list[Translation]] = {}
        for (place, translation), some in zip(pairs, links, strict=True):
            whole = bare[place].whole(translation.text, some)
            if _keeps(whole, spans(texts[place])):
                found.setdefault(place, []).append(replace(translation, text=whole))
        for place in found:
            self.tally.put_back += len(bare[place].marks)
            self.tally.stood_in += len(bare[place].stand_ins)
        return found


@dataclass(frozen=True)
class _Bare:
    """A text without its spans.

    Attributes:
        text: what is left, with words standing for spans.
        stand_ins: these words, and the spans that they stand for.
        marks: spans that were left out.
    """

    text: str
    stand_ins: dict[str, str]
    marks: list[Mark]

    def whole(self, translation: str, links: Links | None) -> str:
        """A translation of it, with every span."""
        # First by place: the places are those of words as they stand here.
        whole = put_back(self.text, translation, self.marks, links)
        for word, span in self.stand_ins.items():
            found = _as_word(word).search(whole)
            assert found is not None
            whole = whole[: found.start()] + span + whole[found.end() :]
        return whole


def _without_spans(text: str, stand_ins: Sequence[str]) -> _Bare | None:
    """None where there are too few stand-ins, or it has them for words of its own."""
    kept: list[str] = []
    marks: list[Mark] = []
    standing: dict[str, str] = {}
    last = length = 0
    for match in _SPAN.finditer(text):
        before = text[last : match.start()]
        kept.append(before)
        length += len(before)
        last = match.end()
        if stand_ins and match["tag"] is None:
            if len(standing) == len(stand_ins):
                return None
            word = stand_ins[len(standing)]
            standing[word] = match[0]
            kept.append(word)
            length += len(word)
        else:
            marks.append(Mark(match[0], length, match["tag"] is not None))
    kept.append(text[last:])
    if any(_times(word, text) for word in standing) or (stand_ins and not standing):
        return None
    return _Bare("".join(kept), standing, marks)


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, _SPAN.sub(" ", text)))


def _keeps(translation: str, wanted: Sequence[str]) -> bool:
    return Counter(spans(translation)) == Counter(wanted)


def _times(word: str, text: str) -> int:
    return len(_as_word(word).findall(text))


def _as_word(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
