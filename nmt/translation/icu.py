"""Messages of ICU: the texts of a plural or select are translated, its structure is kept.

`{n, plural, one {# dog} other {# dogs}} bark` has three texts: `{#} dog`, `{#} dogs`, and
`{_0} bark`, in which a placeholder stands for the argument. The categories stay those of the
source.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nmt.translation.request import Translation

_HEAD = re.compile(
    r"\{\s*[\w.-]{1,99}\s*,\s*(?P<kind>plural|selectordinal|select)\s*,\s*(?:offset:\d+\s*)?"
)
_KEY = re.compile(r"\s*(?:=\d+|[\w-]{1,99})\s*(?=\{)")
_WHITE_SPACE = re.compile(r"\s*")
_PLACEHOLDER = re.compile(r"\{(_+\d+|#)\}")
_NUMBER = re.compile(r"#(?!\{)")  # of a plural, within its texts
_MOST_DEPTH = 32  # deeper texts are not translated


@dataclass
class Message:
    """The texts of a message.

    Attributes:
        texts: what is to be translated; the last one is the message itself.
        arguments: by placeholder, a plural or select: what is kept, and indices of texts.
    """

    texts: list[str] = field(default_factory=list)
    arguments: dict[str, list[str | int]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Message":
        """Find the plurals and selects of a text; without any, the text is the only one."""
        if not _HEAD.search(text):
            return cls([text])
        ends: dict[int, int] = {}  # closing brace of each opening one
        opened: list[int] = []
        for brace in re.finditer(r"'[{}]+'|[{}]", text):  # those in apostrophes are text
            if brace[0] == "{":
                opened.append(brace.start())
            elif opened and brace[0] == "}":
                ends[opened.pop()] = brace.start()
        message = cls()
        longest = max(map(len, re.findall(r"\{(_*)", text)))
        _Parser(message, text, ends, "_" * (longest + 1)).add(0, len(text))
        return message

    @property
    def is_malformed(self) -> bool:
        """Whether there is a plural or select that cannot be parsed."""
        return any(map(_HEAD.search, self.texts))

    @property
    def plain(self) -> str:
        """All texts, without placeholders for arguments."""
        texts = " ".join(self.texts)
        return _PLACEHOLDER.sub(lambda one: "" if one[1] in self.arguments else one[0], texts)

    @property
    def kept(self) -> list[str]:
        """What is not translated."""
        return [
            part for parts in self.arguments.values() for part in parts if isinstance(part, str)
        ]

    def joined(self, found: Sequence[Sequence[Translation]]) -> list[Translation]:
        """Return the translations of the message, from those of its texts.

        Plurals and selects have the best translation of each of their texts. Alignments are not
        known, because the words of a message have other indices.
        """
        if not self.arguments:
            return list(found[-1])
        filled: list[str] = []

        def argument(match: re.Match[str]) -> str:
            parts = self.arguments.get(match[1], ["#" if match[1] == "#" else match[0]])
            return "".join(one if isinstance(one, str) else filled[one] for one in parts)

        for best, *_ in found:
            filled.append(_PLACEHOLDER.sub(argument, best.text))
        notes = dict.fromkeys(note for best, *_ in found for note in best.notes)
        findings = tuple(finding for best, *_ in found[:-1] for finding in best.findings)
        terms = [term for best, *_ in found[:-1] for term in best.terms or ()]
        return [
            replace(
                one,
                text=_PLACEHOLDER.sub(argument, one.text),
                alignment=None,
                notes=tuple(notes),
                findings=(*findings, *one.findings),
                terms=None if one.terms is None else [*terms, *one.terms],
            )
            for one in found[-1]
        ]


@dataclass(frozen=True)
class _Parser:
    """Adds the texts of a message; `ends` has the closing brace of each opening one."""

    message: Message
    text: str
    ends: dict[int, int]
    prefix: str  # of the names of placeholders

    def add(self, begin: int, end: int, depth: int = 0, in_plural: bool = False) -> int:
        """Add a part of the text, after the texts inside it; return its index."""
        parts: list[str] = []
        last = begin
        head = _HEAD.search(self.text, begin, end)
        while head:
            search_from = head.end()
            if branches := self._branches(head):
                name = f"{self.prefix}{len(self.message.arguments)}"
                parts += [self._plain(last, head.start(), in_plural), f"{{{name}}}"]
                last = search_from = self.ends[head.start()] + 1
                plural = in_plural or head["kind"] != "select"
                self._add_argument(name, head.start(), branches, depth + 1, plural)
            head = _HEAD.search(self.text, search_from, end)
        self.message.texts.append("".join([*parts, self._plain(last, end, in_plural)]))
        return len(self.message.texts) - 1

    def _plain(self, begin: int, end: int, in_plural: bool) -> str:
        plain = self.text[begin:end]
        return _NUMBER.sub("{#}", plain) if in_plural else plain

    def _add_argument(
        self, name: str, begin: int, branches: list[tuple[int, int]], depth: int, in_plural: bool
    ) -> None:
        parts = self.message.arguments[name] = []
        last = begin
        for first, end in branches:
            body = self.text[first:end].strip()
            if body and depth < _MOST_DEPTH:
                first = self.text.index(body[0], first)  # noqa: PLW2901
                parts.append(self.text[last:first])
                last = first + len(body)
                parts.append(self.add(first, last, depth, in_plural))
        parts.append(self.text[last : self.ends[begin] + 1])

    def _branches(self, head: re.Match[str]) -> list[tuple[int, int]]:
        """Return begin and end of the texts of a plural or select; none if it is malformed."""
        end = self.ends.get(head.start(), head.end())
        position = head.end()
        found: list[tuple[int, int]] = []
        while key := _KEY.match(self.text, position, end):
            closing = self.ends.get(key.end(), end)
            found.append((key.end() + 1, closing))
            position = closing + 1
        blank = _WHITE_SPACE.match(self.text, position, max(position, end))
        return found if blank and blank.end() == end else []
