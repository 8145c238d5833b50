"""Fingerprints: what a stage was made from, so that an unchanged stage is skipped.

Two artefacts are kept, each a folder that is complete or absent:

- `corpora/.cleaned/<fingerprint>/`, the cleaned text. Its fingerprint covers the identity of the
  source (contents, not places or dates), the direction and the cleaning rules, and nothing of the
  tokenizer: a sweep over vocabularies cleans once. It takes as much room as the text itself and may
  be deleted at any time.
- `corpora/<name>-<fingerprint>/`, the corpus. Its fingerprint covers the cleaned text's fingerprint
  and the tokenizer's configuration.

The contents of a user's files are known by SHA-256. To say "nothing changed" in no time, hashes are
remembered in `corpora/.files.json` with the size, inode and times of the file they belong to.
"""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nmt.disk_fault import DiskFault
from nmt.errors import UserError
from nmt.files import check_readable, read_json, write_json
from nmt.packages import versions

FINGERPRINT_LENGTH = 12
"""Hexadecimal digits of a fingerprint in a folder's name: 48 bits."""

_SETTLED_SECONDS = 2.0
"""A file changed less than this before it was hashed is hashed again: it may have been changed
once more within the resolution of its time stamp."""


def fingerprint(value: Any) -> str:
    """A short hash of plain values (dictionaries, lists, strings, numbers)."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_LENGTH]


@dataclass(frozen=True)
class FileFacts:
    """What a file holds, told without its name."""

    size: int
    """Bytes."""
    sha256: str
    """Hexadecimal digest of its contents."""
    num_lines: int
    """Lines; a last one without "\\n" counts."""


def read_facts(path: Path) -> FileFacts:
    """Read a whole file and describe it.

    Raises:
        UserError: the file is missing or unreadable.
    """
    check_readable(path)
    digest, size, num_lines, last = hashlib.sha256(), 0, 0, b"\n"
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
            size += len(block)
            num_lines += block.count(b"\n")
            last = block[-1:]
    return FileFacts(size, digest.hexdigest(), num_lines + (last != b"\n"))


FACTS_FILE = ".files.json"
"""Name of the file, beside the corpora, of what is remembered of the users' files."""


class FactsCache:
    """`read_facts` that reads a file only when its size, inode or times have changed.

    Args:
        path: where the facts are remembered; it may be deleted at any time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, dict[str, Any]] = {}
        # A cache that cannot be read is no loss: the files are read instead.
        with suppress(UserError):
            self._entries = read_json(path)

    def facts(self, path: Path) -> FileFacts:
        """The facts of a file.

        Raises:
            UserError: the file is missing or unreadable.
        """
        check_readable(path)
        stamp = _stamp(path)
        entry = self._entries.get(str(path.resolve()))
        if entry is not None and entry["stamp"] == stamp:
            return FileFacts(**entry["facts"])
        started = time.time()
        facts = read_facts(path)
        if stamp == _stamp(path) and started - stamp["changed"] / 1e9 > _SETTLED_SECONDS:
            self._remember(path, {"stamp": stamp, "facts": asdict(facts)})
        return facts

    def _remember(self, path: Path, entry: dict[str, Any]) -> None:
        self._entries[str(path.resolve())] = entry
        # An unwritable cache costs time, never correctness.
        with suppress(DiskFault):
            write_json(self._path, self._entries)


def _stamp(path: Path) -> dict[str, int]:
    status = os.stat(path)
    return {
        "size": status.st_size,
        "inode": status.st_ino,
        # The change time too: some editors and copiers set the modification time back.
        "changed": max(status.st_mtime_ns, status.st_ctime_ns),
        "modified": status.st_mtime_ns,
    }


def tool_versions() -> dict[str, str]:
    """Versions of the libraries that shape a corpus."""
    return versions(("sentencepiece", "pyarrow", "datasets", "numpy"))


def describe_outputs(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of every file in a folder, by relative path."""
    outputs = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            facts = read_facts(path)
            outputs[path.relative_to(folder).as_posix()] = {
                "size": facts.size,
                "sha256": facts.sha256,
            }
    return outputs


def missing_output(folder: Path, outputs: Mapping[str, Mapping[str, Any]]) -> str:
    """The first file that is gone or has another size than was written, or ""."""
    for name, facts in outputs.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != facts["size"]:
            return name
    return ""
