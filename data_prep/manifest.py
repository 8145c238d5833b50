"""Fingerprints of the inputs of each stage; stages whose inputs are unchanged are skipped.

Two results are stored, each as a folder that is complete or absent:

- `corpora/.cleaned/<fingerprint>/` is the cleaned text. The fingerprint covers the sources (names,
  contents, tags, maximum of pairs), the direction and the filters. It does not cover the tokenizer,
  so corpora with different vocabularies share the folder. The folder may be deleted at any time.
  During cleaning, `<fingerprint>.shards/` beside it has the shards that are complete.
- `corpora/<name>-<fingerprint>/` is the corpus. The fingerprint covers the fingerprint of the
  cleaned text, and the configuration of the tokenizer or the user's tokenizer models.

Local files are identified by SHA-256. `corpora/.files.json` caches these hashes with the size,
inode and times of each file.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from data_prep.text_files import COMPRESSED, check_length, open_bytes
from nmt.base.errors import DiskError, UserError
from nmt.base.files import check_readable, read_record, write_json
from nmt.base.system import versions

FINGERPRINT_LENGTH = 12
"""Hexadecimal digits of a fingerprint, 48 bits."""

_SETTLED_SECONDS = 2.0
"""Hashes of files that changed less than this long ago are not cached: a second change within the
resolution of the time stamp would not be noticed."""


def fingerprint(value: Any) -> str:
    """Hash plain values (dictionaries, lists, strings, numbers)."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_LENGTH]


@dataclass(frozen=True)
class FileFacts:
    """Facts about the contents of a file.

    Attributes:
        size: in bytes.
        sha256: hexadecimal digest of the contents.
        num_lines: number of lines, decompressed; the last one may lack a line feed.
    """

    size: int
    sha256: str
    num_lines: int


def read_facts(path: Path, is_text: bool = False) -> FileFacts:
    """Read a whole file and return its facts.

    Raises:
        UserError: the file is missing or unreadable, or a line of a text is longer than 16 MB.
    """
    check_readable(path)
    digest, is_compressed = hashlib.sha256(), path.suffix in COMPRESSED
    with path.open("rb") as stream:
        text = path if is_text and not is_compressed else None
        size, num_lines = _measure(stream, digest.update, text)
    if is_compressed:
        with open_bytes(path) as decompressed:
            _, num_lines = _measure(decompressed, lambda _: None, path if is_text else None)
    return FileFacts(size, digest.hexdigest(), num_lines)


def _measure(
    stream: IO[bytes], update: Callable[[bytes], None], text: Path | None
) -> tuple[int, int]:
    """Read a stream in blocks; return the numbers of its bytes and lines.

    If the stream is a `text`, a line longer than 16 MB is a UserError.
    """
    size, num_lines, length = 0, 0, 0
    while block := stream.read(1 << 20):
        update(block)
        size += len(block)
        num_lines += block.count(b"\n")
        end = block.rfind(b"\n")
        length = length + len(block) if end < 0 else len(block) - end - 1
        if text:
            check_length(text, num_lines + 1, length)
    return size, num_lines + (length > 0)


