"""Text files that grow line by line; after an interruption, the same command continues them.

Each line of the input appends one line to `NAME.part` of each output, so the number of whole lines
is where to continue. `NAME.part.json` records the settings; if several files are written together,
that of the first one is for all. Complete files are renamed to `NAME`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from io import BufferedReader, FileIO
from itertools import islice
from pathlib import Path
from typing import Any

from nmt.base.errors import UserError
from nmt.base.files import (
    flush,
    is_plain_name,
    open_plain,
    read_record,
    remove,
    write_json,
    writing,
)
from nmt.base.outputs import Outputs, check_not_read

_FIX = "give resume=false to start from the beginning"
_NOT_OURS = "rename or remove it, or choose another file with out="


@dataclass(frozen=True)
class _State:
    """Contents of `NAME.part.json`."""

    files: list[str]  # names of the outputs
    made_with: dict[str, Any]
    complete_lines: int | None = None  # lines of the input, once all parts are complete


class ResumableOutputs:
    """Output files that are written together, with one line for each line of the input."""

    def __init__(self, outputs: Outputs, state: _State) -> None:
        self._outputs = outputs
        self._state = state
        self._parts = [path.with_name(f"{path.name}.part") for path in outputs.paths]
        self._state_path = self._parts[0].with_name(f"{self._parts[0].name}.json")
        self._streams: list[FileIO] = []
        self.num_lines = 0
        """Number of lines that every output has."""

    @classmethod
    @contextmanager
    def open(
        cls,
        paths: Sequence[Path],
        made_with: Mapping[str, Any],
        inputs: Sequence[Path] = (),
        resume: bool = True,
        replaces: bool = True,
    ) -> Iterator["ResumableOutputs"]:
        """Open outputs, or continue those of an interrupted process.

        Args:
            paths: names of the complete files.
            made_with: JSON values of the settings; partial outputs of other settings are refused.
            inputs: files and folders that are read, and that no output may replace.
            resume: whether to continue partial outputs instead of discarding them.
            replaces: whether the outputs may replace existing files.
        """
        self = cls(Outputs(paths), _State([path.name for path in paths], dict(made_with)))
        check_not_read([*self._parts, self._state_path], inputs)
        self._outputs.check_files(inputs, replaces=True)
        self._outputs.look()
        with self._outputs.locked():
            stored = self._stored_state()
            if stored and stored.complete_lines is not None:
                renamed = self._rename_rest(stored, replaces)
                if resume and not self._differing(stored):
                    yield renamed
                    return
                stored = None
                self._outputs.look()
            self._outputs.check_files(inputs, replaces)
            if stored and resume and (differing := self._differing(stored)):
                raise UserError(f"{self._parts[0]}: was made with {differing}; {_FIX}")
            if stored and not resume:
                self._discard(stored)
            # Before the parts are created: the next command refuses parts without a record.
            write_json(self._state_path, asdict(self._state))
            with ExitStack() as stack:
                self._streams = [stack.enter_context(open_plain(part)) for part in self._parts]
                self.num_lines = min(_whole_lines(stream)[0] for stream in self._streams)
                for stream in self._streams:
                    stream.truncate(_whole_lines(stream, self.num_lines)[1])
                    stream.seek(0, os.SEEK_END)
                try:
                    yield self
                finally:
                    if not self.num_lines and not self.is_complete:
                        self._discard(self._state)

    @property
    def is_complete(self) -> bool:
        """Whether an earlier process, or `complete`, has completed the outputs."""
        return self._state.complete_lines is not None

    @property
    def paths(self) -> list[Path]:
        """Names of the complete files."""
        return self._outputs.paths

    def _stored_state(self) -> _State | None:
        """Read the record of partial outputs, if there is one.

        Raises:
            UserError: a file with the name of the record or of a partial output was not written by
                this command.
        """
        if not os.path.lexists(self._state_path):
            for part in filter(os.path.lexists, self._parts):
                raise UserError(f"{part}: was not made by this command; {_NOT_OURS}")
            return None
        state = read_record(self._state_path, _State, _NOT_OURS)
        if not all(map(is_plain_name, state.files)):
            raise UserError(f"{self._state_path}: names other folders; {_NOT_OURS}")
        return state

    def _rename_rest(self, stored: _State, replaces: bool) -> "ResumableOutputs":
        """Rename the complete parts that a killed process has left."""
        outputs = Outputs([self._state_path.with_name(name) for name in stored.files])
        if replaces:
            outputs.look()
        renamed = ResumableOutputs(outputs, stored)
        renamed.num_lines = stored.complete_lines or 0
        renamed._rename()
        return renamed

    def _differing(self, stored: _State) -> str:
        """Describe the settings in which stored outputs differ from these."""
        old = {**stored.made_with, "files": stored.files}
        new = {**self._state.made_with, "files": self._state.files}
        return ", ".join(
            f"{key}={old.get(key)} (now {new.get(key)})"
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        )

    def _discard(self, state: _State) -> None:
        for name in (*(f"{name}.part" for name in state.files), self._state_path.name):
            with suppress(OSError):  # `open_plain` reports what cannot be removed
                self._state_path.with_name(name).unlink()

    def add(self, texts: Sequence[str], needed: int | None = None) -> None:
        """Append as many lines to each file, a text for each. For `needed`, see `DiskError`."""
        [num_lines] = {text.count("\n") for text in texts}
        for path, stream, text in zip(self.paths, self._streams, texts, strict=True):
            data = memoryview(text.encode())
            with writing(path, needed):
                while data:
                    data = data[stream.write(data) :]
                os.fsync(stream.fileno())
        self.num_lines += num_lines

    def complete(self, drop_empty: bool = False) -> None:
        """Rename the complete files; with `drop_empty`, without the lines that are empty in any."""
        if drop_empty:
            with writing(self.paths[0]):
                self._copy_full_lines()
        self._state = replace(self._state, complete_lines=self.num_lines)
        write_json(self._state_path, asdict(self._state))
        self._rename()

    def _copy_full_lines(self) -> None:
        copies = list(map(_copy_of, self._parts))
        for copy in copies:
            remove(copy)
        with ExitStack() as stack:
            parts = [stack.enter_context(part.open("rb")) for part in self._parts]
            files = [stack.enter_context(copy.open("xb")) for copy in copies]
            for row in zip(*parts, strict=True):
                if b"\n" not in row:
                    for file, line in zip(files, row, strict=True):
                        file.write(line)
        for copy in copies:
            flush(copy)

    def _rename(self) -> None:
        """Rename the files that are not yet renamed, and remove the record."""
        for index, part in enumerate(self._parts):
            if _copy_of(part).exists():
                os.replace(_copy_of(part), part)
            if part.exists():
                with writing(self.paths[index]):
                    self._outputs.put(index, part)
        remove(self._state_path)


def _copy_of(part: Path) -> Path:
    return part.with_name(f".{part.name}.copy")


def _whole_lines(stream: FileIO, most: int | None = None) -> tuple[int, int]:
    """Count the whole lines of a file, or its first lines if `most` is given, and their bytes."""
    stream.seek(0)
    reader = BufferedReader(stream)
    num_lines = num_bytes = 0
    for line in islice(reader, most):
        if line.endswith(b"\n"):
            num_lines, num_bytes = num_lines + 1, num_bytes + len(line)
    reader.detach()
    return num_lines, num_bytes
