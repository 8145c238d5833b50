"""Languages and splits, as people name them in files, columns and attributes.

A language may be a code of ISO 639-1, -2 or -3, a tag of BCP 47, or an English name, all with `-`
or `_`. The code of the configuration itself always fits, even if it is no code of a language.
"""

import re
from functools import cache, lru_cache
from typing import Any, NamedTuple

import langcodes

from data_prep.protocol import TEST, TRAIN, VALID

_SIDES = ({"source", "src"}, {"target", "tgt", "trg"})

_TRAIN_WORDS = {"train", "training", "trn"}
VALID_WORDS = (
    "valid", "validation", "val", "dev", "devel", "development", "newsdev", "tune", "tuning",
    "eval", "evaluation",
)  # fmt: skip
"""Names of validation sets; the split of a folder with the first of these is its `valid`."""
_TEST_WORDS = {"test", "tests", "testing", "tst", "devtest", "newstest"}

_MIN_NAME = 4
"""English names of languages are longer; shorter words are codes."""

_PATTERNS = [
    re.compile(pattern)
    for pattern in (
        r"(?P<base>.+)\.(?P<side>[^.]+)",  # train.en
        r"(?P<side>[^.]+)\.(?P<base>.+)",  # eng_Latn.devtest
        r"(?P<side>[^.]+?)[-_](?P<base>[^.]+)",  # src-train.txt
        r"(?P<base>[^.]+?)[-_](?P<side>[^.]+)",  # train_en.txt
        r"(?P<side>[^.]+)(?P<base>)",  # source
    )
]


class FileName(NamedTuple):
    """The name of a file of aligned text: what it has in common with the other side, and its side.

    `side` is 0 for the source and 1 for the target. `rank` is that of `fit`.
    """

    base: str
    side: int
    rank: int


@cache
def language(name: str) -> Any:
    """Return a `langcodes.Language`, or None if a name is no language."""
    try:
        if langcodes.tag_is_valid(name):
            return langcodes.Language.get(name)
        return langcodes.find(name, language="en") if len(name) >= _MIN_NAME else None
    except LookupError:
        return None


def fit(name: str, code: str) -> int | None:
    """Return how well a name fits the language `code`; None if it is another language.

    0 is the language itself or a variety of it, such as `de-AT` for `de`. Each of the script and
    the region that `code` has and the name lacks adds 1.
    """
    if name.lower().replace("-", "_") == code.lower().replace("-", "_"):
        return 0
    found, wanted = language(name), language(code)
    if not found or not wanted or not is_same(found.language, wanted.language):
        return None
    if (wanted.script or wanted.territory) and found.maximize().script != wanted.maximize().script:
        return None
    if wanted.territory and found.territory not in (None, wanted.territory):
        return None
    return sum(
        bool(part and not other)
        for part, other in ((wanted.script, found.script), (wanted.territory, found.territory))
    )


@cache
def is_same(first: str, second: str) -> bool:
    """Return whether two codes are one language, such as `cmn` and `zh`, or `nb` and `no`."""
    return first == second or langcodes.tag_distance(first, second) <= 1


@lru_cache(maxsize=1000)
def side_of(word: str, languages: tuple[str, str]) -> tuple[int, int] | None:
    """Return the side that a word names (0 source, 1 target) and its rank, or None.

    The word is a language, or `source`, `src`, `target`, `tgt` or `trg`.
    """
    for side, words in enumerate(_SIDES):
        if word.lower() in words:
            return side, 0
    ranks = sorted(
        (rank, word.lower() != code.lower(), side)
        for side, code in enumerate(languages)
        if (rank := fit(word, code)) is not None
    )
    if not ranks or len({rank[:2] for rank in ranks}) < len(ranks):
        return None
    return ranks[0][2], ranks[0][0]


def split_name(name: str, languages: tuple[str, str]) -> FileName | None:
    """Divide the name of a file, without the ending of a compression; None if it is no side."""
    name = name.removesuffix(".txt")
    for pattern in _PATTERNS:
        if (match := pattern.fullmatch(name)) and (side := side_of(match["side"], languages)):
            return FileName(match["base"] or TRAIN, *side)
    return None


def role(name: str) -> str | None:
    """Return `train`, `valid` or `test` for the name of a split or of a part; None for others."""
    words = re.findall("[a-z]+", name.lower())
    if words[:1] == [TRAIN] or not words:
        return TRAIN if words else None
    for split, known in ((TEST, _TEST_WORDS), (VALID, VALID_WORDS), (TRAIN, _TRAIN_WORDS)):
        if set(words) & set(known):
            return split
    return None


def valid_order(name: str) -> tuple[int, str]:
    """Return the key by which validation sets are sorted; the first one is `valid`."""
    words = re.findall("[a-z]+", name.lower())
    return min(VALID_WORDS.index(word) for word in words if word in VALID_WORDS), name
