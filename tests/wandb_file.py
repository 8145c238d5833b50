"""Reads what wandb has stored offline: protobuf records in the log framing of LevelDB."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

_BLOCK = 32 * 1024
_FILE_HEADER = 7
_HEADER = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def records(path: Path) -> Iterator[Any]:
    """Yield the records of a `run-<id>.wandb` file."""
    for content in _contents(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(content)
        yield record


def _contents(data: bytes) -> Iterator[bytes]:
    assert data[:4] == b":W&B"
    start, parts = _FILE_HEADER, []
    while start + _HEADER <= len(data):
        if _BLOCK - start % _BLOCK < _HEADER:  # padding
            start += _BLOCK - start % _BLOCK
            continue
        checksum = int.from_bytes(data[start : start + 4], "little")
        length = int.from_bytes(data[start + 4 : start + 6], "little")
        kind = data[start + 6]
        content = data[start + _HEADER : start + _HEADER + length]
        assert zlib.crc32(content, zlib.crc32(bytes([kind]))) == checksum
        assert kind in (_FULL, _FIRST, _MIDDLE, _LAST)
        parts.append(content)
        start += _HEADER + length
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts = []


def history(path: Path) -> list[dict[str, Any]]:
    """Return the logged records."""
    found = [record.history.item for record in records(path) if record.HasField("history")]
    return [{_key(item): json.loads(item.value_json) for item in items} for items in found]


def _key(item: Any) -> str:
    return item.key or ".".join(item.nested_key)
