"""HTML. Python's parser finds the tags; tags and everything that is no text are kept as written."""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from itertools import accumulate

from nmt.documents.document import Kind, TextFile, Token, symbol

# Elements inside a sentence (the phrasing content of the HTML standard that holds text).
_INLINE = re.compile(
    "a|abbr|acronym|b|bd[io]|big|cite|data|del|dfn|em|font|i|ins|label|mark|q|s|small|span|strike"
    "|strong|su[bp]|time|tt|u"
)
# Elements whose content is not translated: within a sentence, and between paragraphs.
_KEPT_INLINE = re.compile("code|kbd|samp|var|svg|math|ruby")
_KEPT = re.compile("script|style|pre|textarea|iframe|xmp")
# Elements without content, by the same.
_VOID_INLINE = re.compile("img|wbr|input|!--")
_VOID = re.compile("br|img|wbr|input|area|base|col|embed|hr|link|meta|source|track")

# Code of templates, which may have tags in it.
_CODE = re.compile(r"<\?.*?\?>|<%.*?%>", re.DOTALL)
_ATTRIBUTE = re.compile(
    r"""([^\s"'<>/=]+)\s*=\s*(?:"(?P<value>[^"]*)"|'(?P<quoted>[^']*)'|(?P<bare>[^\s"'>]+))"""
)
# Attributes that are shown or read out: of all elements, and of some, as `element.attribute`.
_SHOWN = re.compile(
    r"\w+\.(?:alt|title|placeholder|summary|aria-(?:label|description|placeholder|valuetext))"
    r"|(?:option|optgroup|track)\.label|input (?:button|submit|reset)\.value"
    r"|meta (?:\w+:)?(?:title|description|keywords)\.content"
)
# Tags that are written with references, which are shown as they are; references; and code.
_REFERENCE = re.compile(rf"&lt;/?[A-Za-z][^<>]*?&gt;|&(?:\#\w+|\w+);|{_CODE.pattern}", re.DOTALL)


class _Tokens(HTMLParser):
    """Finds the tags, comments and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self._starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self._found: list[tuple[int, Kind, str]] = []  # offset, kind, name
        self.feed(_CODE.sub(lambda code: re.sub(r"[^\n]", "x", code[0]), text))
        self.close()
        self.tokens = [Token(text[: self._found[0][0]] if self._found else text)]
        ends = [*(offset for offset, _, _ in self._found[1:]), len(text)]
        for (begin, kind, name), end in zip(self._found, ends, strict=False):
            if kind == "text" and text.startswith("<!--", begin):  # a comment that is not closed
                self.tokens.append(Token(text[begin:], "object", name="!--"))
                break
            before = self.tokens.pop().raw if kind == "text" and self._is_after_text() else ""
            self.tokens.append(Token(before + text[begin:end], kind, name=name))

    def _is_after_text(self) -> bool:
        return self.tokens[-1].kind == "text"

    def _add(self, kind: Kind, name: str = "") -> None:
        line, column = self.getpos()
        self._found.append((self._starts[line - 1] + column, kind, name))

    def parse_html_declaration(self, i: int) -> int:
        try:
            return super().parse_html_declaration(i)
        except AssertionError:  # one that is malformed, such as <![x
            return self.parse_bogus_comment(i)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self._add("object" if _VOID.fullmatch(tag) else "begin", tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        del attrs
        self._add("object", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("end", tag)

    def handle_data(self, data: str) -> None:
        del data
        self._add("text")

    def handle_entityref(self, name: str) -> None:
        self.handle_data(name)

    def handle_charref(self, name: str) -> None:
        self.handle_data(name)

    def handle_comment(self, data: str) -> None:
        del data
        self._add("object", "!--")

    def handle_decl(self, decl: str) -> None:
        self._add("object", decl)

    def handle_pi(self, data: str) -> None:
        self.handle_decl(data)

    def unknown_decl(self, data: str) -> None:
        self.handle_decl(data)


class Html(TextFile):
    """A page of HTML: the text between block elements is a unit."""

    def parse(self, text: str) -> Iterator[str]:
        """Yield what is kept, and the text of each block."""
        return html_parts(self, text)


def html_parts(file: TextFile, text: str) -> Iterator[str]:
    """Yield the parts of a page, or of a block of HTML in another text file."""
    tokens: list[Token] = []
    for token in with_slots(file, _Tokens(text).tokens):
        if token.kind == "text":
            tokens += texts(token.raw)
        elif token.name == "br" or _is_inline(token):
            tokens.append(token)
        else:
            yield file.slot(tokens, escape_html) + token.raw
            tokens.clear()
    yield file.slot(tokens, escape_html)


def tag_token(raw: str) -> Token:
    """Return the token of a tag."""
    match = re.match(r"<(/?)([A-Za-z][\w-]*)", raw)
    if not match:
        return Token(raw, "object", name="!--")
    name = match[2].lower()
    is_void = raw.endswith("/>") or _VOID.fullmatch(name)
    return Token(raw, "object" if is_void else "end" if match[1] else "begin", name=name)


def _is_inline(token: Token) -> bool:
    elements = _INLINE, _KEPT_INLINE, _VOID_INLINE
    return any(names.fullmatch(token.name) for names in elements)


def escape_html(text: str) -> str:
    """Return how HTML writes a text."""
    return html.escape(text, quote=False)


def with_slots(file: TextFile, tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield tokens, of which elements that are kept are one, with slots in their attributes."""
    partners = _partners(tokens)
    end = 0
    for index, token in enumerate(tokens):
        if index < end:
            continue
        if token.kind not in ("begin", "object"):
            yield token
            continue
        values = _attributes(token.raw)
        is_hidden = values.get("translate") == "no" or "notranslate" in values.get("class", "")
        is_kept = _KEPT.fullmatch(token.name) or _KEPT_INLINE.fullmatch(token.name)
        raw = token.raw if is_hidden else _with_attributes(file, token, values)
        if token.kind == "begin" and (is_hidden or is_kept):
            end = _end(tokens, index, partners) + 1
            raw += "".join(one.raw for one in tokens[index + 1 : end])
            yield Token(raw, "object", name=token.name)
        else:
            yield replace(token, raw=raw, text="\n" if token.name == "br" else token.text)


