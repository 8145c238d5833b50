"""Scripts of languages, and words of text in scripts that write no blanks between words.

Languages come from CLDR by `langcodes`, properties of characters from Unicode by `regex`. A script
without blanks between words is one whose lines may break without regard to blanks: the classes
SA (Thai, Lao, Khmer, Burmese, …), ID and CJ (Han, kana, Yi) of Unicode's Line_Break (UAX #14).
Tibetan is added: it marks the ends of syllables, but not those of words.
"""

import re
from functools import cache

# `langcodes` and `regex` are imported where they are used: they take a tenth of a second, and most
# commands need neither.

_FIRST = "\u0e01"
"""No character before this one is of a script without blanks between words."""

# ISO 15924 also has codes of several scripts that are written together; Unicode has not.
_MAIN_SCRIPTS = {"Hans": "Hani", "Hant": "Hani", "Jpan": "Hira", "Kore": "Hang"}

_IDEOGRAPHIC = r"[\p{Line_Break=ID}\p{Line_Break=CJ}\p{Script=Han}--[\p{Script=Latin}\p{Hangul}]]"
_UNSPACED = rf"[[{_IDEOGRAPHIC}\p{{Line_Break=SA}}\p{{Script=Tibetan}}]&&\p{{L}}]"


@cache
def script_of(code: str) -> str:
    """Return the ISO 15924 code of the script of a language, such as `Latn`; "" if unknown.

    Args:
        code: a language code that may name the script or the region: `zh`, `zh_TW`, `srp_Latn`.
    """
    from langcodes import Language  # noqa: PLC0415
    from langcodes.tag_parser import LanguageTagError  # noqa: PLC0415

    try:
        return Language.get(code).maximize().script or ""
    except LanguageTagError:
        return ""


def has_word_blanks(code: str) -> bool:
    """Return whether a language separates words by blanks."""
    return not _has_letter(script_of(code), _UNSPACED)


def has_sentence_blanks(code: str) -> bool:
    """Return whether a language separates sentences by blanks: not in Chinese and Japanese."""
    return not _has_letter(script_of(code), _IDEOGRAPHIC)


def split_words(text: str) -> list[str]:
    """Split a normalised text at blanks, and after each character of a script without blanks.

    Punctuation and combining marks are parts of the words beside them.
    """
    if text.isascii() or max(text) < _FIRST:
        return text.split()
    return _word().findall(text)


def num_words(text: str) -> int:
    """Count the words of a normalised text, see `split_words`."""
    if text.isascii() or max(text) < _FIRST:
        return text.count(" ") + 1 if text else 0
    return len(_word().findall(text))


@cache
def unspaced_characters() -> str:
    """Return the letters of scripts without blanks, as ranges in a class of `re` or of RE2."""
    import regex  # noqa: PLC0415

    runs = regex.findall(f"{_UNSPACED}+", _characters(), regex.VERSION1)
    # Planes 2 and 3 of Unicode are reserved for ideographs.
    return "".join(f"{run[0]}-{run[-1]}" for run in runs) + "\U00020000-\U0003fffd"


@cache
def _word() -> re.Pattern[str]:
    unspaced = unspaced_characters()
    return re.compile(rf"[^\w\s]*[{unspaced}][^\w\s]*|[^\s{unspaced}]+")


@cache
def _characters() -> str:
    """The characters of planes 0 and 1 that may be of a script without blanks, in their order."""
    return "".join(map(chr, (*range(ord(_FIRST), 0xD800), *range(0xE000, 0x20000))))


@cache
def _has_letter(script: str, kind: str) -> bool:
    """Return whether a script has a letter of a class of characters."""
    import regex  # noqa: PLC0415

    if not script:
        return False
    name = _MAIN_SCRIPTS.get(script, script)
    try:
        pattern = regex.compile(rf"[\p{{Script={name}}}&&\p{{L}}&&{kind}]", regex.VERSION1)
    except regex.error:  # a variant of a script, such as Latf
        return False
    return pattern.search(_characters()) is not None
