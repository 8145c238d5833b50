"""Which test set this is, known by a checksum of its references, and what looks wrong with them.

`test_sets.tsv` beside this module names test sets; one more is one more line of four columns, split
by tabs: the checksum, which every evaluation writes into `scores.json`, the references' language,
their number, and a name. What the sacrebleu command has downloaded is known too, out of its cache.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.utils import SACREBLEU_DIR

from nmt.errors import UserError
from nmt.files import iterate_lines

TABLE = Path(__file__).with_name("test_sets.tsv")

FULL, FILTERED = 3_003, 2_737
"""Sentences of newstest2014: of the whole set, and of the one that was scored in 2014 (en-de)."""

_NEWSTEST2014 = re.compile(r"(newstest|wmt)[ _-]?(20)?14", re.IGNORECASE)

_WHITE_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")

_ENTITIES = re.compile(r"&(apos|quot|amp|lt|gt|#9[13]|#124);")


@dataclass(frozen=True)
class Identity:
    """What a test set turned out to be.

    Attributes:
        known_as: its name, where its first references are known; else "".
        checksums: of the references, one a set of them.
        warnings: sentences about what a reader of its scores has to know.
    """

    known_as: str
    checksums: tuple[str, ...]
    warnings: tuple[str, ...]


def checksum(lines: Iterable[str]) -> str:
    """SHA-256 of the lines, as hexadecimal digits.

    White space and composed characters count in their plain form, as in a prepared corpus, so that
    a set is known before and after preparation. Without such oddities it is what `sha256sum` says
    of the file.
    """
    digest = hashlib.sha256()
    for line in lines:
        text = unicodedata.normalize("NFC", line).replace("\ufeff", "").replace("\u2581", "_")
        digest.update((_WHITE_SPACE.sub(" ", text).strip(" ") + "\n").encode())
    return digest.hexdigest()


def identify(name: str, language: str, references: Sequence[Sequence[str]]) -> Identity:
    """Recognise a test set.

    Args:
        name: what the user calls it: its split or file.
        language: code of its target language.
        references: one or more sequences, one reference a sentence in each.

    Raises:
        UserError: a line of `test_sets.tsv` is not like the others.
    """
    checksums = tuple(checksum(lines) for lines in references)
    first = references[0]
    known_as = _named(checksums[0], language, len(first))
    warnings = [*suspicions(first), *_newstest2014(name, known_as, len(first))]
    return Identity(known_as, checksums, tuple(warnings))


def suspicions(references: Sequence[str]) -> list[str]:
    """What makes references look tokenised or lower-cased: BLEU on them compares with nothing."""
    found = []
    # A fiftieth: real text has a stray "word ." here and there.
    many = max(1, len(references) / 50)
    if any("@-@" in line for line in references):
        found.append("the references hold @-@: they are tokenised, and scores want raw text")
    if sum(bool(_ENTITIES.search(line)) for line in references) >= many:
        found.append("the references hold &apos; or the like: they were tokenised by Moses")
    if sum(line.rstrip().endswith(" .") for line in references) >= many:
        found.append("the references have spaces before full stops: they look tokenised")
    text = "".join(references)
    if text.upper() != text and text.lower() == text:
        found.append("the references have no capital letter: they look lower-cased")
    return found


def _named(digest: str, language: str, num_sentences: int) -> str:
    for known in read_table():
        if known[0] == digest and known[1] == language:
            return known[3]
    return next(
        (
            name
            for name, path in _cached(language)
            if _num_lines(path) == num_sentences and checksum(iterate_lines(path)) == digest
        ),
        "",
    )


def read_table(path: Path = TABLE) -> list[tuple[str, str, int, str]]:
    """Checksum, language, sentences and name of the known test sets.

    Raises:
        UserError: a line is not like the others.
    """
    rows = []
    for number, line in enumerate(iterate_lines(path), start=1):
        if not line or line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != 4 or not re.fullmatch("[0-9a-f]{64}", cells[0]) or not cells[2].isdigit():
            raise UserError(
                f"{path}: line {number}: write a checksum of 64 hexadecimal digits, a language, a"
                " number of sentences and a name, split by tabs"
            )
        rows.append((cells[0], cells[1], int(cells[2]), cells[3]))
    return rows


def _cached(language: str) -> Iterator[tuple[str, Path]]:
    """The references of this language that sacrebleu has downloaded, each with its set's name."""
    folder = Path(SACREBLEU_DIR)
    for path in sorted(folder.rglob("*.ref*")):
        pair = re.search(r"\.(\w+-\w+)\.ref[^.]*$", path.name)
        if pair and pair[1].endswith(f"-{language}") and path.is_file():
            yield f"sacrebleu -t {path.parent.relative_to(folder)} -l {pair[1]}", path


def _num_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def _newstest2014(name: str, known_as: str, num_sentences: int) -> list[str]:
    """Two test sets go by this name, and their scores differ."""
    if not _NEWSTEST2014.search(name) or known_as:
        return []
    unknown = "its references are not the known ones, so this goes by its lines"
    if num_sentences == FULL:
        return [f"taken for newstest2014 full, {FULL:,} sentences: {unknown}"]
    if num_sentences == FILTERED:
        return [
            f"taken for the variant of newstest2014 with {FILTERED:,} sentences: {unknown}. Most"
            f" published figures are on the full {FULL:,}"
        ]
    return [
        f"newstest2014 has {FULL:,} sentences, or {FILTERED:,} in its other variant; this has"
        f" {num_sentences:,}, so its scores compare with neither"
    ]
