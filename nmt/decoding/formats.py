"""What users hand in and get back, line by line: plain text, JSON lines, tab-separated columns."""

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.task import Wish
from nmt.decoding.translator import Translation
from nmt.errors import UserError, one_line
from nmt.tokenizer import Tokenizer

END = "</s>"
"""How the end of a sentence is written among its pieces."""


class Format(Enum):
    """How a line is to be read or written."""

    text = "text"
    jsonl = "jsonl"
    tsv = "tsv"


@dataclass(frozen=True)
class Item:
    """One line of the input.

    Attributes:
        source: the text to translate.
        record: of JSON lines, the object that it came in.
        columns: of tab-separated columns, all of them.
        wish: of JSON lines, what is asked of the translation.
    """

    source: str
    record: dict[str, Any] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    wish: Wish = field(default_factory=Wish)


@dataclass(frozen=True)
class Answer:
    """What one source gives.

    Attributes:
        translations: best first; at least one.
        alignments: of each, or of the best alone, in Pharaoh's format; None where it could not be
            made, empty where it was not asked for.
        utilities: of each, what minimum Bayes risk chose by; empty where it did not choose.
    """

    translations: list[Translation]
    alignments: list[str | None] = field(default_factory=list)
    utilities: list[float] = field(default_factory=list)


def check_formats(read: Format, write: Format) -> None:
    """Raise UserError unless what is read so can be written so."""
    if Format.tsv in (read, write) and read is not write:
        raise UserError(
            f"input_format={read.name} and format={write.name} do not go together: tsv is read and"
            " written as tsv"
        )


@dataclass(frozen=True)
class LineReader:
    """Reads lines of one format.

    Attributes:
        format: theirs.
        column: of `tsv`, the column to translate, counted from 1.
    """

    format: Format
    column: int = 1

    def __post_init__(self) -> None:
        if self.column < 1:
            raise UserError(f"column={self.column} must be positive: columns are counted from 1")
        if self.column > 1 and self.format is not Format.tsv:
            raise UserError(
                f"column={self.column}: {self.format.name} has no columns; add format=tsv, or leave"
                " it out"
            )

    def read(self, line: str, name: str, number: int) -> Item:
        """One line without its end; `name` and `number` (from 1) are for the message.

        Raises:
            UserError: the line is not what the format asks for.
        """
        match self.format:
            case Format.text:
                return Item(line)
            case Format.jsonl:
                # Some programs begin a file with a mark of its byte order.
                text = line.removeprefix("\ufeff") if number == 1 else line
                return _from_json(text, f"{name}: line {number}")
            case Format.tsv:
                columns = line.split("\t")
                if len(columns) < self.column:
                    raise UserError(
                        f"{name}: line {number}: has {_columns(len(columns))}, and column="
                        f"{self.column} is to be translated; mend the line or name another column="
                    )
                return Item(columns[self.column - 1], columns=columns)


def _columns(count: int) -> str:
    return f"{count} column{'' if count == 1 else 's'}"


def _from_json(line: str, place: str) -> Item:
    wanted = 'write one object a line, such as {"source": "A text."}'
    try:
        record = json.loads(line)
        if "\\u" in line:
            # Half of a character that takes two such escapes cannot be written again.
            json.dumps(record, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        found = f"is not JSON, at character {error.colno}: {error.msg}" if line else "is empty"
        raise UserError(f"{place}: {found}; {wanted}") from None
    except UnicodeEncodeError:
        raise UserError(f"{place}: has half a character (\\ud800 to \\udfff alone)") from None
    except (RecursionError, ValueError) as error:
        raise UserError(one_line(f"{place}: cannot be read: {error}; {wanted}")) from None
    if not isinstance(record, dict):
        raise UserError(f"{place}: is no object; {wanted}")
    if "source" not in record:
        keys = ", ".join(record) or "none"
        raise UserError(one_line(f"{place}: has no key source (its keys: {keys}); {wanted}"))
    source = record["source"]
    if not isinstance(source, str):
        raise UserError(f"{place}: source is no text but {json.dumps(source)[:40]}; {wanted}")
    return Item(source, record, wish=_wish(record, place))


def _wish(record: dict[str, Any], place: str) -> Wish:
    """What the keys prefix, required and banned of an object ask for."""
    prefix = record.get("prefix", "")
    if not isinstance(prefix, str):
        raise UserError(f"{place}: prefix is no text but {json.dumps(prefix)[:40]}")
    phrases = {}
    for key in ("required", "banned"):
        phrases[key] = record.get(key, [])
        if not isinstance(phrases[key], list) or not all(
            isinstance(phrase, str) for phrase in phrases[key]
        ):
            raise UserError(
                f"{place}: {key} is no list of texts but {json.dumps(phrases[key])[:40]}; write for"
                f' example "{key}": ["some words"]'
            )
    return Wish(prefix, tuple(phrases["required"]), tuple(phrases["banned"]))


def _without_tabs(texts: list[str]) -> list[str]:
    """Texts that stand between tabs: one of their own would be another column."""
    return [text.replace("\t", " ") for text in texts]


@dataclass(frozen=True)
class LineWriter:
    """Writes lines of one format.

    Attributes:
        format: theirs.
        tokenizer: of the target, for the pieces that JSON lines tell.
        column: of `tsv`, the column that is translated, counted from 1.
    """

    format: Format
    tokenizer: Tokenizer
    column: int = 1

    def write(self, item: Item, answer: Answer) -> str:
        """One line, its end included."""
        # What minimum Bayes risk chose is one; what it chose from is for JSON lines.
        shown = answer.translations[:1] if answer.utilities else answer.translations
        texts = [translation.text for translation in shown]
        if self.format is not Format.jsonl:
            # Only a document in JSON lines has several; here they would shift the lines after it.
            texts = [text.replace("\n", " ") for text in texts]
        match self.format:
            case Format.text:
                return "\t".join(texts if len(texts) == 1 else _without_tabs(texts)) + "\n"
            case Format.tsv:
                before, after = item.columns[: self.column - 1], item.columns[self.column :]
                best, *others = _without_tabs(texts)
                return "\t".join([*before, best, *after, *others]) + "\n"
            case Format.jsonl:
                record = item.record or {"source": item.source}
                told = {**record, "translations": self._told(answer)}
                return json.dumps(told, ensure_ascii=False) + "\n"

    def _told(self, answer: Answer) -> list[dict[str, Any]]:
        """Everything about each translation."""
        told = []
        for place, translation in enumerate(answer.translations):
            found = translation.hypotheses
            one: dict[str, Any] = {
                "text": translation.text,
                "score": translation.score,
                "log_prob": sum(hypothesis.log_prob for hypothesis in found),
                "tokens": [token for hypothesis in found for token in self._tokens(hypothesis)],
                "token_log_probs": [
                    log_prob for hypothesis in found for log_prob in hypothesis.token_log_probs
                ],
            }
            if answer.alignments:
                one["alignment"] = answer.alignments[place]
            if answer.utilities:
                one["utility"] = answer.utilities[place]
            told.append(one)
        return told

    def _tokens(self, hypothesis: Hypothesis) -> list[str]:
        pieces = self.tokenizer.pieces(hypothesis.ids)
        # One that was cut off at the longest length has no end, and some engines do not tell.
        has_end = len(hypothesis.token_log_probs) > len(pieces)
        return [*pieces, END] if has_end else pieces
