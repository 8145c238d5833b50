"""Base classes of the kinds of documents."""

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Literal

from nmt.base.decoding import conversion
from nmt.base.errors import UserError
from nmt.base.files import check_readable
from nmt.documents.pieces import Piece, Unit, common, text_of, to_unit
from nmt.documents.words import Symbol, has_words

_MAX_DEPTH = 32  # of elements in a sentence, so that the time is linear; outer ones are objects
_BLANKS = " \t\r\n\f"
_MARK = re.compile("\ufdd0(\\d+)\ufdd1")

Kind = Literal["text", "object", "begin", "end"]


def kind_of(path: Path) -> str:
    """Return the ending of a file, which names its kind, such as `docx`."""
    return path.suffix.lower().removeprefix(".")


class DocumentFile(ABC):
    """A file whose text can be translated.

    Args:
        path: the file.
        source: code of its language.
        target: code of the language of the translation.

    Raises:
        UserError: the file is not what its ending says.
    """

    def __init__(self, path: Path, source: str, target: str) -> None:
        check_readable(path)
        self._path, self._source, self._target = path, source, target

    @property
    @abstractmethod
    def units(self) -> list[Unit]:
        """The texts to translate."""

    @abstractmethod
    def translated(self, units: Sequence[Unit]) -> bytes:
        """Return the file with translations.

        `units` has, for each of `self.units`, its translation, or the unit itself, which is then
        kept as it is written.
        """

    def invalid(self, reason: object) -> UserError:
        """Return the error for a file that is not what its ending says."""
        kind = kind_of(self._path)
        return UserError(f"{self._path}: is no valid {kind} file: {reason}; repair it")


@dataclass(frozen=True, eq=False)
class Markup:
    """An inline element of a text file: what is written before and after its text.

    It equals no other element, not even one with the same markup.
    """

    begin: str
    end: str


@dataclass(frozen=True)
class Token:
    """Part of a text with markup.

    Attributes:
        raw: what the file has.
        kind: text, an object, or the begin or the end of an inline element.
        text: the text; of an object, the white space that it stands for; of an end, what is
            written if the text changes, if this is not `raw`.
        name: name of the element; an end belongs to the last open begin of the same name.
    """

    raw: str
    kind: Kind = "text"
    text: str = ""
    name: str = ""


