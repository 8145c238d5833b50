"""JSON: the strings that are values. Keys, numbers and the layout are kept."""

import json
import re
from collections.abc import Iterator

from nmt.documents.document import TextFile
from nmt.documents.pieces import Piece, Unit

_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*:)?', re.DOTALL)


class Json(TextFile):
    """A file of JSON, such as the messages of a program."""

    def parse(self, text: str) -> Iterator[str | tuple[str, Unit]]:
        """Yield what is kept, and each string that is a value."""
        try:
            json.loads(text.removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:
            raise self.invalid(error) from None
        position = 0
        for match in _STRING.finditer(text):
            if not match[2]:
                yield text[position : match.start()]
                yield match[0], [Piece(json.loads(match[0], strict=False))]
                position = match.end()
        yield text[position:]

    def escape(self, text: str) -> str:
        """Write a text as a part of a string."""
        return json.dumps(text, ensure_ascii=self._text.isascii())[1:-1]

    def render(self, unit: Unit) -> str:
        """Write a string."""
        return f'"{super().render(unit)}"'
