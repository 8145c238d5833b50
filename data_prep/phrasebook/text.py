"""From words to a sentence: spaces, commas, the capital and the final stop."""

from __future__ import annotations

from data_prep.phrasebook.meaning import Mood

STOPS = {Mood.STATEMENT: ".", Mood.QUESTION: "?", Mood.IMPERATIVE: "!"}


class Notes:
    """Collects the grammar that a sentence shows while a language builds it."""

    def __init__(self) -> None:
        """Start without shown phenomena."""
        self._shown: dict[tuple[str, str], None] = {}

    def add(self, phenomenon: str, words: str = "") -> None:
        """Notes a phenomenon, and words that show it."""
        self._shown[phenomenon, words] = None

    def shown(self) -> tuple[tuple[str, str], ...]:
        """What was noted, in order, each once."""
        return tuple(self._shown)


def join(words: list[str]) -> str:
    """Join words with spaces; a comma follows the previous word directly and is not repeated."""
    text = " ".join(word for word in words if word)
    while " ," in text:
        text = text.replace(" ,", ",")
    while ",," in text:
        text = text.replace(",,", ",")
    return text


def sentence_text(words: list[str], mood: Mood, space_before_mark: bool = False) -> str:
    """Writes a sentence.

    Args:
        words: Words and commas in order.
        mood: Determines the final mark.
        space_before_mark: Whether a space precedes ? and !, as in French.

    Returns:
        The sentence with a capital letter and a final mark.
    """
    text = join(words).rstrip(",")
    stop = STOPS[mood]
    if space_before_mark and stop != ".":
        stop = " " + stop
    return text[0].upper() + text[1:] + stop
