"""Markdown. markdown-it finds the paragraphs; their inline markup is kept as it is written."""

import re
from collections.abc import Iterator
from itertools import accumulate

from nmt.documents.document import TextFile, Token, unit_of
from nmt.documents.pieces import Unit

_FRONT_MATTER = re.compile(r"\A\ufeff?(?:---\r?\n.*?\n(?:---|\.\.\.)\r?\n)?", re.DOTALL)

_INLINE = re.compile(
    r"""
    (?P<object>
        \\[!-/:-@\[-`{-~]                                    # an escaped character
      | (?P<ticks>`+)(?!`)(?:.|\n)+?(?<!`)(?P=ticks)(?!`)    # code
      | !\[[^\]]*\](?:\([^()]*\)|\[[^\]]*\])                 # an image
      | <[A-Za-z][\w+.-]*:[^<>\s]*> | <[^<>\s]+@[^<>\s]+>    # an address
      | \A\[\^[^\]\s]+\]:[ ]* | \[\^[^\]\s]+\]               # a footnote, and its mark
      | \n\[[^\]]+\]:[^\n]*                                  # an address for later
      | \A\[[ xX]\](?=\s)                                    # a task
      | <!--(?:.|\n)*?-->
      | \$[^$\s](?:[^$\n]*[^$\s])?\$(?!\d)                   # a formula
    )
    | (?P<line_end> (?:\\|[ ]{2,})\n )
    | (?P<soft> [ ]?\n )
    | <(?P<close>/)?(?P<tag>[A-Za-z][\w-]*)[^<>]*>
    | (?P<link> \[ (?=[^\[\]]*\](?:\(|\[)) )
    | (?P<link_end> \] (?:
          \( [^()\s]* (?:\([^()\s]*\)[^()\s]*)? (?:\s+(?:"[^"]*"|'[^']*'))? \) | \[[^\[\]]*\]
      ) )
    | (?P<emphasis> \*{1,3} | (?<!\w)_{1,3} | _{1,3}(?!\w) | ~~ )
    """,
    re.VERBOSE,
)


class Markdown(TextFile):
    """CommonMark with tables, front matter, footnotes and formulas; code is kept."""

    def parse(self, text: str) -> Iterator[str | tuple[str, Unit]]:
        """Yield what is kept, and the text of each paragraph, heading and cell."""
        from markdown_it import MarkdownIt  # noqa: PLC0415 - of the packages for documents

        front = _FRONT_MATTER.match(text)
        position = front.end() if front else 0
        yield text[:position]
        # markdown-it counts the lines that \n ends.
        first = text.count("\n", 0, position)
        starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        for token in parser.parse(text[position:]):
            if token.type != "inline" or token.map is None:
                continue
            begin = max(position, starts[first + token.map[0]])
            end = starts[first + token.map[1]]
            span = _located(text, token.content, begin, end)
            if span is not None:
                yield text[position : span[0]]
                raw = text[slice(*span)]
                # Lines after the first one may have a prefix.
                yield raw, unit_of(list(_tokens(token.content if "\n" in raw else raw)))
                position = span[1]
        yield text[position:]

    def escape(self, text: str) -> str:
        """Return the text; what it escapes is kept as objects."""
        return text


def _located(text: str, content: str, begin: int, end: int) -> tuple[int, int] | None:
    """Find the lines of a paragraph in the file, where each has a prefix such as `> `."""
    first = None
    for line in content.split("\n"):
        # In a table, | is written as \|.
        written = (line, line.replace("|", "\\|"))
        found = next((one for one in written if text.find(one, begin, end) >= 0), None)
        if found is None:
            return None
        offset = text.find(found, begin, end)
        first = offset if first is None else first
        begin = offset + len(found)
    return None if first is None else (first, begin)


def _tokens(content: str) -> Iterator[Token]:
    last = 0
    for match in _INLINE.finditer(content):
        if match.start() > last:
            yield Token(content[last : match.start()], text=content[last : match.start()])
        last = match.end()
        raw = match[0]
        if match["object"]:
            yield Token(raw, "object")
        elif match["line_end"]:
            yield Token(raw, "object", "\n")
        elif match["soft"]:
            yield Token(raw, text=" ")
        elif match["tag"]:
            yield Token(raw, "end" if match["close"] else "begin", name=match["tag"].lower())
        elif match["link"] or match["link_end"]:
            yield Token(raw, "begin" if match["link"] else "end", name="[")
        else:
            before, after = content[: match.start()][-1:], content[last : last + 1]
            is_end = bool(before) and not before.isspace() and not after.isalnum()
            yield Token(raw, "end" if is_end else "begin", name=raw)
    if last < len(content):
        yield Token(content[last:], text=content[last:])
