"""JSON: the strings that are values. Keys, numbers and the layout are kept."""

import json
import re
from collections.abc import Iterator

from nmt.documents.document import TextFile, Token

_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*:)?', re.DOTALL)


class Json(TextFile):
    """A file of JSON, such as the messages of a program."""

    def parse(self, text: str) -> Iterator[str]:
        """Yield what is kept, and each string that is a value."""
        try:
            json.loads(text.removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:
            raise self.invalid(error) from None
        position = 0
        for match in _STRING.finditer(text):
            if not match[2]:
                yield text[position : match.start(1)]
                value = json.loads(f'"{match[1]}"', strict=False)
                yield self.slot([Token(match[1], text=value)], self._escape)
                position = match.end(1)
        yield text[position:]

    def _escape(self, text: str) -> str:
        is_ascii = self._text.isascii() or "\ud800" <= text <= "\udfff"
        return json.dumps(text, ensure_ascii=is_ascii)[1:-1]
