"""Tags and other marks that were taken out of a text: where they belong in its translation."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.decoding.alignment import Links


@dataclass(frozen=True)
class Mark:
    """What was taken out of a text.

    Attributes:
        text: it.
        place: how many characters of what is left stand before it.
        is_tag: whether it is a tag, which may open or close.
    """

    text: str
    place: int
    is_tag: bool

    @property
    def name(self) -> str:
        """Of a tag: its name."""
        return re.sub(r"^</?([^\s/>]+).*$", r"\1", self.text, flags=re.DOTALL)

    @property
    def closes(self) -> bool:
        """Whether it is a closing tag."""
        return self.is_tag and self.text.startswith("</")

    @property
    def opens(self) -> bool:
        """Whether it is an opening tag."""
        return self.is_tag and not self.closes and not self.text.endswith("/>")


def put_back(source: str, translation: str, marks: Sequence[Mark], links: Links | None) -> str:
    """Put marks into a translation where the words around them went.

    What a pair of tags encloses is enclosed again, from the first to the last of its words. Any
    other mark comes before the word that comes from the word after it, else to the end.

    Args:
        source: the text that they were taken out of.
        translation: its translation.
        marks: in order.
        links: of words; None where nothing is known.
    """
    words = [match.span() for match in re.finditer(r"\S+", translation)]
    source_words = [match.span() for match in re.finditer(r"\S+", source)]
    from_source: dict[int, list[int]] = {}
    for source_word, target_word in links or []:
        from_source.setdefault(source_word, []).append(target_word)
    closing = _pairs(marks)
    # What goes to a place of the translation: behind the word before it, or before the word after.
    behind: list[tuple[int, int, str]] = []
    for number, mark in enumerate(marks):
        if number in closing:
            other = marks[closing[number]]
            inside = [
                word
                for place, (begin, end) in enumerate(source_words)
                if begin < other.place and end > mark.place
                for word in from_source.get(place, [])
            ]
            if inside:
                first, last = words[min(inside)][0], words[max(inside)]
                behind.append((first, number, mark.text))
                behind.append((_end(translation, last, source, other), closing[number], other.text))
                continue
            place = _before(source_words, from_source, words, mark, len(translation))
            behind.append((place, number, mark.text))
            behind.append((place, closing[number], other.text))
        elif number not in closing.values():
            place = _before(source_words, from_source, words, mark, len(translation))
            behind.append((place, number, _spaced(translation, place, mark)))
    whole, last_place = [], 0
    # Closing tags first: what they close stands before, what others open behind.
    for place, _, text in sorted(behind, key=lambda one: (one[0], one[1])):
        whole += [translation[last_place:place], text]
        last_place = place
    return "".join([*whole, translation[last_place:]])


def _pairs(marks: Sequence[Mark]) -> dict[int, int]:
    """Opening tags and those that close them, by number."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for number, mark in enumerate(marks):
        if mark.opens:
            opened.append(number)
        elif mark.closes:
            for other in reversed(opened):
                if marks[other].name == mark.name:
                    pairs[other] = number
                    del opened[opened.index(other) :]
                    break
    return pairs


def _before(
    source_words: Sequence[tuple[int, int]],
    from_source: dict[int, list[int]],
    words: Sequence[tuple[int, int]],
    mark: Mark,
    end: int,
) -> int:
    """Where the first word begins that comes from a word after the mark."""
    for number, (begin, _) in enumerate(source_words):
        if begin >= mark.place and number in from_source:
            return words[min(from_source[number])][0]
    return end


def _end(translation: str, word: tuple[int, int], source: str, tag: Mark) -> int:
    """Where a word ends; before its punctuation marks, where the tag stood so."""
    begin, end = word
    if source[: tag.place][-1:].isalnum():
        bare = re.match(r".*\w", translation[begin:end])
        return begin + bare.end() if bare else end
    return end


def _spaced(translation: str, place: int, mark: Mark) -> str:
    """The mark with white space around, as a word needs it."""
    before = "" if not translation[:place] or translation[place - 1].isspace() else " "
    after = "" if place == len(translation) else " "
    return f"{before}{mark.text}{after}"
