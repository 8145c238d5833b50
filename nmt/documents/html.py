"""HTML. Python's parser finds the tags; tags and everything that is no text are kept as written."""

import html
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import accumulate

from nmt.documents.document import TextFile, Token, unit_of
from nmt.documents.pieces import Unit

# Elements inside a sentence (the phrasing content of the HTML standard that holds text).
_INLINE = re.compile(
    "a|abbr|acronym|b|bd[io]|big|cite|data|del|dfn|em|font|i|ins|label|mark|q|s|small|span|strike"
    "|strong|su[bp]|time|tt|u"
)
# Elements whose content is not translated: within a sentence, and between paragraphs.
_KEPT_INLINE = re.compile("code|kbd|samp|var|svg|math|ruby")
_KEPT = re.compile("script|style|pre|textarea|template|noscript|object|canvas|iframe")
# Elements without content, by the same.
_VOID_INLINE = re.compile("img|wbr|input|!--")
_VOID = re.compile("br|img|wbr|input|area|base|col|embed|hr|link|meta|source|track")


class _Events(HTMLParser):
    """Records the kind, the name and the place of each part of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self._starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.events: list[tuple[int, str, str]] = []  # offset, kind, name
        self.feed(text)
        self.close()

    def _add(self, kind: str, name: str = "") -> None:
        line, column = self.getpos()
        self.events.append((self._starts[line - 1] + column, kind, name))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        classes = (values.get("class") or "").split()
        is_kept = values.get("translate") == "no" or "notranslate" in classes
        kind = "void" if _VOID.fullmatch(tag) else "kept" if is_kept else "begin"
        self._add(kind, tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self._add("void", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("end", tag)

    def handle_data(self, data: str) -> None:
        del data
        self._add("text")

    def handle_entityref(self, name: str) -> None:
        self._add("text", name)

    def handle_charref(self, name: str) -> None:
        self._add("text", name)

    def handle_comment(self, data: str) -> None:
        del data
        self._add("void", "!--")

    def handle_decl(self, decl: str) -> None:
        self._add("void", decl)

    def handle_pi(self, data: str) -> None:
        self._add("void", data)

    def unknown_decl(self, data: str) -> None:
        self._add("void", data)


class Html(TextFile):
    """A page of HTML: the text between block elements is a unit."""

    def parse(self, text: str) -> Iterator[str | tuple[str, Unit]]:
        """Yield what is kept, and the text of each block."""
        tokens: list[Token] = []

        def flush() -> Iterator[str | tuple[str, Unit]]:
            yield "".join(token.raw for token in tokens), unit_of(tokens)
            tokens.clear()

        for kind, name, raw in _elements(text):
            if kind == "text":
                plain = re.sub(r"[ \t\r\n\f]+", " ", html.unescape(raw))
                tokens.append(Token(raw, text=plain))
            elif name == "br":
                tokens.append(Token(raw, "object", "\n"))
            elif _VOID_INLINE.fullmatch(name) or (kind == "kept" and not _KEPT.fullmatch(name)):
                tokens.append(Token(raw, "object"))
            elif _INLINE.fullmatch(name) and kind in ("begin", "end"):
                tokens.append(Token(raw, kind, name=name))  # type: ignore[arg-type]
            else:
                yield from flush()
                yield raw
        yield from flush()

    def escape(self, text: str) -> str:
        """Write a text; blanks that HTML would join are not in it."""
        return html.escape(text, quote=False).replace("\xa0", "&nbsp;")


def _elements(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and source of each text and tag; elements that are kept are one."""
    events = _Events(text).events
    places = [offset for offset, _, _ in events] + [len(text)]
    yield "void", "", text[: places[0]]
    index = 0
    while index < len(events):
        offset, kind, name = events[index]
        end = index + 1
        is_kept = _KEPT.fullmatch(name) or _KEPT_INLINE.fullmatch(name)
        if kind == "kept" or (kind == "begin" and is_kept):
            depth = 1
            while end < len(events) and depth:
                _, inner, inner_name = events[end]
                if inner_name == name:
                    depth += {"begin": 1, "kept": 1, "end": -1}.get(inner, 0)
                end += 1
            kind = "kept"
        if kind == "text" and text.startswith("<!", offset):  # a comment that is not closed
            kind, name = "void", "!--"
        yield kind, name, text[offset : places[end]]
        index = end
