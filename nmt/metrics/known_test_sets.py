"""Identification of test sets by a checksum of their references, and warnings about them.

`test_sets.tsv` beside this module lists the known test sets. To add one, add a line of four columns
separated by tabs: the checksum (every evaluation writes it to `scores.json`), the language of the
references, their number, and a name. Test sets in sacrebleu's download cache are known, too.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.utils import SACREBLEU_DIR

from nmt.base.errors import UserError
from nmt.base.files import iterate_lines

TABLE = Path(__file__).with_name("test_sets.tsv")

# Sentences of newstest2014: of the whole set, and of the one that was scored in 2014 (en-de).
_FULL, _FILTERED = 3_003, 2_737
_NEWSTEST2014 = re.compile(r"(newstest|wmt)[ _-]?(20)?14", re.IGNORECASE)
_WHITE_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_ENTITIES = re.compile(r"&(apos|quot|amp|lt|gt|#9[13]|#124);")


@dataclass(frozen=True)
class Identity:
    """Identity of a test set.

    Attributes:
        known_as: the name of the test set with these references; empty if they are unknown.
        checksums: one for each set of references.
        warnings: sentences about what affects the scores.
    """

    known_as: str
    checksums: tuple[str, ...]
    warnings: tuple[str, ...]


def checksum(lines: Iterable[str]) -> str:
    """Compute the SHA-256 of the lines as hexadecimal digits.

    White space and composed characters are normalised as in a prepared corpus, so preparation does
    not change the checksum. For normalised text it equals the output of `sha256sum`.
    """
    digest = hashlib.sha256()
    for line in lines:
        text = unicodedata.normalize("NFC", line).replace("\ufeff", "").replace("\u2581", "_")
        digest.update((_WHITE_SPACE.sub(" ", text).strip(" ") + "\n").encode())
    return digest.hexdigest()


def identify(name: str, language: str, references: Sequence[Sequence[str]]) -> Identity:
    """Identify a test set, which the user calls `name`, by its first set of references."""
    checksums = tuple(checksum(lines) for lines in references)
    first = references[0]
    known_as = _known_name(checksums[0], language, len(first))
    warnings = suspicions(first)
    if not known_as and _NEWSTEST2014.search(name):
        warnings.append(
            f"its references are not known as newstest2014, which has {_FULL:,} sentences, or"
            f" {_FILTERED:,} in the variant that was scored in 2014; this test set has"
            f" {len(first):,}, so do not compare its scores with published ones"
        )
    return Identity(known_as, checksums, tuple(warnings))


def suspicions(references: Sequence[str]) -> list[str]:
    """List the signs that references are tokenised or lower-cased instead of raw text."""
    found = []
    # Raw text contains a few such lines, so at least two per cent are required.
    threshold = max(1, len(references) / 50)
    if any("@-@" in line for line in references):
        found.append("the references contain @-@: they are tokenised; use raw text")
    if sum(bool(_ENTITIES.search(line)) for line in references) >= threshold:
        found.append("the references contain &apos; or similar: they were tokenised by Moses")
    if sum(line.rstrip().endswith(" .") for line in references) >= threshold:
        found.append("the references have spaces before full stops: they look tokenised")
    text = "".join(references)
    if text.upper() != text and text.lower() == text:
        found.append("the references have no capital letter: they look lower-cased")
    return found


def read_table(path: Path = TABLE) -> list[tuple[str, str, int, str]]:
    """Read checksum, language, number of sentences and name of the known test sets.

    Raises:
        UserError: a line is malformed.
    """
    rows = []
    for number, line in enumerate(iterate_lines(path), start=1):
        if not line or line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != 4 or not re.fullmatch("[0-9a-f]{64}", cells[0]) or not cells[2].isdigit():
            raise UserError(
                f"{path}: line {number}: write a checksum of 64 hexadecimal digits, a language, a"
                " number of sentences and a name, separated by tabs"
            )
        rows.append((cells[0], cells[1], int(cells[2]), cells[3]))
    return rows


def _known_name(digest: str, language: str, num_sentences: int) -> str:
    for known_digest, known_language, _, name in read_table():
        if (known_digest, known_language) == (digest, language):
            return name
    for name, path in _cached_references(language):
        has_length = path.read_bytes().count(b"\n") == num_sentences
        if has_length and checksum(iterate_lines(path)) == digest:
            return name
    return ""


def _cached_references(language: str) -> Iterator[tuple[str, Path]]:
    """Yield name and file of each set of references in sacrebleu's download cache."""
    folder = Path(SACREBLEU_DIR)
    for path in sorted(folder.rglob("*.ref*")):
        pair = re.search(r"\.(\w+-\w+)\.ref[^.]*$", path.name)
        if pair and pair[1].endswith(f"-{language}") and path.is_file():
            yield f"sacrebleu -t {path.parent.relative_to(folder)} -l {pair[1]}", path
