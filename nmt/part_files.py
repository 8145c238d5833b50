"""Files that grow part by part over interruptions, and appear under their names only when whole.

What is done stands in `NAME.part`; `NAME.part.json`, beside the first, says how much of it counts,
what it was made with, and of which input. The same work continues from there; other work is
refused.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from nmt.errors import UserError
from nmt.files import read_json, write_json, writing, written_to
from nmt.temporary import flush, remove

_FORMAT_VERSION = 1


class PartFiles:
    """Files that belong together and grow at the same pace.

    Attributes:
        paths: where they appear in the end.
        num_lines: lines of the input whose results stand in them.
    """

    def __init__(
        self, paths: Sequence[Path], made_with: Mapping[str, Any], streams: list[IO[bytes]]
    ) -> None:
        self.paths = list(paths)
        self.num_lines = 0
        self._made_with = dict(made_with)
        self._streams = streams
        self._digest = hashlib.sha256()
        self._stored: dict[str, Any] = {}

    @classmethod
    @contextmanager
    def opened(
        cls,
        paths: Sequence[Path],
        made_with: Mapping[str, Any],
        goes_on: bool = True,
        replaces: bool = True,
    ) -> Iterator["PartFiles"]:
        """Begin, or go on with what an earlier process has left.

        When the block is left by an exception, what was added stays; where nothing was, no part
        file stays either.

        Args:
            paths: where the files appear in the end.
            made_with: plain values; parts made with others are refused.
            goes_on: False throws away what an earlier process has left.
            replaces: False refuses files that stand under their names already.

        Raises:
            UserError: what is there was made with other values or is damaged, or another process is
                at work on it.
            DiskFault: a file cannot be written.
        """
        paths = [written_to(path) for path in paths]
        state_path = _state_path(paths)
        has_begun = goes_on and state_path.exists()
        if not (replaces or has_begun):
            for path in paths:
                if path.exists():
                    raise UserError(
                        f"{path} is there already; remove it, or name another with out="
                    )
        if has_begun:
            _take_back(paths, _checked_state(state_path, len(paths))["bytes"])
        with ExitStack() as stack:
            streams = []
            new = [path for path in paths if not _part(path).exists()]
            for path in paths:
                with writing(path):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    streams.append(stack.enter_context(_locked(_part(path))))
            # Not before: another process may be at work on it.
            if not goes_on:
                remove(state_path)
            parts = cls(paths, made_with, streams)
            # Not below: a refusal leaves alone what it refuses to go on with.
            try:
                parts._find_what_is_there()
            except UserError:
                for path in new:
                    remove(_part(path))
                raise
            try:
                yield parts
            finally:
                if not parts._stored:
                    parts._remove()

    def _find_what_is_there(self) -> None:
        state_path = _state_path(self.paths)
        if state_path.exists():
            self._stored = _checked_state(state_path, len(self.paths))
            self._compare()
        # Of a process that was killed while it wrote, what came last may be half a line.
        sizes = self._stored.get("bytes", [0] * len(self.paths))
        for path, stream, size in zip(self.paths, self._streams, sizes, strict=True):
            if os.fstat(stream.fileno()).st_size < size:
                raise UserError(
                    f"{_part(path)}: is shorter than {state_path} says;"
                    " give resume=false to begin anew"
                )
            with writing(path):
                stream.truncate(size)
                stream.seek(size)

    def _compare(self) -> None:
        theirs, ours = self._stored["made_with"], self._made_with
        differing = [
            f"{key}={theirs.get(key)} (now {ours.get(key)})"
            for key in sorted(theirs.keys() | ours.keys())
            if theirs.get(key) != ours.get(key)
        ]
        if differing:
            raise UserError(
                f"{_part(self.paths[0])}: was made with {', '.join(differing)}; go on with those,"
                " or give resume=false to begin anew"
            )

    def skip_done(self, lines: Iterator[bytes], name: str) -> int:
        """Take from the input the lines whose results are there, and see that they are the same.

        Args:
            lines: the input, from its beginning.
            name: of the input, for messages.

        Returns:
            The bytes that they have.

        Raises:
            UserError: they are others.
        """
        expected = int(self._stored.get("lines", 0))
        found = num_bytes = 0
        while found < expected and (line := next(lines, None)) is not None:
            self._digest.update(line)
            found += 1
            num_bytes += len(line)
        if found < expected or (expected and self._digest.hexdigest() != self._stored["sha256"]):
            raise UserError(
                f"{_part(self.paths[0])}: holds the first {expected:,} lines of another input than"
                f" {name}, or {name} has changed there; give resume=false to begin anew"
            )
        self.num_lines = expected
        return num_bytes

    def add(self, lines: Iterable[bytes], texts: Sequence[str], needed: int | None = None) -> None:
        """Add the results of the next lines of the input; once this returns a kill loses nothing.

        Args:
            lines: these lines.
            texts: what they give: a text for each file.
            needed: bytes that all that is still to come takes, for the message of a full disk.
        """
        count = 0
        for line in lines:
            self._digest.update(line)
            count += 1
        sizes = []
        for path, stream, text in zip(self.paths, self._streams, texts, strict=True):
            before = stream.tell()
            try:
                with writing(path, needed):
                    _write(stream, text.encode())
            except BaseException:
                # The room is free again when the message is made.
                stream.truncate(before)
                raise
            sizes.append(stream.tell())
        state = {
            "format_version": _FORMAT_VERSION,
            "lines": self.num_lines + count,
            "sha256": self._digest.hexdigest(),
            "bytes": sizes,
            "made_with": self._made_with,
        }
        with writing(self.paths[0], needed):
            write_json(_state_path(self.paths), state)
        self._stored = state
        self.num_lines += count

    def complete(self) -> None:
        """Give the files their names."""
        for path in self.paths:
            with writing(path):
                os.replace(_part(path), path)
                flush(path.parent)
        remove(_state_path(self.paths))

    def _remove(self) -> None:
        for path in self.paths:
            remove(_part(path))
        remove(_state_path(self.paths))


def _write(stream: IO[bytes], data: bytes) -> None:
    """Write all of it to the disk itself."""
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]
    os.fsync(stream.fileno())


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _state_path(paths: Sequence[Path]) -> Path:
    return paths[0].with_name(f"{paths[0].name}.part.json")


def _take_back(paths: Sequence[Path], sizes: Sequence[int]) -> None:
    """After a kill while the files got their names: those that have theirs are parts again."""
    for path, size in zip(paths, sizes, strict=True):
        if size and not _part(path).exists() and path.exists() and path.stat().st_size == size:
            os.replace(path, _part(path))


def _checked_state(path: Path, num_files: int) -> dict[str, Any]:
    state = read_json(path)
    is_ours = (
        isinstance(state, dict)
        and state.get("format_version") == _FORMAT_VERSION
        and isinstance(state.get("made_with"), dict)
        and isinstance(state.get("lines"), int)
        and isinstance(state.get("sha256"), str)
        and isinstance(state.get("bytes"), list)
    )
    if not is_ours or len(state["bytes"]) > num_files:
        raise UserError(f"{path}: is damaged; give resume=false to begin anew")
    state["bytes"] += [0] * (num_files - len(state["bytes"]))
    return dict(state)


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """A file to be written by this process alone; the system frees it if we die."""
    while True:
        # Not "a": then nothing could be written before the end. Not buffered: what a full disk did
        # not take would be tried once more at the end, and that error would hide the first.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        with os.fdopen(descriptor, "r+b", buffering=0) as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"{path}: another process is at work on it; wait for it, or name another file"
                    " with out="
                ) from None
            # Between our two calls its owner may have given it its final name.
            if path.exists() and os.path.samestat(os.fstat(stream.fileno()), path.stat()):
                yield stream
                return