def divided(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Yield each match with the text before it, and at last the text after all, with None."""
    last = 0
    for match in pattern.finditer(text):
        yield text[last : match.start()], match
        last = match.end()
    yield text[last:], None


def unit_of(tokens: Sequence[Token]) -> Unit:
    """Build a unit; begins and ends without a partner become objects."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind == "begin":
            opened = [*opened[1 - _MAX_DEPTH :], index]
        elif token.kind == "end":
            same = [n for n, begin in enumerate(opened) if tokens[begin].name == token.name]
            if same:
                partner[opened[same[-1]]] = index
                opened = opened[: same[-1]]
    # Without this, what encloses no word would get lost.
    has_content = (one.kind == "object" or any(map(str.isalnum, one.text)) for one in tokens)
    sizes = list(accumulate(has_content))
    partner = {begin: end for begin, end in partner.items() if sizes[end] > sizes[begin]}
    unit: Unit = []
    styles: list[Markup] = []
    ends = set(partner.values())
    for index, token in enumerate(tokens):
        if index in partner:
            end = tokens[partner[index]]
            styles.append(Markup(token.raw, end.text or end.raw))
        elif index in ends:
            styles.pop()
        else:
            item = None if token.kind == "text" else token.raw
            unit.append(Piece(token.text, tuple(styles), item))
    return to_unit(unit)


def symbol(source: str, begin: int, end: int, text: str) -> Token:
    """Return the token of a character that is written as an entity or with an escape.

    A model may lose it, unless it is part of a word; so it is an object, or a blank.

    Args:
        source: the text around it.
        begin: offset at which it begins.
        end: offset at which it ends.
        text: the character; several are an object.
    """
    around = source[begin - 1 : begin] + source[end : end + 1]
    is_in_word = len(around) == 2 and around.isalnum() and not text.isspace() and text != "\xad"
    if len(text) == 1 and (is_in_word or unicodedata.category(text)[0] in "LMN"):
        return Token(source[begin:end], text=text)
    return Token(source[begin:end], "object", " " if text.isspace() else "")


def _trimmed(tokens: Sequence[Token]) -> tuple[str, list[Token], str]:
    """Return what is before the first text, the tokens from there to the last, and the rest."""
    inside = [i for i, one in enumerate(tokens) if one.kind != "object" and one.raw.strip(_BLANKS)]
    begin, end = (inside[0], inside[-1] + 1) if inside else (0, 0)
    inner = list(tokens[begin:end])
    before, after = ("".join(one.raw for one in some) for some in (tokens[:begin], tokens[end:]))
    if inner and inner[0].kind == "text":
        raw = inner[0].raw.lstrip(_BLANKS)
        before += inner[0].raw[: -len(raw)]
        inner[0] = Token(raw, text=inner[0].text.lstrip(" "))
    if inner and inner[-1].kind == "text":
        raw = inner[-1].raw.rstrip(_BLANKS)
        after = inner[-1].raw[len(raw) :] + after
        inner[-1] = Token(raw, text=inner[-1].text.rstrip(" "))
    return before, inner, after


@dataclass(frozen=True)
class Slot:
    """Text of a file that is replaced: how it is written, and its unit.

    Attributes:
        raw: what the file has.
        unit: the text.
        escape: returns how the file writes a text there.
        spelling: how the unit spells characters, such as `\\_` for an underscore.
    """

    raw: str
    unit: Unit
    escape: Callable[[str], str]
    spelling: dict[str, str]


class TextFile(DocumentFile):
    """A text file: its units are replaced in place, everything else is kept byte by byte.

    A unit that is given back as it is stays as it is written. Units may contain others: the value
    of an attribute is a unit inside a tag.
    """

    def __init__(self, path: Path, source: str, target: str) -> None:
        super().__init__(path, source, target)
        raw = path.read_bytes()
        try:
            self._text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}: is not UTF-8: {error.reason} at byte {error.start:,}; convert it,"
                f" perhaps by {conversion(raw, '')}"
            ) from None
        self._slots: list[Slot] = []
        self._template = "".join(self.parse(self._text))

    @abstractmethod
    def parse(self, text: str) -> Iterator[str]:
        """Yield in order what is kept, and `self.slot(…)` for each unit."""

    def slot(self, tokens: Sequence[Token], escape: Callable[[str], str] = str) -> str:
        """Return the mark of a unit in the template; without words, the tokens as written.

        Args:
            tokens: the contents of the unit.
            escape: returns how the file writes a text there.
        """
        raw = "".join(token.raw for token in tokens)
        before, tokens, after = _trimmed(tokens)
        unit = unit_of(tokens)
        if not has_words(text_of(unit)):
            return raw
        raw = raw[len(before) : len(raw) - len(after)]
        spelling = {
            token.text: token.raw
            for token in tokens
            if token.kind == "text" and len(token.text) == 1 < len(token.raw.strip())
        }
        self._slots.append(Slot(raw, unit, escape, spelling))
        # The mark has characters that no text has.
        return f"{before}\ufdd0{len(self._slots) - 1}\ufdd1{after}"

    @property
    def units(self) -> list[Unit]:
        """The texts to translate."""
        return [slot.unit for slot in self._slots]

    def translated(self, units: Sequence[Unit]) -> bytes:
        """Return the file with translations of all its units."""
        written = [
            slot.raw if translation is slot.unit else self.render(slot, translation)
            for slot, translation in zip(self._slots, units, strict=True)
        ]

        def filled(text: str) -> str:
            return _MARK.sub(lambda match: filled(written[int(match[1])]), text)

        return filled(self._template).encode()

    def render(self, slot: Slot, unit: Unit) -> str:
        """Write the pieces of a unit with their markup."""
        written: list[str] = []
        opened: tuple[Markup, ...] = ()
        for piece in [*unit, Piece("")]:
            styles: tuple[Markup, ...] = piece.styles  # type: ignore[assignment]
            shared = len(common(opened, styles))
            written += [style.end for style in reversed(opened[shared:])]
            written += [style.begin for style in styles[shared:]]
            if piece.item is None or isinstance(piece.item, Symbol):
                text = piece.text if piece.item is None else piece.item
                written += [slot.spelling.get(c) or slot.escape(c) for c in text]
            else:
                written.append(piece.item)
            opened = styles
        return "".join(written)
