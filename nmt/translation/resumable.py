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
from nmt.base.files import is_plain_name, read_record, remove, write_json, writing
from nmt.base.locks import open_plain
from nmt.base.outputs import Outputs, check_not_read

_FIX = "give resume=false to start from the beginning"
_NOT_OURS = "rename or remove it, or choose another file with out="


@dataclass(frozen=True)
class _State:
    """Contents of `NAME.part.json`."""

    files: list[str]  # names of the outputs
    made_with: dict[str, Any]
    is_complete: bool = False  # all lines are there, and the parts are being renamed

    def differences(self, other: "_State") -> str:
        """Describe the settings in which `other` differs."""
        old, new = ({**each.made_with, "files": each.files} for each in (self, other))
        return ", ".join(
            f"{key}={old.get(key)} (now {new.get(key)})"
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        )


class ResumableOutputs:
    """Output files that are written together, with one line for each line of the input.

    Attributes:
        num_lines: number of lines that each of them has.
        is_complete: whether an earlier process has written all lines.
    """

    def __init__(self, paths: Sequence[Path], state: _State) -> None:
        self._outputs, self._state = Outputs(paths), state
        self._parts = [path.with_name(f"{path.name}.part") for path in paths]
        self._state_path = self._parts[0].with_name(f"{self._parts[0].name}.json")
        self._streams: list[FileIO] = []
        self.num_lines, self.is_complete = 0, False

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
        self = cls(paths, _State([path.name for path in paths], dict(made_with)))
        check_not_read([*self._parts, self._state_path], inputs)
        self._outputs.check_files(inputs, replaces=True)
        self._outputs.look()
        with self._outputs.locked():
            stored = self._stored_state()
            if stored and stored.is_complete:
                paths = [self._state_path.with_name(name) for name in stored.files]
                earlier = cls(paths, stored)
                earlier._rename(replaces)
                if resume and not stored.differences(self._state):
                    earlier.is_complete = True
                    yield earlier
                    return
                stored = None
                self._outputs.look()
            self._outputs.check_files(inputs, replaces)
            if stored and resume and (differences := stored.differences(self._state)):
                raise UserError(f"{self._parts[0]}: was made with {differences}; {_FIX}")
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
                    if not self.num_lines:
                        self._discard(self._state)

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

    def complete(self) -> None:
        """Rename the complete files."""
        self._state = replace(self._state, is_complete=True)
        write_json(self._state_path, asdict(self._state))
        self._rename()

    def _rename(self, replaces: bool = False) -> None:
        """Rename the parts that are left, and remove the record."""
        if replaces:
            self._outputs.look()
        for index, part in enumerate(self._parts):
            if part.exists():
                self._outputs.put(index, part)
        remove(self._state_path)


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
