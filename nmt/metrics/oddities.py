"""Suspicious translations: copies, repetitions, empty and truncated ones."""

import re
from collections.abc import Sequence

from nmt.base.languages import closing_marks, is_unspaced, sentence_marks, split_words

ODDITIES = {
    "copied": "the translation equals the source",
    "empty": "the translation is empty or consists of white space",
    "repeated": (
        "a sequence of one to four words (in scripts without blanks, of two to eight characters)"
        " occurs three times in a row or more"
    ),
    "truncated": (
        "the reference ends with a mark such as . ! ? … and the translation does not, for example"
        " because it reached the maximum length; quotes and brackets after the mark are ignored,"
        " and empty translations are not counted"
    ),
}
"""Kinds of translations that are usually wrong, with their definitions."""

_OPENING = "„«‹‘"  # in some languages, these close
_REPEATED, _REPEATED_CHARACTERS = (
    re.compile(rf"(?<!\S)(\S+(?: \S+){{{more}}})(?: \1){{2}}(?!\S)") for more in ("0,3", "1,7")
)


def find_oddities(
    sources: Sequence[str], references: Sequence[str], translations: Sequence[str]
) -> dict[str, list[int]]:
    """Find the suspicious translations of each kind of `ODDITIES`."""
    found: dict[str, list[int]] = {kind: [] for kind in ODDITIES}
    for index, row in enumerate(zip(sources, references, translations, strict=True)):
        source, reference, text = (line.strip() for line in row)
        is_odd = {
            "copied": text == source != "",
            "empty": text == "",
            "repeated": _is_repetitive(" ".join(text.split())),
            "truncated": text != "" and has_end(reference) and not has_end(text),
        }
        for kind, indices in found.items():
            if is_odd[kind]:
                indices.append(index)
    return found


def _is_repetitive(text: str) -> bool:
    pattern = _REPEATED_CHARACTERS if is_unspaced(text) else _REPEATED
    return pattern.search(" ".join(split_words(text))) is not None


def has_end(text: str) -> bool:
    """Whether a text ends with a sentence-final mark, ignoring quotes and brackets after it."""
    closing = closing_marks() + _OPENING
    return text.rstrip().rstrip(closing).rstrip().endswith((*sentence_marks(), "…", "‥"))
