"""Output files that grow chunk by chunk and that an interrupted command continues.

Results are appended to `NAME.part`. After each chunk `NAME.part.json` records how many bytes are
valid, of how many input lines, and with which settings they were computed. Complete files are
renamed to `NAME`.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

from nmt.base.errors import UserError
from nmt.base.files import exclusive, flush, read_record, remove, write_json, writing, written_to

_FIX = "give resume=false to start from the beginning"


@dataclass(frozen=True)
class _State:
    """Contents of `NAME.part.json`: what is complete."""

    lines: int
    sha256: str
    bytes: list[int]
    made_with: dict[str, Any]


class ResumableOutputs:
    """Output files that are written together.

    Attributes:
        paths: names of the complete files.
        num_lines: input lines whose results are stored.
    """

    def __init__(self, paths: Sequence[Path], made_with: Mapping[str, Any]) -> None:
        self.paths = [written_to(path) for path in paths]
        self.num_lines = 0
        self._parts = [path.with_name(f"{path.name}.part") for path in self.paths]
        self._state_path = self._parts[0].with_name(f"{self._parts[0].name}.json")
        self._streams: list[IO[bytes]] = []
        self._digest = hashlib.sha256()  # of the input lines
        self._state = _State(0, self._digest.hexdigest(), [0] * len(paths), dict(made_with))

    @classmethod
    @contextmanager
    def open(
        cls,
        paths: Sequence[Path],
        made_with: Mapping[str, Any],
        resume: bool = True,
        overwrite: bool = True,
    ) -> Iterator["ResumableOutputs"]:
        """Open outputs, or continue those of an interrupted process.

        Args:
            paths: names of the complete files.
            made_with: JSON values of the settings; partial outputs of other settings are refused.
            resume: whether to continue partial outputs instead of discarding them.
            overwrite: whether complete files may be replaced.
        """
        outputs = cls(paths, made_with)
        is_resumed = resume and outputs._state_path.exists()
        existing = [path for path in outputs.paths if path.exists()]
        if existing and not (overwrite or is_resumed):
            raise UserError(f"{existing[0]} already exists; remove it, or choose another with out=")
        if is_resumed:
            outputs._load_state()
        with ExitStack() as stack:
            for part, size in zip(outputs._parts, outputs._state.bytes, strict=True):
                outputs._streams.append(stack.enter_context(_open_part(part, size)))
            if not is_resumed:
                remove(outputs._state_path)
            try:
                yield outputs
            finally:
                outputs._remove_incomplete()

    def _load_state(self) -> None:
        state = read_record(self._state_path, _State, _FIX)
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
        self._state = state
        # If a process died while it renamed the complete files, rename those back.
        for path, part, size in zip(self.paths, self._parts, state.bytes, strict=True):
            if not part.exists() and path.exists() and path.stat().st_size == size:
                os.replace(path, part)

    def _remove_incomplete(self) -> None:
        """Remove everything after the last complete chunk; without one, all files."""
        if self._state.lines:
            for stream, size in zip(self._streams, self._state.bytes, strict=True):
                stream.truncate(size)
        else:
            for path in (*self._parts, self._state_path):
                remove(path)

    def skip_done(self, lines: Iterator[bytes], name: str) -> int:
        """Consume and check the input lines whose results are stored; return their bytes."""
        num_bytes = 0
        for line in islice(lines, self._state.lines):
            self._digest.update(line)
            num_bytes += len(line)
        self.num_lines = self._state.lines
        if self._digest.hexdigest() != self._state.sha256:
            raise UserError(
                f"{self._parts[0]}: was made from other lines than the first"
                f" {self._state.lines:,} of {name}; {_FIX}"
            )
        return num_bytes

    def add(self, lines: Sequence[bytes], texts: Sequence[str], needed: int | None = None) -> None:
        """Append a text to each file, the results of `lines`; a full disk reports `needed`."""
        self._digest.update(b"".join(lines))
        for path, stream, text in zip(self.paths, self._streams, texts, strict=True):
            with writing(path, needed):
                data = memoryview(text.encode())
                while data:
                    data = data[stream.write(data) :]
                os.fsync(stream.fileno())
        state = replace(
            self._state,
            lines=self.num_lines + len(lines),
            sha256=self._digest.hexdigest(),
            bytes=[stream.tell() for stream in self._streams],
        )
        with writing(self.paths[0], needed):
            write_json(self._state_path, asdict(state))
        self._state, self.num_lines = state, state.lines

    def complete(self) -> None:
        """Rename the complete files."""
        for part, path in zip(self._parts, self.paths, strict=True):
            with writing(path):
                os.replace(part, path)
                flush(path.parent)
        self._state = replace(self._state, lines=0)


@contextmanager
def _open_part(part: Path, size: int) -> Iterator[IO[bytes]]:
    """Open a file for this process alone, truncated to the end of its last complete chunk."""

    def refuse() -> None:
        raise UserError(
            f"{part}: is being written by another process; wait for it, or choose another file"
            " with out="
        )

    # Without a buffer: after a failed write, closing the file would write the same bytes again.
    with exclusive(part, refuse), part.open("r+b", buffering=0) as stream:
        if os.fstat(stream.fileno()).st_size < size:
            raise UserError(f"{part}: is shorter than it was when the last chunk was added; {_FIX}")
        stream.truncate(size)
        stream.seek(size)
        yield stream