class ChangedError(UserError):
    """Text was changed while it was read.

    Args:
        path: the file, or the folder of the text.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: was changed while it was read; run the command again")


FACTS_FILE = ".files.json"
"""Name of the cache in the folder of the corpora."""


@dataclass(frozen=True)
class _Entry:
    """Facts of a file, its stamp when it was read, and whether its lines were checked."""

    stamp: dict[str, int]
    facts: FileFacts
    is_text: bool = False


class FactsCache:
    """Cache of `read_facts` that reads a file again if its size, inode or times have changed.

    Args:
        path: file of the cache; it may be deleted at any time.
        is_kept: whether new facts are stored in the file.
    """

    def __init__(self, path: Path, is_kept: bool = True) -> None:
        self._path, self._is_kept = path, is_kept
        self._entries: dict[str, _Entry] = {}
        # If the cache cannot be read, all files are read again.
        with suppress(UserError):
            self._entries = read_record(path, dict[str, _Entry])

    def facts(self, path: Path, is_text: bool = False) -> FileFacts:
        """Return the facts of a file; see `read_facts`."""
        check_readable(path)
        stamp = _stamp(path)
        entry = self._entries.get(str(path.resolve()))
        if entry and entry.stamp == stamp and entry.is_text >= is_text:
            return entry.facts
        started = time.time()
        facts = read_facts(path, is_text)
        if stamp == _stamp(path) and started - stamp["changed"] / 1e9 > _SETTLED_SECONDS:
            self._store(path, _Entry(stamp, facts, is_text))
        return facts

    def check(self, path: Path, facts: FileFacts) -> None:
        """Raise ChangedError if a file no longer has the facts that it had before it was read."""
        if self.facts(path) != facts:
            raise ChangedError(path)

    def _store(self, path: Path, entry: _Entry) -> None:
        self._entries[str(path.resolve())] = entry
        if self._is_kept:
            # If the cache cannot be written, the files are read again next time.
            with suppress(DiskError):
                write_json(self._path, {name: asdict(one) for name, one in self._entries.items()})


class NoFacts(FactsCache):
    """Replacement of the cache for reading a few pairs only: no file is read as a whole."""

    def __init__(self) -> None:
        self._entries = {}

    def facts(self, path: Path, is_text: bool = False) -> FileFacts:  # noqa: ARG002
        """Return the same invented facts for all files, so that none appears empty or changed."""
        check_readable(path)
        return FileFacts(0, "", 1)


def _stamp(path: Path) -> dict[str, int]:
    status = os.stat(path)
    return {
        "size": status.st_size,
        "inode": status.st_ino,
        # Some editors and copying programs reset the modification time.
        "changed": max(status.st_mtime_ns, status.st_ctime_ns),
        "modified": status.st_mtime_ns,
    }


def tool_versions() -> dict[str, str]:
    """Versions of the libraries that determine a corpus."""
    return versions(("sentencepiece", "pyarrow", "datasets", "numpy"))


@dataclass(frozen=True)
class Output:
    """Size in bytes and SHA-256 of a file that was written."""

    size: int
    sha256: str


@dataclass(frozen=True)
class _Outputs:
    """The key `outputs` of `manifest.json` or `cleaning.json`."""

    outputs: dict[str, Output]


def describe_outputs(folder: Path) -> dict[str, Output]:
    """Size and SHA-256 of every file in a folder, by relative path."""
    outputs = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            facts = read_facts(path)
            name = path.relative_to(folder).as_posix()
            outputs[name] = Output(facts.size, facts.sha256)
    return outputs


def write_record_of(folder: Path, name: str, values: dict[str, Any]) -> None:
    """Write `manifest.json` or `cleaning.json` into a folder, with a fingerprint of the values."""
    plain = json.loads(json.dumps(values))  # the keys of JSON are strings
    write_json(folder / name, {**plain, "fingerprint": fingerprint(plain)})


def damage(record: Path, cache: FactsCache) -> str:
    """Describe the first file that is missing or differs from its record, or return "".

    A damaged record, and a shard that the record does not list, are reported, too.

    Args:
        record: `manifest.json` or `cleaning.json`, in the folder of the files.
        cache: cache of hashes.
    """
    try:
        outputs = read_record(record, _Outputs, "the file is damaged").outputs
        values = read_record(record, dict[str, Any])
    except UserError as error:
        return str(error)
    if values.pop("fingerprint", None) != fingerprint(values):
        return f"{record}: is damaged"
    for path in record.parent.glob("*.arrow"):
        if path.name not in outputs:
            return f"{path}: is not part of the corpus"
    for name, output in outputs.items():
        path = record.parent / name
        if not path.is_file():
            return f"{path}: is missing"
        if path.stat().st_size != output.size or cache.facts(path).sha256 != output.sha256:
            return f"{path}: is damaged"
    return ""
