"""Input and output formats, line by line: plain text, JSON lines, tab-separated columns."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from nmt.base.errors import UserError, one_line
from nmt.config import TextFormat
from nmt.search.hypothesis import Hypothesis
from nmt.tokenizer import Tokenizer
from nmt.translation.alignment import pharaoh
from nmt.translation.request import Request, Translation

END = "</s>"
"""EOS in lists of pieces."""

_RESULTS = "translations"  # key of the output
_EXAMPLE = 'write one object per line, such as {"source": "A text."}'


def choose_formats(
    file: Path | None, read: TextFormat | None, write: TextFormat | None
) -> tuple[TextFormat, TextFormat]:
    """Return the formats of input and output.

    The output format is `write`, or else `read`, or else that of the file's ending. The input
    format is `read`. Without it, stdin has the output format, and a file has that of its ending; a
    file with an unknown ending is read as `tsv` if the output is `tsv`, else as text.

    Raises:
        UserError: input of one format cannot be written in the other.
    """
    ending = file.suffix.removeprefix(".").lower() if file else ""
    by_ending = TextFormat.__members__.get(ending, TextFormat.text)
    write = write or read or by_ending
    # Files with columns may have another ending than .tsv.
    is_columns = write is TextFormat.tsv and by_ending is TextFormat.text
    read = read or (write if file is None or is_columns else by_ending)
    if TextFormat.tsv in (read, write) and read is not write:
        raise UserError(f"input_format={read.name} and format={write.name} cannot be combined")
    return read, write


def output_name(file: Path, source: str, target: str, ending: str) -> Path:
    """Name the output: news.en → news.de; items.jsonl and items.en.jsonl → items.de.jsonl.

    `ending` is that of the output, such as `.jsonl`; empty for plain text.
    """
    if not ending:
        return file.with_suffix(f".{target}")
    stem = file.stem if file.suffix.lower() == ending else file.name
    return file.with_name(f"{stem.removesuffix(f'.{source}')}.{target}{ending}")


@dataclass(frozen=True)
class LineReader:
    """Reads lines of one format; in a `tsv` line, the source is `column`, counted from 1."""

    format: TextFormat
    column: int = 1

    def __post_init__(self) -> None:
        if self.column > 1 and self.format is not TextFormat.tsv:
            raise UserError(f"column={self.column} needs columns; add format=tsv, or remove column")

    def read(self, line: str) -> Request:
        """Parse a line without its end; UserError if it is invalid."""
        if self.format is TextFormat.text:
            return Request(line)
        if self.format is TextFormat.jsonl:
            return _parse_json(line)
        columns = line.removesuffix("\r").split("\t")
        if len(columns) < self.column:
            raise UserError(f"has no column {self.column}; fix the line or column=")
        return Request(columns[self.column - 1], columns=columns)


class _Record(TypedDict):
    """The keys of a JSON line that have a meaning; others are kept."""

    source: str
    prefix: NotRequired[str]
    required: NotRequired[list[str]]
    banned: NotRequired[list[str]]


_RECORD = TypeAdapter(_Record)


def _parse_json(line: str) -> Request:
    try:
        # Some programs write a byte order mark at the start of a file.
        line = line.removeprefix("\ufeff")
        record = json.loads(line, parse_float=_finite, parse_constant=_finite)
        values = _RECORD.validate_python(record)
        if "\\u" in line:
            # Fails for a lone surrogate, which has no UTF-8 encoding.
            json.dumps(record, ensure_ascii=False).encode()
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the line"
        raise UserError(f"{where}: {problem['msg']}; {_EXAMPLE}") from None
    except (RecursionError, ValueError) as error:
        raise UserError(one_line(f"is not valid JSON: {error}; {_EXAMPLE}")) from None
    if _RESULTS in record:
        raise UserError(f"has the key {_RESULTS}, which the output writes; rename or remove it")
    required, banned = tuple(values.get("required", ())), tuple(values.get("banned", ()))
    prefix = values.get("prefix", "")
    return Request(values["source"], prefix, required, banned=banned, record=record)


def _finite(text: str) -> float:
    """Parse a number; JSON cannot represent infinity and NaN."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is not finite")
    return value


@dataclass(frozen=True)
class LineWriter:
    """Writes lines of one format.

    Attributes:
        format: the format.
        tokenizer: that of the target language, for `jsonl`.
        column: column of the translation in `tsv`.
        checks: write findings into JSON lines.
        alignment: write alignments, in `jsonl` into the lines, else into an output of their own.
    """

    format: TextFormat
    tokenizer: Tokenizer
    column: int = 1
    alignment: bool = False
    checks: bool = False

    @property
    def aligns_beside(self) -> bool:
        """Whether alignments, those of the best translations, go to an output of their own."""
        return self.alignment and self.format is not TextFormat.jsonl

    def texts(
        self, requests: Sequence[Request], found: Sequence[Sequence[Translation]]
    ) -> list[str]:
        """Return the text to append to each output."""
        texts = ["".join(map(self.write, requests, found))]
        if self.aligns_beside:
            texts.append("".join(f"{pharaoh(best.alignment or [])}\n" for best, *_ in found))
        return texts

    def write(self, request: Request, translations: Sequence[Translation]) -> str:
        """Format one line with its end."""
        if self.format is TextFormat.jsonl:
            record = request.record or {"source": request.source}
            record = {**record, _RESULTS: list(map(self._details, translations))}
            return json.dumps(record, ensure_ascii=False) + "\n"
        # Minimum Bayes risk selects one translation.
        is_selected = translations[0].utility is not None
        shown = translations[:1] if is_selected else translations
        # Only documents in JSON lines contain line ends.
        texts = [one.text.replace("\n", " ") for one in shown]
        if len(texts) > 1 or self.format is TextFormat.tsv:
            texts = [text.replace("\t", " ") for text in texts]
        if self.format is TextFormat.tsv:
            before, after = request.columns[: self.column - 1], request.columns[self.column :]
            texts = [*before, texts[0], *after, *texts[1:]]
        return "\t".join(texts) + "\n"

    def _details(self, one: Translation) -> dict[str, Any]:
        record: dict[str, Any] = {
            "text": one.text,
            "score": one.score,
            "log_prob": sum(each.log_prob for each in one.hypotheses),
            "tokens": [token for each in one.hypotheses for token in self._tokens(each)],
            "token_log_probs": list(chain(*(each.token_log_probs for each in one.hypotheses))),
        }
        if self.alignment:
            record["alignment"] = None if one.alignment is None else pharaoh(one.alignment)
        if one.expected_chrf is not None:
            record["confidence"] = one.confidence
            record["word_confidence"] = one.word_confidence
            record["expected_chrf"] = one.expected_chrf
        if one.terms is not None:
            record["terms"] = [term._asdict() for term in one.terms]
        if self.checks:
            record["findings"] = list(one.findings)
        if one.utility is not None:
            record["utility"] = one.utility
        return record

    def _tokens(self, hypothesis: Hypothesis) -> list[str]:
        pieces = self.tokenizer.pieces(hypothesis.ids)
        # Cut-off hypotheses have no EOS, and some engines report no token_log_probs.
        return pieces + [END] * (len(hypothesis.token_log_probs) > len(pieces))
