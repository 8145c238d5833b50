"""Read text files, also compressed ones: `.gz`, `.bz2`, `.xz` and `.zst`."""

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, cast

from nmt.base.decoding import check_beginning, conversion, decode_line
from nmt.base.errors import UserError
from nmt.base.files import check_readable

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
ARCHIVES = (".zip", ".tgz", ".tar", ".7z", ".rar")

MAX_LINE_BYTES = 16_000_000
_SAMPLE = 500


def plain_name(path: Path) -> str:
    """Return the name of a file without the ending of its compression."""
    return path.stem if path.suffix in COMPRESSED else path.name


def is_archive(path: Path) -> bool:
    """Return whether the name of a file is that of an archive of several files."""
    return plain_name(path).lower().endswith(ARCHIVES)


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed.

    Raises:
        UserError: the file cannot be read, or a read in the block finds that its compressed data
            are damaged or cut short.
    """
    check_readable(path)
    try:
        with _open(path) as stream:
            yield stream
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the disk; errors of damaged data have no number
        raise UserError(
            f"{path}: is cut short or damaged ({error}); copy or download it again"
        ) from None


def _open(path: Path) -> IO[bytes]:
    match path.suffix:
        case ".gz":
            return cast(IO[bytes], gzip.open(path))
        case ".bz2":
            return bz2.open(path)
        case ".xz":
            return lzma.open(path)
        case ".zst":
            import pyarrow  # noqa: PLC0415 - few corpora need it

            return io.BufferedReader(pyarrow.input_stream(path, compression="zstd"))
        case _:
            return path.open("rb")


@dataclass(frozen=True)
class BadUnit:
    """A unit of a file that cannot be read.

    Attributes:
        kind: the problem, in the same words for all units that have it.
        line: number of its line in the file.
        text: the beginning of the unit, or "".
    """

    kind: str
    line: int
    text: str = ""


SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, or a byte that was decoded with `surrogateescape`."""


def iterate_units(path: Path) -> Iterator[str | BadUnit]:
    """Iterate over the lines of a UTF-8 file, plain or compressed; only a line feed ends a line.

    A line that is not valid UTF-8 is a bad unit.

    Raises:
        UserError: the file is UTF-16, an archive or damaged, or a line is longer than 16 MB.
    """
    kind = ""
    for number, raw in _iterate_raw(path):
        if number == 1:
            check_beginning(raw, str(path))
        try:
            yield raw.removesuffix(b"\n").decode()
        except UnicodeDecodeError:
            kind = kind or f"not valid UTF-8 (perhaps {conversion(raw, str(path))} helps)"
            yield BadUnit(kind, number, raw.decode(errors="replace"))


def first_units(path: Path) -> Iterator[str | BadUnit]:
    """Iterate over the first lines of a file as `iterate_units`: at most 500, and 16 MB of text."""
    size = 0
    for unit in islice(iterate_units(path), _SAMPLE):
        yield unit
        size += len(str(unit))
        if size > MAX_LINE_BYTES:
            return


def iterate_text(path: Path) -> Iterator[str]:
    """Iterate over the lines of a file as `iterate_units`; UserError if one is not valid UTF-8."""
    for number, raw in _iterate_raw(path):
        yield decode_line(raw, str(path), number)


def _iterate_raw(path: Path) -> Iterator[tuple[int, bytes]]:
    with open_bytes(path) as stream:
        number = 0
        while raw := stream.readline(MAX_LINE_BYTES):
            number += 1
            check_length(path, number, len(raw) - raw.endswith(b"\n"))
            yield number, raw


def check_length(path: Path, number: int, length: int) -> None:
    """Raise UserError if a line, of which `length` bytes have been read, is longer than 16 MB."""
    if length >= MAX_LINE_BYTES:
        raise UserError(
            f"{path}: line {number} is longer than {MAX_LINE_BYTES // 10**6} MB; a text file has"
            " one sentence per line, ended by a line feed"
        )
