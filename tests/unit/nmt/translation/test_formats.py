import json
from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.config import TextFormat
from nmt.search.hypothesis import Hypothesis
from nmt.tokenizer import Tokenizer
from nmt.translation.formats import LineReader, LineWriter, choose_formats
from nmt.translation.request import Request, Translation


def translation(text: str, *ids: int, is_finished: bool = True) -> Translation:
    log_probs = [-1.0] * (len(ids) + is_finished)
    hypothesis = Hypothesis(list(ids), sum(log_probs), -0.5, log_probs)
    return Translation(text, -0.5, [(0, 0)], [hypothesis])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "is not valid JSON: Expecting value"),
        (
            '{"source": "a", "translations": []}',
            "has the key translations, which the output",
        ),
        ("{", "line 1 column 2"),
        ('"a"', "the line: Input should be a valid dictionary"),
        ("[]", "the line: Input should be a valid dictionary"),
        ("{}", "source: Field required"),
        ('{"source": 3}', "source: Input should be a valid string"),
        ('{"source": null}', "source: Input should be a valid string"),
        ('{"source": "a", "b": "\\ud800"}', "surrogates not allowed"),
        ('{"source": "a", "prefix": 3}', "prefix: Input should be a valid string"),
        ('{"source": "a", "required": "b"}', "required: Input should be a valid list"),
        ('{"source": "a", "banned": ["b", 1]}', "banned.1: Input should be a valid string"),
        ("[" * 100_000, "is not valid JSON"),
        ('{"source": "a", "n": ' + "9" * 5000 + "}", "is not valid JSON"),
        ('{"source": "a", "n": 1e999}', "the number 1e999 is not finite"),
        ('{"source": "a", "n": NaN}', "the number NaN is not finite"),
    ],
)
def test_invalid_json_line_is_rejected(line: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        LineReader(TextFormat.jsonl).read(line)
    assert message in str(error.value)


def test_reading() -> None:
    found = LineReader(TextFormat.jsonl).read('{"b": 1, "source": "\\ud83d\\ude00 a"}')
    assert found == Request("😀 a", record={"b": 1, "source": "😀 a"})
    line = '{"source": "a", "prefix": "b", "required": ["c d"], "banned": ["e", "f"]}'
    found = LineReader(TextFormat.jsonl).read(line)
    assert found == Request("a", "b", ("c d",), ("e", "f"), json.loads(line))
    assert LineReader(TextFormat.text).read("a\tb") == Request("a\tb")
    assert LineReader(TextFormat.tsv, 2).read("a\tb\t").source == "b"
    assert LineReader(TextFormat.tsv, 2).read("a\tb\r").columns == ["a", "b"]
    with pytest.raises(UserError, match="has no column 2"):
        LineReader(TextFormat.tsv, 2).read("a")


def test_writing(tokenizer: Tokenizer) -> None:
    [ids] = tokenizer.encode(["kalo"])
    found = [translation("a\tb", *ids), translation("c", *ids, is_finished=False)]
    request = Request("kalo", columns=["1", "kalo", "x"])
    # A tab in a translation would add a column, except in plain text with one translation.
    assert LineWriter(TextFormat.text, tokenizer).write(request, found) == "a b\tc\n"
    assert LineWriter(TextFormat.text, tokenizer).write(request, found[:1]) == "a\tb\n"
    assert LineWriter(TextFormat.tsv, tokenizer, 2).write(request, found) == "1\ta b\tx\tc\n"
    record = json.loads(LineWriter(TextFormat.jsonl, tokenizer).write(Request("kalo"), found))
    finished, cut_off = record["translations"]
    assert record["source"] == "kalo"
    assert finished["tokens"] == [*tokenizer.pieces(ids), "</s>"]
    assert cut_off["tokens"] == tokenizer.pieces(ids)
    assert finished["log_prob"] == -len(finished["token_log_probs"])
    assert "alignment" not in finished
    # Alignments are in JSON lines, or in an output of their own.
    [line] = LineWriter(TextFormat.jsonl, tokenizer, alignment=True).texts([request], [found])
    assert json.loads(line)["translations"][1]["alignment"] == "0-0"
    texts = LineWriter(TextFormat.text, tokenizer, alignment=True).texts([request], [found])
    assert texts == ["a b\tc\n", "0-0\n"]


@pytest.mark.parametrize(
    ("file", "given", "chosen"),
    [
        ("a.en", (None, None), ("text", "text")),
        ("a.jsonl", (None, None), ("jsonl", "jsonl")),
        ("a.JSONL", (None, "text"), ("jsonl", "text")),
        ("a.jsonl", ("text", None), ("text", "text")),
        ("a.en", (None, "jsonl"), ("text", "jsonl")),
        ("a.csv", (None, "tsv"), ("tsv", "tsv")),
        ("a.tsv", (None, None), ("tsv", "tsv")),
        (None, (None, "jsonl"), ("jsonl", "jsonl")),
        (None, ("text", "jsonl"), ("text", "jsonl")),
        (None, (None, None), ("text", "text")),
    ],
)
def test_formats_are_those_given_or_by_the_ending(
    file: str | None, given: tuple[str | None, str | None], chosen: tuple[str, str]
) -> None:
    read, write = (TextFormat[name] if name else None for name in given)
    found = choose_formats(Path(file) if file else None, read, write)
    assert tuple(format_.name for format_ in found) == chosen
    with pytest.raises(UserError, match="cannot be combined"):
        choose_formats(Path("a.tsv"), None, TextFormat.jsonl)
