"""Write words as a sentence: spaces, commas, the capital letter and the final mark."""

from data_prep.phrasebook.meaning import Mood

STOPS = {Mood.STATEMENT: ".", Mood.QUESTION: "?", Mood.IMPERATIVE: "!"}


class Notes:
    """Records the phenomena of a sentence while it is built."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], None] = {}

    def add(self, phenomenon: str, words: str = "") -> None:
        """Record a phenomenon, and words that show it."""
        self._shown[phenomenon, words] = None

    def shown(self) -> tuple[tuple[str, str], ...]:
        """The recorded phenomena, in order, each once."""
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
    """Write a sentence.

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
