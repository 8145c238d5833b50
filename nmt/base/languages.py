"""Scripts of languages, their words and the ends of their sentences.

Languages come from CLDR by `langcodes`, properties of characters from Unicode by `regex`. A script
without blanks between words is one whose lines may break without regard to blanks: the classes
SA (Thai, Lao, Khmer, Burmese, …), ID and CJ (Han, kana, Yi) of Unicode's Line_Break (UAX #14).
Tibetan is added: it marks the ends of syllables, but not those of words.
"""

import re
import unicodedata
from functools import cache

# `langcodes` and `regex` are imported where they are used: they take a tenth of a second, and most
# commands need neither.

# No character before this range is of a script without blanks between words.
_HAS_LATE_CHARACTERS = re.compile("[\u0e01-\U0010ffff]").search

# ISO 15924 also has codes of several scripts that are written together; Unicode has not.
_MAIN_SCRIPTS = {"Hans": "Hani", "Hant": "Hani", "Jpan": "Hira", "Kore": "Hang"}

_IDEOGRAPHIC = r"[\p{Line_Break=ID}\p{Line_Break=CJ}\p{Script=Han}--[\p{Script=Latin}\p{Hangul}]]"
_UNSPACED = rf"[[{_IDEOGRAPHIC}\p{{Line_Break=SA}}\p{{Script=Tibetan}}]&&\p{{L}}]"


def primary(code: str) -> str:
    """Return a language without its script and region: `de` for `de_AT` and `de-AT`."""
    return re.split("[-_]", code)[0].lower()


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
    if text.isascii() or not _HAS_LATE_CHARACTERS(text):
        return text.split()
    return _word().findall(text)


def num_words(text: str) -> int:
    """Count the words of a normalised text, see `split_words`."""
    if text.isascii() or not _HAS_LATE_CHARACTERS(text):
        return text.count(" ") + 1 if text else 0
    return len(_word().findall(text))


def is_unspaced(text: str) -> bool:
    """Return whether a normalised text has at least two words for each part between blanks."""
    return num_words(text) >= 2 * (text.count(" ") + 1)


def continues_word(text: str) -> bool:
    """Return whether a text begins with a letter or mark of a script with blanks between words."""
    is_letter = re.match(rf"[^\W\d_{unspaced_characters()}]", text) is not None
    return is_letter or unicodedata.category(text[0])[0] == "M"


@cache
def unspaced_characters() -> str:
    """Return the letters of scripts without blanks, as ranges in a class of `re` or of RE2."""
    # Planes 2 and 3 of Unicode are reserved for ideographs.
    return "".join(f"{run[0]}-{run[-1]}" for run in _runs(_UNSPACED)) + "\U00020000-\U0003fffd"


@cache
def sentence_marks() -> str:
    """Return the marks that end sentences, in all scripts (Unicode's Sentence_Terminal).

    The marks of Tibetan are added, which end clauses and sentences.
    """
    kind = r"[\p{Sentence_Terminal}[\p{Terminal_Punctuation}&&\p{Script=Tibetan}]]"
    return "".join(_runs(kind))


@cache
def closing_marks() -> str:
    """Return the brackets and quotation marks that may follow the mark at the end of a sentence."""
    return "".join(_runs(r"[\p{Pe}\p{Pf}]")) + "\"'“"


@cache
def _word() -> re.Pattern[str]:
    unspaced = unspaced_characters()
    return re.compile(rf"[^\w\s]*[{unspaced}][^\w\s]*|[^\s{unspaced}]+")


@cache
def _characters() -> str:
    """The characters of planes 0 and 1 in their order, without white space of ASCII."""
    return "".join(map(chr, (*range(0x21, 0xD800), *range(0xE000, 0x20000))))


def _runs(kind: str) -> list[str]:
    """Return the runs of consecutive characters of a class of `regex`."""
    import regex  # noqa: PLC0415

    return list(regex.findall(f"{kind}+", _characters(), regex.VERSION1))


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
