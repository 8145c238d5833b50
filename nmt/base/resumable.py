"""Output files that grow chunk by chunk; after an interruption, the same command continues them.

Results are appended to `NAME.part`. After each chunk, `NAME.part.json` records the number of valid
bytes, the number of input lines that they belong to, the SHA-256 of both, and the settings. If
several files are written together, the record of the first one is for all. Complete files are
renamed to `NAME`. A `NAME.part` without a record is not changed.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

from nmt.base.errors import BusyError, UserError
from nmt.base.files import (
    check_not_read,
    flush,
    read_record,
    remove,
    write_json,
    writing,
    written_to,
)
from nmt.base.locks import exclusive

_FIX = "give resume=false to start from the beginning"
_BUSY = "is being written by another process; wait for it, or choose another file with out="
_NOT_OURS = "rename or remove it, or choose another file with out="


@dataclass(frozen=True)
class _State:
    """Contents of `NAME.part.json`; `bytes` and `output_sha256` have an entry for each file."""

    lines: int
    input_sha256: str
    bytes: list[int]
    output_sha256: list[str]
    made_with: dict[str, Any]
    is_renaming: bool = False  # all lines are done, and the files are being renamed to `NAME`


class ResumableOutputs:
    """Output files that are written together; `paths` are the names of the complete files."""

    def __init__(self, paths: Sequence[Path], made_with: Mapping[str, Any]) -> None:
        self.paths = [written_to(path) for path in paths]
        self._parts = [path.with_name(f"{path.name}.part") for path in self.paths]
        self._state_path = self._parts[0].with_name(f"{self._parts[0].name}.json")
        self._streams: list[IO[bytes]] = []
        self._digest = hashlib.sha256()  # of the input lines
        self._digests = [hashlib.sha256() for _ in paths]  # of the outputs
        self._state = self._new_state(0, [0] * len(paths), made_with)

    @classmethod
    @contextmanager
    def open(
        cls,
        paths: Sequence[Path],
        made_with: Mapping[str, Any],
        inputs: Sequence[Path] = (),
        resume: bool = True,
        overwrite: bool = True,
    ) -> Iterator["ResumableOutputs"]:
        """Open outputs, or continue those of an interrupted process.

        Args:
            paths: names of the complete files.
            made_with: JSON values of the settings; partial outputs of other settings are refused.
            inputs: files and folders that are read, and that no output may replace.
            resume: whether to continue partial outputs instead of discarding them.
            overwrite: whether the outputs may replace existing files.
        """
        outputs = cls(paths, made_with)
        check_not_read([*outputs.paths, *outputs._parts, outputs._state_path], inputs)
        stored = outputs._stored_state()
        resumed = stored if resume else None
        existing = [path for path in outputs.paths if path.exists()]
        if existing and not overwrite:
            raise UserError(
                f"{existing[0]} already exists; remove it, or choose another with"
                " out= (for make: OUT=)"
            )
        if resumed:
            outputs._check_settings(resumed)
            outputs._state = resumed
        if stored is None:
            # Before the parts are created: the next command refuses parts without a record.
            outputs._record(outputs._state)
        with ExitStack() as stack:
            for part in outputs._parts:
                stack.enter_context(exclusive(part, BusyError(f"{part}: {_BUSY}")))
                # With a buffer, closing it after a failed write would write the same bytes again.
                outputs._streams.append(stack.enter_context(part.open("r+b", buffering=0)))
            outputs._check_digests()
            for stream, size in zip(outputs._streams, outputs._state.bytes, strict=True):
                stream.truncate(size)
            if stored and not resumed:
                outputs._record(outputs._state)
            try:
                yield outputs
            finally:
                outputs._remove_incomplete()

    @property
    def num_lines(self) -> int:
        """Number of input lines whose results are stored."""
        return self._state.lines

    def _new_state(self, lines: int, sizes: list[int], made_with: Mapping[str, Any]) -> _State:
        digests = [digest.hexdigest() for digest in self._digests]
        return _State(lines, self._digest.hexdigest(), sizes, digests, dict(made_with))

    def _record(self, state: _State) -> None:
        try:
            write_json(self._state_path, asdict(state))
            self._state = state
        except BaseException:  # a signal may come after the file was written
            with suppress(UserError):
                self._state = read_record(self._state_path, _State)
            raise

    def _stored_state(self) -> _State | None:
        """Read the record of partial outputs, if there is one.

        If the previous process died while it renamed complete files, rename the rest.

        Raises:
            UserError: a file with the name of the record or of a partial output was not written by
                this command.
        """
        if not os.path.lexists(self._state_path):
            for part in filter(os.path.lexists, self._parts):
                raise UserError(f"{part}: was not made by this command; {_NOT_OURS}")
            return None
        state = read_record(self._state_path, _State, _NOT_OURS)
        if not state.is_renaming:
            return state
        for path, part in zip(self.paths, self._parts, strict=True):
            if part.exists():
                os.replace(part, path)
        remove(self._state_path)
        return None

    def _check_settings(self, state: _State) -> None:
        stored, given = state.made_with, self._state.made_with
        differing = [
            f"{key}={stored.get(key)} (now {given.get(key)})"
            for key in sorted(stored.keys() | given.keys())
            if stored.get(key) != given.get(key)
        ]
        if len(state.bytes) != len(self.paths):
            differing.append(f"{len(state.bytes)} output files")
        if differing:
            raise UserError(f"{self._parts[0]}: was made with {', '.join(differing)}; {_FIX}")

    def _check_digests(self) -> None:
        """Read each output up to the end of its last chunk; UserError if it was changed."""
        for index, (stream, size) in enumerate(zip(self._streams, self._state.bytes, strict=True)):
            digest = self._digests[index]
            while block := stream.read(min(size - stream.tell(), 1 << 20)):
                digest.update(block)
            if digest.hexdigest() != self._state.output_sha256[index]:
                part = self._parts[index]
                raise UserError(f"{part}: was changed after the last chunk was added; {_FIX}")

    def _remove_incomplete(self) -> None:
        """Remove everything after the last complete chunk; without one, all files."""
        if self._state.lines:
            for stream, size in zip(self._streams, self._state.bytes, strict=True):
                stream.truncate(size)
        else:
            for path in (*self._parts, self._state_path):
                remove(path)

    def skip_done(self, lines: Iterator[bytes], name: str) -> int:
        """Consume and check the lines whose results are stored; return their size in bytes."""
        num_bytes = 0
        for line in islice(lines, self._state.lines):
            self._digest.update(line)
            num_bytes += len(line)
        if self._digest.hexdigest() != self._state.input_sha256:
            raise UserError(
                f"{self._parts[0]}: was made from other lines than the first"
                f" {self._state.lines:,} of {name}; {_FIX}"
            )
        return num_bytes

    def add(self, lines: Sequence[bytes], texts: Sequence[str], needed: int | None = None) -> None:
        """Append the results of `lines`, a text for each file. For `needed`, see `DiskError`."""
        self._digest.update(b"".join(lines))
        for path, stream, digest, text in zip(
            self.paths, self._streams, self._digests, texts, strict=True
        ):
            data = memoryview(text.encode())
            digest.update(data)
            with writing(path, needed):
                while data:
                    data = data[stream.write(data) :]
                os.fsync(stream.fileno())
        sizes = [stream.tell() for stream in self._streams]
        num_lines = self.num_lines + len(lines)
        self._record(self._new_state(num_lines, sizes, self._state.made_with))

    def complete(self) -> None:
        """Rename the complete files."""
        self._record(replace(self._state, is_renaming=True))
        for part, path in zip(self._parts, self.paths, strict=True):
            with writing(path):
                os.replace(part, path)
                flush(path.parent)
        remove(self._state_path)
