"""Markdown. markdown-it finds the text and its inline markup, which is kept as it is written."""

import re
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from nmt.documents.document import Slot, TextFile, Token, symbol
from nmt.documents.html import html_parts, tag_token, with_slots
from nmt.documents.pieces import Unit

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token as Inline

_Rule = Callable[["StateInline", bool], bool]

_FRONT_MATTER = re.compile(
    r"\A\ufeff?(?:(---|\+\+\+)\r?\n.*?\n(?:\1|\.\.\.)(?=\r?\n|\Z))?", re.DOTALL
)
_LINE_END = re.compile(r"\r\n?|\n")

# What CommonMark does not know, at the start of a line: code, which is known, comes first.
_BLOCKS = re.compile(
    r"""
    ^ (?P<prefix> [ \t>]* (?: (?:[-*+]|\d{1,9}[.)]) [ \t]+ )* )
    (?: (?P<code> (?P<fence>`{3,}(?=[^`\n]*$)|~{3,}) [^\n]*\n (?:[^\n]*\n)*?
          [ \t>]* (?P=fence)[`~]*[ \t]*$ )
      | (?P<kept>
          \$\$ (?: (?!\n[ \t]*\n|\$\$)(?:.|\n) )+ \$\$ [^\n]*$
        | \\\[ (?: (?!\n[ \t]*\n|\\\])(?:.|\n) )+ \\\] [ \t]*$
        | \\begin\{ (?P<name>[^{}\n]+) \} (?: (?!\n[ \t]*\n)(?:.|\n) )*? \\end\{ (?P=name) \}
        | (?: :{3,} | (?:!!!|\?\?\?\+?)[ \t] | ===[ \t]+["'] | \[![A-Za-z]+\] )[^\n]*$
        | (?: \{[%:<\#{][^\n]*\} | \[\[?_?TOC_?\]\]? )[ \t]*$
        | \[(?!\^)(?P<label>[^\]\n]+)\]: [ \t]*\S+ (?: [ \t]+(?:"[^"\n]*"|'[^'\n]*'|\([^()\n]*\)) )?
          [ \t]*$ )
      | (?P<item> (?: \[\^[^\]\n]+\]: | \*\[[^\]\n]+\]: | : ) [ \t]+ (?=\S) ) )
    """,
    re.VERBOSE | re.MULTILINE,
)

