"""Decoding of lines of UTF-8, with errors that say how to convert other files."""

import codecs
import os

from nmt.base.errors import UserError

_UTF16 = "UTF-16; convert the file first (iconv -f utf-16 -t utf-8)"
_BEGINNINGS = {
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
    b"PK\x03\x04": "an archive or a document of an office program; unpack it, or save it as text",
}
"""First bytes of files that are not UTF-8, and what these files are."""

_ENCODINGS = [
    *("latin1", "windows-1252", "gb18030", "big5", "shift-jis", "cp932", "euc-jp", "euc-kr"),
    *("cp949", "koi8-r", "koi8-u", "windows-1251", "cp866", "windows-1250", "iso8859-2"),
    *("windows-1253", "windows-1254", "windows-1255", "windows-1256", "cp874"),
]
"""Encodings under their names for Python and iconv; of those that agree, the first is named."""

_SAMPLE_BYTES = 100_000


def check_beginning(raw: bytes, name: str) -> None:
    """Raise UserError if a file begins like one that is not plain UTF-8."""
    for beginning, kind in _BEGINNINGS.items():
        if raw.startswith(beginning):
            raise UserError(f"{name}: is {kind}")


def conversion(raw: bytes, name: str) -> str:
    """Say how to convert text that is not UTF-8, from one or two encodings that fit best.

    Args:
        raw: a line that is not UTF-8.
        name: its file; the other lines at the beginning that are not UTF-8 count as well.
    """
    from charset_normalizer import from_bytes  # noqa: PLC0415 - few files need it

    if os.path.isfile(name):
        with open(name, "rb") as file:
            lines = file.read(_SAMPLE_BYTES).split(b"\n")[:-1]
        if raw.removesuffix(b"\n") in lines:  # not if the file is compressed
            raw = b"\n".join(one for one in lines if one.decode(errors="ignore").encode() != one)
    found = from_bytes(raw, cp_isolation=_ENCODINGS)
    names: dict[str, tuple[float, float, int]] = {}
    for match in found:
        same = (one for one in _ENCODINGS if raw.decode(one, "replace") == str(match))
        known = next(same, match.encoding)
        names.setdefault(known, (match.chaos, -match.coherence, _ENCODINGS.index(known)))
    first, *others = sorted(names, key=names.__getitem__)[:2] or ["ENCODING"]
    return " or ".join([f"iconv -f {first} -t utf-8", *(f"-f {other}" for other in others)])


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
            f" UTF-8; decompress or convert the file first (perhaps by {conversion(raw, name)})"
        ) from None
