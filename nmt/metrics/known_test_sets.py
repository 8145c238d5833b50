"""Identification of test sets by a checksum of their references, and warnings about references.

`test_sets.tsv` beside this module lists the known test sets. To add one, add a line of four columns
separated by tabs: the checksum (every evaluation writes it to `scores.json`), the language of the
references, their number, and a name. Test sets in sacrebleu's download cache are known, too.
"""

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.utils import SACREBLEU_DIR

from nmt.base.errors import UserError
from nmt.base.files import iterate_lines
from nmt.base.languages import is_unspaced
from nmt.config import DEFAULT_TOKENIZER, blank_references

TABLE = Path(__file__).with_name("test_sets.tsv")

_NEWSTEST2014 = re.compile(r"(newstest|wmt)[ _-]?(20)?14", re.IGNORECASE)
_WHITE_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_ROW = re.compile(r"(?P<checksum>[0-9a-f]{64})\t(?P<language>[^\t]*)\t\d+\t(?P<name>[^\t]*)")
_ENTITIES = re.compile(r"&(apos|quot|amp|lt|gt|#9[13]|#124);")


@dataclass(frozen=True)
class Identity:
    """Identity of a test set.

    Attributes:
        known_as: the name of the test set with these references; empty if they are unknown.
        sha256: the checksum of each set of references.
        warnings: reasons why the scores may not be comparable with others.
    """

    known_as: str
    sha256: list[str]
    warnings: list[str]


def checksum(lines: Iterable[str]) -> str:
    """Compute the SHA-256 of the lines as hexadecimal digits.

    Lines are first normalised as in a prepared corpus, so preparation does not change the checksum.
    For normalised text, the result equals the output of `sha256sum`.
    """
    digest = hashlib.sha256()
    for line in lines:
        text = unicodedata.normalize("NFC", line).replace("\ufeff", "").replace("\u2581", "_")
        digest.update((_WHITE_SPACE.sub(" ", text).strip(" ") + "\n").encode())
    return digest.hexdigest()


def identify(
    name: str,
    language: str,
    references: Sequence[Sequence[str]],
    tokenizer: str = DEFAULT_TOKENIZER,
) -> Identity:
    """Identify a test set by its first set of references.

    Only warnings depend on `name`, the user's name for the test set, and on the tokeniser of BLEU.
    """
    checksums = [checksum(lines) for lines in references]
    first = references[0]
    known_as = _known_name(checksums[0], language, len(first))
    warnings = [*filter(None, [blank_references(references)]), *raw_text_warnings(first)]
    if tokenizer == DEFAULT_TOKENIZER and 2 * sum(map(is_unspaced, first)) > len(first):
        warnings.append(
            f"the references have no blanks between words, so {tokenizer} is a wrong tokeniser of"
            " BLEU; set evaluation.bleu_tokenizer=zh, for example"
        )
    if not known_as and _NEWSTEST2014.search(name):
        warnings.append(
            f"its {len(first):,} references have no known checksum of newstest2014; unless they"
            " equal those of sacrebleu, do not compare its scores with published ones"
        )
    return Identity(known_as, checksums, warnings)


def raw_text_warnings(references: Sequence[str]) -> list[str]:
    """Describe the signs that references are tokenised or lower-cased instead of raw text."""
    found = []
    # Raw text may also have a few lines with entities or a space before the full stop.
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


def read_table(path: Path = TABLE) -> dict[tuple[str, str], str]:
    """Read the names of the known test sets, by checksum and language of their references.

    Raises:
        UserError: a line is malformed.
    """
    names = {}
    for number, line in enumerate(iterate_lines(path), start=1):
        if not line or line.startswith("#"):
            continue
        cells = _ROW.fullmatch(line)
        if cells is None:
            raise UserError(
                f"{path}: line {number}: write a checksum of 64 hexadecimal digits, a language, a"
                " number of sentences and a name, separated by tabs"
            )
        names[cells["checksum"], cells["language"]] = cells["name"]
    return names


def _known_name(digest: str, language: str, num_sentences: int) -> str:
    """Return the name of the test set with this checksum; "" if unknown."""
    if name := read_table().get((digest, language)):
        return name
    folder = Path(SACREBLEU_DIR)
    # `Path.is_dir` would raise an error if this user may not enter the home folder.
    for path in sorted(folder.rglob("*.ref*")) if os.path.isdir(folder) else ():
        pair = re.search(rf"\.(\w+-{re.escape(language)})\.ref[^.]*$", path.name)
        if not pair or not path.is_file() or path.read_bytes().count(b"\n") != num_sentences:
            continue
        if checksum(iterate_lines(path)) == digest:
            return f"sacrebleu -t {path.parent.relative_to(folder)} -l {pair[1]}"
    return ""