# The same within a paragraph: notes, citations, wiki links, tasks, formulas, templates.
_KEPT = re.compile(
    r"""
      \[\^[^\]\s]+\] | \[-?@[^\]\n]+\](?![(\[]) | \[\[[^\]\n]+\]\](?!\() | (?<!.)\[[ xX]\](?=\s)
    | \$\$[^$\n]+\$\$ | \$(?![\s$])[^$\n]*(?<!\s)\$(?!\d) | \\\((?:(?!\\\)).)+\\\)
    | &lt;/?[A-Za-z][^<>&]*?&gt; | :[a-z][a-z0-9_+-]+: | \{[%:<\#{][^{}\n]*\}+
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK_START = re.compile(r"(?=#{1,6}\s|>|[-+]\s)|\d{1,9}(?=[.)]\s)")
_SPECIAL = set("\\`*_[]<>~$|")
_MARKUP = re.compile(r"[\\`*_\[\]<>&\n$]")


class Markdown(TextFile):
    """CommonMark with tables, front matter, footnotes, definitions and formulas; code is kept."""

    def parse(self, text: str) -> Iterator[str]:
        """Yield what is kept, and the text of each paragraph, heading and cell."""
        from markdown_it.common.utils import normalizeReference  # noqa: PLC0415

        references: dict[str, dict[str, str]] = {}

        def reduced(match: re.Match[str]) -> str:
            """Return blank lines for what is kept, and an item of a list for a note."""
            if match["label"]:
                references[normalizeReference(match["label"])] = {"href": "#", "title": ""}
            if match["item"]:
                return f"{match['prefix']}- "
            return match[0] if match["code"] else match["prefix"] + "\n" * match[0].count("\n")

        starts = [0, *(end.end() for end in _LINE_END.finditer(text)), len(text)]
        plain = _LINE_END.sub("\n", text)
        plain = _FRONT_MATTER.sub(lambda front: "\n" * front[0].count("\n"), plain, count=1)
        env = {"references": references}
        position = 0
        for token in _parser().parse(_BLOCKS.sub(reduced, plain), env):
            if token.map is None or token.type not in ("inline", "html_block"):
                continue
            begin, end = max(position, starts[token.map[0]]), starts[token.map[1]]
            lines = _located(text, token.content.rstrip("\n"), begin, end)
            if not lines:
                continue
            yield text[position : lines[0][0]]
            position = lines[-1][1]
            raw = text[lines[0][0] : position]
            if token.type == "inline":
                yield self.slot(list(with_slots(self, list(_tokens(self, text, lines, env)))))
            else:
                yield from html_parts(self, raw)
        yield text[position:]

    def render(self, slot: Slot, unit: Unit) -> str:
        """Write a unit; what is no markup in the file becomes none."""
        special = _SPECIAL - set(slot.raw)
        slot = replace(slot, escape=lambda text: f"\\{text}" if text in special else text)
        text = super().render(slot, unit)
        start = None if _BLOCK_START.match(slot.raw) else _BLOCK_START.match(text)
        return f"{text[: start.end()]}\\{text[start.end() :]}" if start else text


def _located(text: str, content: str, begin: int, end: int) -> list[tuple[int, int]]:
    """Find the lines of a paragraph in the file, where each has a prefix such as `> `."""
    lines = []
    for line in content.split("\n"):
        # In a table, | is written as \\|.
        written = (line, line.replace("|", "\\|"))
        found = [(at, at + len(one)) for one in written if (at := text.find(one, begin, end)) >= 0]
        if not found:
            return []
        lines.append(found[0])
        begin = found[0][1]
    return lines


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415 - of the packages for documents

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    ruler = parser.inline.ruler
    ruler.before("escape", "kept", _kept)
    for rule in list(ruler.__rules__):
        ruler.at(rule.name, _recorded(rule.fn, rule.name))
    return parser


def _kept(state: "StateInline", silent: bool) -> bool:
    """Match what is kept as a rule of markdown-it."""
    if match := _KEPT.match(state.src, state.pos, state.posMax):
        state.pos = match.end()
        if not silent:
            state.push("kept", "", 0)
    return match is not None


def _recorded(rule: _Rule, name: str) -> _Rule:
    """Return a rule of markdown-it that gives its tokens the span of their source."""

    def recorded(state: "StateInline", silent: bool) -> bool:
        begin, count = state.pos, len(state.tokens)
        if not rule(state, silent):
            return False
        end, tokens = state.pos, [] if silent else state.tokens[count:]
        if name in ("emphasis", "strikethrough"):  # a token for each delimiter
            for token in reversed(tokens):
                if end > begin:
                    token.meta["span"] = (end - len(token.content), end)
                    end -= len(token.content)
        elif name == "link" and tokens:
            opening = next(one for one in tokens if one.type == "link_open")
            opening.meta["span"] = (begin, begin + 1)
            label_end = state.md.helpers.parseLinkLabel(state, begin, True)
            tokens[-1].meta["span"] = (label_end, end)
        for token in tokens:
            token.meta.setdefault("span", (begin, end))
        return True

    return recorded


def _tokens(
    file: TextFile, text: str, lines: Sequence[tuple[int, int]], env: dict[str, Any]
) -> Iterator[Token]:
    """Yield the text and inline markup of a paragraph.

    Args:
        file: where the slots of image descriptions are added.
        text: the contents of the file.
        lines: where the lines are in it, without prefixes such as `> `.
        env: the references that are known.
    """
    source = "\n".join(text[begin:end] for begin, end in lines)
    starts = [0, *accumulate(end - begin + 1 for begin, end in lines[:-1])]

    def offset(position: int) -> int:
        line = bisect(starts, position) - 1
        return lines[line][0] + position - starts[line]

    parser = _parser()
    found = sorted(
        (*_span(token), index, token)
        for index, token in enumerate(parser.inline.parse(source, parser, env, []))
        if token.type != "text" and not (token.info == "auto" and token.nesting < 0)
    )
    position = label = 0
    for begin, end, _, token in found:
        gap = source[position:begin]
        gap = gap.rstrip(" ") if token.type.endswith("break") else gap
        yield Token(gap, text=gap)
        raw = text[offset(position + len(gap)) : offset(end)]  # with prefixes
        position = end
        if token.type == "link_open":
            label = end
        if token.type == "link_close" and raw in ("]", "][]"):  # its text is its address
            yield Token(raw, "end", f"][{text[offset(label) : offset(begin)]}]", "*a")
        elif token.type == "text_special" and token.content != token.markup:
            yield symbol(source, begin, end, token.content)
        else:
            yield _token(file, token, raw)
    yield Token(source[position:], text=source[position:])


def _span(token: "Inline") -> tuple[int, int]:
    """Return the span of a token, of which one delimiter is known."""
    begin, end = token.meta["span"]
    if token.info == "auto" or not (token.nesting and token.markup):
        return begin, end
    size = len(token.markup)
    return (end - size, end) if token.nesting > 0 else (begin, begin + size)


def _token(file: TextFile, token: "Inline", raw: str) -> Token:
    if token.type in ("softbreak", "text_special"):
        return Token(raw, text=" " if token.type == "softbreak" else raw)
    if token.type == "html_inline":
        return tag_token(raw)
    if token.nesting and token.info != "auto":
        return Token(raw, "begin" if token.nesting > 0 else "end", name=f"*{token.tag}")
    if token.type == "image" and not _MARKUP.search(token.content):
        after = raw[len(token.content) + 2 :]  # ](address "title")
        if len(after) > len("][]"):
            raw = f"![{file.slot([Token(token.content, text=token.content)])}{after}"
    return Token(raw, "object", "\n" if token.type == "hardbreak" else "")
