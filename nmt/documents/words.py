"""What of a text is translated: words, but no symbols and identifiers."""

import re
import unicodedata
from functools import cache

from nmt.translation.spans import without_spans

# A word in Latin script without accents; `camelCase`, `a.b`, `a_b`, and `#f00` are none.
_WORD = re.compile(r"[\W_]*(?:[A-Z]+|[A-Z]?[a-z]+)(?:['/-][A-Z]?[a-z]+)*[\W_]*")


class Symbol(str):
    """An object that is a character of the text: an emoji, an arrow, a tab or the like."""

    __slots__ = ()


@cache
def symbols() -> re.Pattern[str]:
    """Match tabs, and symbols that are no units or money, such as arrows and emojis."""
    blocks = *range(0x80, 0x3300), *range(0x1F000, 0x1FB00)
    signs = (c for c in map(chr, blocks) if unicodedata.category(c) in ("So", "Sm", "Sk"))
    some = re.escape("".join(signs).replace("°", "")) + r"\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff"
    return re.compile(rf"(\t+|[{some}][{some}\u200d\ufe0e\ufe0f]*)")


def has_words(text: str) -> bool:
    """Return whether there is anything to translate, not only numbers, addresses or identifiers."""
    words = without_spans(text)[0].split()
    return any(
        _WORD.fullmatch(one) or (not one.isascii() and any(map(str.isalpha, one))) for one in words
    )
