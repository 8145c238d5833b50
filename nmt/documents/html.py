"""HTML. Tags and everything that is no text are kept as they are written."""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nmt.documents.document import TextFile, Token, divided, symbol

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

# Scripts, comments, code of templates, declarations and tags; the text after `<` may be no tag.
_PART = re.compile(
    r"""
      <(?P<raw>script|style)\b.*?(?:</(?P=raw)\b[^>]*>|\Z) | <!--.*?(?:-->|\Z)
    | <(?P<code>[?%]) (?: (?!<[?%]). )*? (?P=code)> | <!\[CDATA\[ (?: (?!<!\[). )*? \]\]>
    | <![A-Za-z\[][^<>]*>
    | (?P<tag> </?[A-Za-z] (?: [^<>"']++ | "[^"]*" | '[^']*' ){0,999}+ > )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ATTRIBUTE = re.compile(
    r"""([^\s"'<>/=]+)\s*=\s*(?:"(?P<value>[^"]*)"|'(?P<quoted>[^']*)'|(?P<bare>[^\s"'>]+))"""
)
# Attributes that are shown or read out: of all elements, and of some, as `element.attribute`.
_SHOWN = re.compile(
    r"\w+\.(?:alt|title|placeholder|summary|aria-(?:label|description|placeholder|valuetext))"
    r"|(?:option|optgroup|track)\.label|input (?:button|submit|reset)\.value"
    r"|meta (?:\w+:)?(?:title|description|keywords)\.content"
)
# References, and tags that are written with them, which are shown as they are.
_REFERENCE = re.compile(r"&lt;/?[A-Za-z](?:(?!&lt;)[^<>])*?&gt;|&(?:\#\w+|\w+);")


class Html(TextFile):
    """A page of HTML: the text between block elements is a unit."""

    def parse(self, text: str) -> Iterator[str]:
        """Yield what is kept, and the text of each block."""
        return html_parts(self, text)


def html_parts(file: TextFile, text: str) -> Iterator[str]:
    """Yield the parts of a page, or of a block of HTML in another text file."""
    tokens: list[Token] = []
    for token in with_slots(file, list(_tokens(text))):
        if token.kind == "text":
            tokens += texts(token.raw)
        elif token.name == "br" or _is_inline(token):
            tokens.append(token)
        else:
            yield file.slot(tokens, escape_html) + token.raw
            tokens.clear()
    yield file.slot(tokens, escape_html)


def _tokens(text: str) -> Iterator[Token]:
    for before, match in divided(_PART, text):
        yield Token(before)
        if match:
            yield tag_token(match[0]) if match["tag"] else Token(match[0], "object", name="!--")


def tag_token(raw: str) -> Token:
    """Return the token of a tag or a comment."""
    match = re.match(r"<(/?)([A-Za-z][^\s/<>]*)", raw)
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
        found = _ATTRIBUTE.finditer(token.raw)
        values = {m[1].lower(): m["value"] or m["quoted"] or m["bare"] or "" for m in found}
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


def _with_attributes(file: TextFile, token: Token, values: dict[str, str]) -> str:
    """Return a tag with slots for the attributes that are shown."""
    kind = values.get("type", values.get("name", values.get("property", "")))
    names = (token.name, f"{token.name} {kind.lower()}")

    def written(match: re.Match[str]) -> str:
        value = match["value"] or match["quoted"]
        is_shown = any(_SHOWN.fullmatch(f"{name}.{match[1].lower()}") for name in names)
        if not value or not is_shown:
            return match[0]
        slot, quote = file.slot(list(texts(value)), html.escape), match[0][-1]
        return match[0].removesuffix(value + quote) + slot + quote

    return _ATTRIBUTE.sub(written, token.raw) if values else token.raw


def texts(raw: str) -> Iterator[Token]:
    """Yield the tokens of a text with references, in which all white space is a blank."""
    for before, match in divided(_REFERENCE, raw):
        yield Token(before, text=re.sub(r"[ \t\r\n\f]+", " ", html.unescape(before)))
        if match:
            yield symbol(raw, *match.span(), html.unescape(match[0]))
