"""Numbers and dates in texts, whatever their separators and order."""

import unicodedata

import regex

_GROUP = r"[,.'’\u00a0\u202f ]"  # between thousands
_NUMBER = regex.compile(rf"\p{{Nd}}{{1,3}}(?:{_GROUP}\p{{Nd}}{{3}})+(?!\p{{Nd}})|\p{{Nd}}+")
AS_WRITTEN = regex.compile(r"\p{Nd}[\p{Nd}.,]*\p{Nd}|\p{Nd}")
"""A number with its separators."""

_DATE = regex.compile(
    r"(?<![\p{Nd}./-])(?:\p{Nd}{4}([./-])\p{Nd}{1,2}\1\p{Nd}{1,2}"
    r"|\p{Nd}{1,2}([./-])\p{Nd}{1,2}\2(?:\p{Nd}{4}|\p{Nd}{2})"
    r"|\p{Nd}{1,2}\.\s\p{Nd}{1,2}\.\s\p{Nd}{4}"
    r"|\p{Nd}{4}\s?[年년]\s?\p{Nd}{1,2}\s?[月월]\s?\p{Nd}{1,2})(?![./-]?\p{Nd})"
)


def numbers(text: str) -> list[str]:
    """Return the numbers of a text without separators of thousands and zeros at the start.

    Decimals are numbers of their own, and so are the parts of a date.
    """
    found = (regex.sub(_GROUP, "", number) for number in _NUMBER.findall(text))
    # Not by int(), which takes quadratic time and rejects thousands of digits.
    digits = ("".join(str(unicodedata.digit(one)) for one in number) for number in found)
    return [number.lstrip("0") or "0" for number in digits]


def spellings(number: str) -> tuple[str, ...]:
    """Return a number as it is, with points and commas exchanged, and with blanks."""
    exchanged = number.translate(str.maketrans(".,", ",."))
    spaced = exchanged.replace(".", "\u202f")
    return tuple(dict.fromkeys((number, exchanged, spaced, spaced.replace("\u202f", " "))))


def split_dates(text: str) -> tuple[dict[tuple[str, ...], str], str]:
    """Return the dates of a text that are written in digits, and the text without them.

    The dates are a dictionary from their numbers to how the text writes them. The numbers are
    sorted, and have only the last two digits of the year, so that they are the same in all
    languages.
    """
    dates = {}
    for match in _DATE.finditer(text):
        parts = (part[-2:].lstrip("0") for part in regex.findall(r"\p{Nd}+", match[0]))
        dates[tuple(sorted(parts))] = match[0]
    return dates, _DATE.sub(" ", text)
