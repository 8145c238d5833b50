"""Decoding of lines of UTF-8, with errors that say how to convert other files."""

import codecs

from nmt.base.errors import UserError

_UTF16 = "UTF-16; convert the file first (iconv -f utf-16 -t utf-8)"
_BEGINNINGS = {
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
    b"PK\x03\x04": "an archive or a document of an office program; unpack it, or save it as text",
}
"""First bytes of files that are not UTF-8, and what these files are."""


def check_beginning(raw: bytes, name: str) -> None:
    """Raise UserError if a file begins like one that is not plain UTF-8."""
    for beginning, kind in _BEGINNINGS.items():
        if raw.startswith(beginning):
            raise UserError(f"{name}: is {kind}")


def decode_line(raw: bytes, name: str, number: int) -> str:
    """Decode a line of UTF-8, without its line feed; a BOM before the first line is dropped.

    Errors give the file and the line number.
    """
    if number == 1:
        check_beginning(raw, name)
        raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.removesuffix(b"\n").decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name}: line {number}, byte {error.start + 1}: 0x{raw[error.start]:02x} is not valid"
            " UTF-8; decompress or convert the file first (as by iconv -f latin1 -t utf-8)"
        ) from None
