"""Base classes of the kinds of documents."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nmt.base.decoding import conversion
from nmt.base.errors import UserError
from nmt.base.files import check_readable
from nmt.documents.pieces import Piece, Unit, common, has_letters, text_of, to_unit


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
        text: the text; of an object, the white space that it stands for.
        name: name of the element; an end belongs to the last open begin of the same name.
    """

    raw: str
    kind: Literal["text", "object", "begin", "end"] = "text"
    text: str = ""
    name: str = ""


def unit_of(tokens: Sequence[Token]) -> Unit:
    """Build a unit; begins and ends without a partner become objects."""
    tokens = _with_joined_objects(tokens)
    partner: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind == "begin":
            opened.append(index)
        elif token.kind == "end":
            same = [i for i in opened if tokens[i].name == token.name]
            if same:
                partner[same[-1]] = index
                opened = opened[: opened.index(same[-1])]
    unit: Unit = []
    styles: list[Markup] = []
    ends = set(partner.values())
    for index, token in enumerate(tokens):
        if index in partner:
            styles.append(Markup(token.raw, tokens[partner[index]].raw))
        elif index in ends:
            styles.pop()
        elif token.kind == "text":
            unit.append(Piece(token.text, tuple(styles)))
        else:
            unit.append(Piece(token.text, tuple(styles), token.raw))
    return to_unit(unit)


def _with_joined_objects(tokens: Sequence[Token]) -> list[Token]:
    """Make objects between which there are only blanks one object, blanks included."""
    joined: list[Token] = []
    for token in tokens:
        joined.append(token)
        while len(joined) > 2:
            first, blank, last = joined[-3:]
            is_blank = blank.kind == "text" and blank.text and not blank.text.strip()
            if not (
                first.kind == last.kind == "object" and is_blank and not first.text + last.text
            ):
                break
            joined[-3:] = [Token(first.raw + blank.raw + last.raw, "object")]
    return joined


class TextFile(DocumentFile):
    """A text file: its units are replaced in place, everything else is kept byte by byte.

    A unit that is given back as it is stays as it is written.
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
        self._parts = [
            part if isinstance(part, str) or has_letters(text_of(part[1])) else part[0]
            for part in self.parse(self._text)
        ]

    @abstractmethod
    def parse(self, text: str) -> Iterator[str | tuple[str, Unit]]:
        """Yield what is kept, and each unit with what it replaces, in order."""

    @abstractmethod
    def escape(self, text: str) -> str:
        """Return how the file writes a text."""

    @property
    def units(self) -> list[Unit]:
        """The texts to translate."""
        return [part[1] for part in self._parts if not isinstance(part, str)]

    def translated(self, units: Sequence[Unit]) -> bytes:
        """Return the file with translations of all its units."""
        given = iter(units)
        return "".join(
            part if isinstance(part, str) else self._written(*part, next(given))
            for part in self._parts
        ).encode()

    def _written(self, raw: str, unit: Unit, translation: Unit) -> str:
        return raw if translation is unit else self.render(translation)

    def render(self, unit: Unit) -> str:
        """Write the pieces of a unit with their markup."""
        written: list[str] = []
        opened: tuple[Markup, ...] = ()
        for piece in [*unit, Piece("")]:
            styles: tuple[Markup, ...] = piece.styles  # type: ignore[assignment]
            shared = len(common(opened, styles))
            written += [style.end for style in reversed(opened[shared:])]
            written += [style.begin for style in styles[shared:]]
            written.append(self.escape(piece.text) if piece.item is None else piece.item)
            opened = styles
        return "".join(written)