def _partners(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the index of the end of each element that has one."""
    opened: dict[str, list[int]] = {}
    partners = {}
    for index, token in enumerate(tokens):
        if token.kind == "begin":
            opened.setdefault(token.name, []).append(index)
        elif token.kind == "end" and opened.get(token.name):
            partners[opened[token.name].pop()] = index
    return partners


def _end(tokens: Sequence[Token], begin: int, partners: dict[int, int]) -> int:
    """Return the last index of an element; one without an end lasts until the next block."""
    if begin in partners:
        return partners[begin]
    is_raw = tokens[begin].name in ("script", "style")
    for index in range(begin + 1, len(tokens)):
        if tokens[index].kind in ("begin", "end") and not _is_inline(tokens[index]) and not is_raw:
            return index - 1
    return len(tokens) - 1


def _attributes(tag: str) -> dict[str, str]:
    found = _ATTRIBUTE.finditer(tag)
    return {one[1].lower(): one["value"] or one["quoted"] or one["bare"] or "" for one in found}


def _with_attributes(file: TextFile, token: Token, values: dict[str, str]) -> str:
    """Return a tag with slots for the attributes that are shown."""
    kind = values.get("type", values.get("name", values.get("property", "")))
    names = (token.name, f"{token.name} {kind.lower()}")

    def written(match: re.Match[str]) -> str:
        attribute = match[1].lower()
        group = "quoted" if match["value"] is None else "value"
        is_shown = any(_SHOWN.fullmatch(f"{name}.{attribute}") for name in names)
        if match[group] is None or not is_shown:
            return match[0]
        begin, end = match.start(group) - match.start(), match.end(group) - match.start()
        slot = file.slot(list(texts(match[group])), html.escape)
        return match[0][:begin] + slot + match[0][end:]

    return _ATTRIBUTE.sub(written, token.raw) if values else token.raw


def texts(raw: str) -> Iterator[Token]:
    """Yield the tokens of a text with references, in which all white space is a blank."""
    last = 0
    for match in _REFERENCE.finditer(raw):
        yield _plain(raw[last : match.start()])
        last = match.end()
        yield symbol(raw, *match.span(), html.unescape(match[0]))
    yield _plain(raw[last:])


def _plain(raw: str) -> Token:
    return Token(raw, text=re.sub(r"[ \t\r\n\f]+", " ", html.unescape(raw)))
