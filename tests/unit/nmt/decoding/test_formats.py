import json

import pytest

from nmt.cli.translate import formats
from nmt.decoding.formats import Answer, Format, Item, LineReader, LineWriter
from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.task import Wish
from nmt.decoding.translator import Translation
from nmt.errors import UserError
from nmt.tokenizer import Tokenizer


def translation(text: str, *ids: int, ends: bool = True) -> Translation:
    log_probs = [-1.0] * (len(ids) + ends)
    return Translation(text, -0.5, [Hypothesis(list(ids), sum(log_probs), -0.5, log_probs)])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "is empty"),
        ("{", "is not JSON, at character 2"),
        ('"a"', "is no object"),
        ("[]", "is no object"),
        ("{}", "has no key source"),
        ('{"source": 3}', "source is no text but 3"),
        ('{"source": null}', "source is no text but null"),
        ('{"source": "a", "b": "\\ud800"}', "half a character"),
        ('{"source": "a", "prefix": 3}', "prefix is no text but 3"),
        ('{"source": "a", "required": "b"}', 'required is no list of texts but "b"'),
        ('{"source": "a", "banned": ["b", 1]}', 'banned is no list of texts but ["b", 1]'),
        ("[" * 100_000, "cannot be read"),
        ('{"source": "a", "n": ' + "9" * 5000 + "}", "cannot be read"),
    ],
)
def test_bad_json_is_told_with_its_line(line: str, told: str) -> None:
    with pytest.raises(UserError, match=r"^in: line 3: ") as refusal:
        LineReader(Format.jsonl).read(line, "in", 3)
    assert told in str(refusal.value)


def test_reading() -> None:
    item = LineReader(Format.jsonl).read('{"b": 1, "source": "\\ud83d\\ude00 a"}', "in", 1)
    assert item == Item("😀 a", {"b": 1, "source": "😀 a"})
    asking = '{"source": "a", "prefix": "b", "required": ["c d"], "banned": ["e", "f"]}'
    item = LineReader(Format.jsonl).read(asking, "in", 1)
    assert item.wish == Wish("b", ("c d",), ("e", "f"))
    assert LineReader(Format.text).read("a\tb", "in", 1) == Item("a\tb")
    assert LineReader(Format.tsv, 2).read("a\tb\t", "in", 1).source == "b"
    with pytest.raises(UserError, match="in: line 9: has 1 column, and column=2"):
        LineReader(Format.tsv, 2).read("a", "in", 9)


def test_writing(tokenizer: Tokenizer) -> None:
    [ids] = tokenizer.encode(["kalo"])
    answer = Answer([translation("a\tb", *ids), translation("c", *ids, ends=False)])
    item = Item("kalo", columns=["1", "kalo", "x"])
    # A tab that the model made up would shift the columns; beside no other text it may stay.
    assert LineWriter(Format.text, tokenizer).write(item, answer) == "a b\tc\n"
    alone = Answer(answer.translations[:1])
    assert LineWriter(Format.text, tokenizer).write(item, alone) == "a\tb\n"
    assert LineWriter(Format.tsv, tokenizer, 2).write(item, answer) == "1\ta b\tx\tc\n"
    told = json.loads(LineWriter(Format.jsonl, tokenizer).write(Item("kalo"), answer))
    ended, cut_off = told["translations"]
    assert told["source"] == "kalo"
    assert ended["tokens"] == [*tokenizer.pieces(ids), "</s>"]
    assert cut_off["tokens"] == tokenizer.pieces(ids)
    assert ended["log_prob"] == -len(ended["token_log_probs"])


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        (("a.en", "", ""), ("text", "text")),
        (("a.jsonl", "", ""), ("jsonl", "jsonl")),
        (("a.jsonl", "", "text"), ("jsonl", "text")),
        (("a.jsonl", "text", ""), ("text", "text")),
        (("a.en", "", "jsonl"), ("text", "jsonl")),
        (("a.en", "", "tsv"), ("tsv", "tsv")),
        (("-", "", "jsonl"), ("jsonl", "jsonl")),
        (("-", "text", "jsonl"), ("text", "jsonl")),
        (("-", "", ""), ("text", "text")),
    ],
)
def test_formats_go_by_what_is_said_and_by_the_ending(
    given: tuple[str, str, str], chosen: tuple[str, str]
) -> None:
    read, write = formats(*given)
    assert (read.name, write.name) == chosen


def test_columns_stay_columns() -> None:
    with pytest.raises(UserError, match="do not go together"):
        formats("a.tsv", "", "jsonl")
