"""The loops of `translate`: over a file, which may be interrupted, and over a stream."""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Protocol

from rich.progress import Progress, ProgressColumn, Task
from rich.text import Text

from nmt.cli.common import console
from nmt.decoding.formats import Answer, Item, LineReader, LineWriter
from nmt.decoding.pipeline import Pipeline
from nmt.errors import UserError
from nmt.files import check_readable, decode_line
from nmt.part_files import PartFiles

CHUNK_LINES = 1024
"""Lines held in memory at a time, and lost at most by an interruption; sentences of like length are
found among so many."""


@dataclass(frozen=True)
class Work:
    """What is done to each line.

    Attributes:
        name: of the input, for messages.
        reader: a line to a source.
        pipeline: sources to answers.
        writer: answers to lines.
        aligns_beside: whether alignments go to a file of their own.
    """

    name: str
    reader: LineReader
    pipeline: Pipeline
    writer: LineWriter
    aligns_beside: bool = False

    def items(self, raws: Iterable[bytes], first: int) -> Iterator[Item]:
        """The lines, read; the first one has the number `first`."""
        for number, raw in enumerate(raws, start=first):
            item = self.reader.read(decode_line(raw, self.name, number), self.name, number)
            try:
                self.pipeline.check(item.wish)
            except UserError as error:
                raise UserError(f"{self.name}: line {number}: {error}") from None
            yield item

    def items_before_refusal(
        self, raws: Iterable[bytes], first: int
    ) -> tuple[list[Item], UserError | None]:
        """The lines before a bad one, which are answered all the same, and its refusal."""
        items: list[Item] = []
        try:
            for item in self.items(raws, first):
                items.append(item)
        except UserError as error:
            return items, error
        return items, None

    def texts(
        self, items: list[Item], first: int, progress: Callable[[float], None] | None = None
    ) -> list[str]:
        """What some lines give: the text of each file that is written."""
        answers = self.pipeline.answers(items, progress, first)
        written = map(self.writer.write, items, answers)
        if not self.aligns_beside:
            return ["".join(written)]
        return ["".join(written), "".join(map(_alignment_line, answers))]


def _alignment_line(answer: Answer) -> str:
    return "\t".join(alignment or "" for alignment in answer.alignments[:1]) + "\n"


def raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, ends included."""
    check_readable(path)
    try:
        with path.open("rb") as stream:
            yield from stream
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def checked_length(work: Work, path: Path) -> int:
    """Number of lines of a file.

    Raises:
        UserError: one of them is not what its format asks for; now, before long work.
    """
    return sum(1 for _ in work.items(raw_lines(path), 1))


def translate_lines(
    work: Work,
    lines: Iterator[bytes],
    add: Callable[[list[bytes], list[str]], object],
    done: int,
    total: int | None,
) -> int:
    """Translate lines chunk by chunk.

    Args:
        work: what is done to each.
        lines: those that are left.
        add: takes the lines of each chunk and what they give.
        done: lines done before.
        total: lines in all, where that is known.

    Returns:
        The lines done in all.
    """
    first, started = done, time.monotonic()
    columns = (*Progress.get_default_columns(), _Speed())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("translating", total=total, completed=done)
        while chunk := list(islice(lines, CHUNK_LINES)):
            items, refusal = work.items_before_refusal(chunk, done + 1)
            if items:
                texts = work.texts(items, done + 1, lambda count: progress.advance(task, count))
                add(chunk[: len(items)], texts)
                done += len(items)
                progress.update(task, completed=done)
            if refusal is not None:
                raise refusal
    seconds = time.monotonic() - started
    count = done - first
    console.print(
        f"{count:,} line{'' if count == 1 else 's'} translated in {seconds:,.1f} s"
        f" ({count / max(seconds, 1e-9):,.0f} a second)"
    )
    return done


class _Speed(ProgressColumn):
    """Lines a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} a second" if task.speed else "")


def translate_to_files(
    work: Work, lines: Iterator[bytes], parts: PartFiles, size: int | None, total: int | None
) -> None:
    """Translate lines into files that an interruption leaves as parts.

    Args:
        work: what is done to each.
        lines: the whole input.
        parts: where what they give goes; lines that it has are skipped.
        size: bytes of the input, where that is known.
        total: its lines, where that is known.
    """
    read = parts.skip_done(lines, work.name)
    if parts.num_lines:
        console.print(f"going on after line {parts.num_lines:,}", markup=False)

    def add(chunk: list[bytes], texts: list[str]) -> None:
        nonlocal read
        # A translation is about as long as its source.
        parts.add(chunk, texts, None if size is None else max(0, size - read))
        read += sum(map(len, chunk))

    try:
        translate_lines(work, lines, add, parts.num_lines, total)
    except BaseException:
        if parts.num_lines:
            console.print(
                f"{parts.paths[0]}.part keeps the first {parts.num_lines:,} lines; the same command"
                " goes on from there",
                markup=False,
                soft_wrap=True,
            )
        raise
    parts.complete()


class Readable(Protocol):
    """What bytes are read from as they come."""

    def read(self, size: int, /) -> bytes | None:
        """Up to so many bytes, as soon as there are any; none at the end."""


def translate_stream(work: Work, source: Readable, sink: IO[str]) -> None:
    """Translate lines as they come: whatever has arrived is one batch, so none waits for more.

    Args:
        work: what is done to each.
        source: without a buffer of its own: a thread waits in it, also when this one leaves, and
            the interpreter cannot end while somebody holds a buffer's lock.
        sink: where what they give goes.

    Raises:
        UserError: a line is refused, or the source cannot be read.
    """
    # Whoever writes faster than we translate waits.
    arrived: queue.Queue[bytes | Exception | None] = queue.Queue(2 * CHUNK_LINES)

    def read() -> None:
        try:
            for line in _stream_lines(source):
                arrived.put(line)
            arrived.put(None)
        except Exception as error:
            arrived.put(error)

    threading.Thread(target=read, daemon=True).start()
    number = 0
    latest: bytes | Exception | None = b""
    while isinstance(latest, bytes):
        chunk: list[bytes] = []
        latest = arrived.get()
        while isinstance(latest, bytes):
            chunk.append(latest)
            if len(chunk) == CHUNK_LINES or arrived.empty():
                break
            latest = arrived.get()
        _translate_arrived(work, chunk, number + 1, sink)
        number += len(chunk)
    if isinstance(latest, OSError):
        raise UserError(f"{work.name}: cannot be read: {latest.strerror}") from None
    if latest is not None:
        raise latest


_BYTES_AT_ONCE = 1 << 16


def _stream_lines(source: Readable) -> Iterator[bytes]:
    """The lines of a source as soon as they are whole, ends included."""
    begun: list[bytes] = []
    while part := source.read(_BYTES_AT_ONCE):
        *whole, rest = part.split(b"\n")
        for line in whole:
            yield b"".join([*begun, line, b"\n"])
            begun = []
        if rest:
            begun.append(rest)
    if begun:
        yield b"".join(begun)


def _translate_arrived(work: Work, chunk: list[bytes], first: int, sink: IO[str]) -> None:
    items, refusal = work.items_before_refusal(chunk, first)
    sink.write(work.texts(items, first)[0])
    sink.flush()
    if refusal is not None:
        raise refusal
