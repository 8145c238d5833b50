"""Translation of files and streams: lines in, lines out, chunk by chunk."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from nmt.base.decoding import decode_line
from nmt.base.errors import UserError
from nmt.base.log import print_line
from nmt.base.progress import Advance
from nmt.translation.formats import LineReader
from nmt.translation.pipeline import Pipeline
from nmt.translation.request import Request, Translation, notes_on

CHUNK_LINES = 1024
"""Maximum number of lines translated together, and of lines lost by an interruption. Sentences of
similar length are batched within a chunk."""

_READ_BYTES = 1 << 18


@dataclass(frozen=True)
class LineTranslator:
    """Translates the lines of an input.

    Attributes:
        name: name of the input, for messages.
        reader: parses lines.
        pipeline: translates them.
        write: returns the text to append to each output, for requests and their translations.
    """

    name: str
    reader: LineReader
    pipeline: Pipeline
    write: Callable[[Sequence[Request], Sequence[Sequence[Translation]]], list[str]]

    def read(self, lines: Iterable[bytes], first: int = 1) -> Iterator[Request]:
        """Parse and check lines; the first one has the number `first`.

        Raises:
            UserError: a line is invalid.
        """
        for number, raw in enumerate(lines, start=first):
            line = decode_line(raw, self.name, number)
            try:
                request = self.reader.read(line)
                self.pipeline.check(request)
            except UserError as error:
                raise UserError(f"{self.name}: line {number}: {error}") from None
            yield request

    def translate(
        self, chunks: Iterable[list[bytes]], first: int = 1, progress: Advance | None = None
    ) -> Iterator[tuple[list[bytes], list[str]]]:
        """Translate chunks of lines, and print the notes on their translations.

        Args:
            chunks: the lines.
            first: number of the first line.
            progress: called with the approximate number of lines just translated, which may be a
                fraction.

        Yields:
            The lines of a chunk and the text to append to each output.

        Raises:
            UserError: a line is invalid; the lines before it were yielded.
        """
        for chunk in chunks:
            requests, error = [], None
            try:
                for request in self.read(chunk, first):
                    requests.append(request)
            except UserError as invalid:
                error = invalid
            if requests:
                found = self.pipeline.translate(requests, progress)
                for note in notes_on(found, first):
                    print_line(note)
                yield chunk[: len(requests)], self.write(requests, found)
            first += len(requests)
            if error is not None:
                raise error


def chunks_of(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Split lines into chunks of CHUNK_LINES."""
    lines = iter(lines)
    while chunk := list(islice(lines, CHUNK_LINES)):
        yield chunk


def arriving_chunks(read: Callable[[int], bytes], name: str) -> Iterator[list[bytes]]:
    """Split a stream without a buffer into chunks of the lines that have arrived.

    Args:
        read: returns what has arrived, up to a number of bytes; waits only if nothing has arrived.
        name: name of the stream, for messages.

    Raises:
        UserError: the stream cannot be read.
    """
    unfinished: list[bytes] = []  # parts of the last line
    try:
        while part := read(_READ_BYTES):
            *complete, rest = part.split(b"\n")
            if complete:
                complete[0] = b"".join([*unfinished, complete[0]])
                unfinished = []
                yield from chunks_of(line + b"\n" for line in complete)
            unfinished.append(rest)
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from None
    if last := b"".join(unfinished):
        yield [last]
