"""Sentence pairs from JSON lines, or from a JSON document with a list of objects.

The texts are in keys named by their languages, or by `source` and `target`, of the objects or of an
object in them, such as `translation`. `corpus.columns` may name other keys.
"""

import io
import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from data_prep.clean import Pair
from data_prep.manifest import FactsCache
from data_prep.names import side_of
from data_prep.readers import Reader, scored
from data_prep.text_files import MAX_LINE_BYTES, SURROGATE, BadUnit, iterate_units, open_bytes
from nmt.base.decoding import check_beginning
from nmt.base.errors import UserError
from nmt.config import CorpusConfig

_SAMPLE = 100
_BLOCK = 1 << 20
_MAX_FIRST_LINE = 1 << 20  # a longer one is a document
_MAX_TOKEN = 32
"""An error this near to the end of what was read may be a token that is cut in two."""

_NOT_JSON = "not valid JSON"
_BETWEEN = re.compile(r"[\s,]*")
_NEXT_OBJECT = re.compile(r"\}\s*,\s*(?=\{)")

Found = tuple[int, Any] | BadUnit
"""The line of an object, and the object."""


class JsonReader(Reader):
    """The objects of a file of JSON lines, or of the first list of a JSON document.

    Raises:
        UserError: none of the first objects has both texts.
    """

    def __init__(self, path: Path, config: CorpusConfig, cache: FactsCache) -> None:
        super().__init__([path], cache)
        self._path, self._config = path, config
        self.has_lines = self._has_lines()
        self._keys: list[str] = []
        problem = ""
        for found in islice(self._objects(), _SAMPLE):
            if isinstance(found, tuple):
                line, value = found
                if keys := self._find_keys(value):
                    self._keys = keys
                    return
                problem = problem or (
                    f"line {line} has no texts in {config.direction}, only the keys"
                    f" {', '.join(_keys(value))[:200]}"
                )
        if problem:
            raise UserError(
                f"{path}: {problem}; name those of source and target, such as"
                " corpus.columns=[translation.en,translation.de]"
            )

    def identity(self) -> list[Any]:
        """Facts of the file, and the keys of the texts."""
        return [*super().identity(), *self._keys]

    def _has_lines(self) -> bool:
        """Return whether the first line is an object of its own.

        Otherwise it is (the beginning of) a document with a list of pairs.
        """
        with open_bytes(self._path) as stream:
            raw = stream.read(_MAX_FIRST_LINE)
        check_beginning(raw, str(self._path))
        first = raw.decode("utf-8-sig", errors="replace").lstrip().partition("\n")[0]
        found = _decoded(first, 1)
        if isinstance(found, BadUnit) or not isinstance(found[1], dict):
            return False
        lists = [one for one in found[1].values() if isinstance(one, list)]
        has_objects = any(isinstance(one, dict) for inner in lists for one in inner)
        return not has_objects or bool(self._find_keys(found[1]))

    def _find_keys(self, value: Any) -> list[str]:
        """Return the keys of source, target and perhaps score in an object; [] if it lacks one."""
        if self._config.columns:
            columns = list(self._config.columns)
            return columns if all(_get(value, key) is not None for key in columns[:2]) else []
        languages = self._config.languages
        found: dict[tuple[str, int], str] = {}
        for key in _keys(value):
            parent, _, name = key.rpartition(".")
            if (side := side_of(name, languages)) and isinstance(_get(value, key), str):
                found.setdefault((parent, side[0]), key)
        for parent, _ in found:
            if (parent, 0) in found and (parent, 1) in found:
                score = ["score"] if isinstance(_get(value, "score"), int | float) else []
                return [found[parent, 0], found[parent, 1], *score]
        return []

    def _read(self) -> Iterator[Pair | BadUnit]:
        for found in self._objects():
            if isinstance(found, BadUnit):
                yield found
                continue
            line, value = found
            source, target, *score = (_get(value, key, "") for key in self._keys)
            if not isinstance(source, str) or not isinstance(target, str):
                yield BadUnit("no text in one of the keys", line, json.dumps(value)[:200])
            elif SURROGATE.search(source + target):
                yield BadUnit("half a character (a surrogate)", line, json.dumps(value)[:200])
            elif score:
                yield scored(source, target, str(score[0]), line)
            else:
                yield Pair(source, target)

    def _objects(self) -> Iterator[Found]:
        if not self.has_lines:
            yield from self._objects_of_list()
            return
        for number, line in enumerate(iterate_units(self._path), start=1):
            if isinstance(line, BadUnit):
                yield line
            elif line.strip():
                yield _decoded(line, number)

    def _objects_of_list(self) -> Iterator[Found]:
        """Decode the objects of a list one by one; after an error, continue with the next one."""
        with open_bytes(self._path) as stream:
            text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
            buffer = text.read(_BLOCK)
            position, line, decoder = buffer.find("[") + 1, 1, json.JSONDecoder()
            line += buffer.count("\n", 0, position)
            while True:
                start = _BETWEEN.match(buffer, position).end()  # type: ignore[union-attr]
                line += buffer.count("\n", position, start)
                try:
                    value, position = decoder.raw_decode(buffer, start)
                    yield line, value
                except (json.JSONDecodeError, RecursionError) as error:
                    at = error.pos if isinstance(error, json.JSONDecodeError) else start
                    is_cut = at > len(buffer) - _MAX_TOKEN or "Unterminated" in str(error)
                    if is_cut and (block := text.read(_BLOCK)):
                        buffer, position = buffer[start:] + block, 0
                        if len(buffer) > MAX_LINE_BYTES:
                            raise self._too_long(line) from None
                        continue
                    if buffer[start : start + 1] in ("", "]"):
                        return
                    yield BadUnit(_NOT_JSON, line, buffer[start : start + 200])
                    following = _NEXT_OBJECT.search(buffer, at)
                    if following is None:
                        return
                    position = following.end()
                line += buffer.count("\n", start, position)

    def _too_long(self, line: int) -> UserError:
        return UserError(
            f"{self._path}: line {line}: an object is longer than {MAX_LINE_BYTES // 10**6} MB; is"
            " it a list of objects, one for each pair?"
        )


def _decoded(line: str, number: int) -> Found:
    try:
        return number, json.loads(line)
    except (ValueError, RecursionError):
        return BadUnit(_NOT_JSON, number, line)


def _keys(value: Any) -> list[str]:
    """Return the keys of an object, and those of the objects in it as `key.inner`."""
    if not isinstance(value, dict):
        return []
    return [
        name
        for key, inner in value.items()
        for name in ([f"{key}.{one}" for one in inner] if isinstance(inner, dict) else [key])
    ]


def _get(value: Any, key: str, null: str | None = None) -> Any:
    """Return `value[key]`, where the key may lead into inner objects; None if there is none.

    The value `null` of JSON is returned as the argument `null`.
    """
    if not isinstance(value, dict):
        return None
    if key in value:
        return null if value[key] is None else value[key]
    first, _, rest = key.partition(".")
    return _get(value.get(first), rest, null)
