"""Files of pairs: tables, JSON and PO."""

import gzip
import json
import lzma
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from data_prep import json_reader, table_reader, text_files
from data_prep.clean import Pair, score_of
from data_prep.ledger import LEDGER_FILE
from data_prep.local_sources import LocalSource, open_reader
from data_prep.manifest import FactsCache
from data_prep.text_files import BadUnit
from nmt.base.errors import UserError
from nmt.base.files import read_json, write_lines
from nmt.config import CorpusConfig, CorpusSource
from tests.unit.data_prep.conftest import Toy, sentences

SHARED_CASES = Path(__file__).parents[3].parent / "shared" / "cases"


@pytest.fixture
def read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Write a file and read it; return its pairs and bad units, and what is printed."""

    def read_file(
        name: str, text: str | bytes, direction: str = "en-de", columns: Sequence[str] = ()
    ) -> tuple[list[Pair | BadUnit], str]:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        config = CorpusConfig(
            source=CorpusSource.folder, path="x", direction=direction, columns=list(columns)
        )
        reader = open_reader(path, config, FactsCache(tmp_path / "facts"), print)
        capsys.readouterr()
        found = list(reader.pairs())
        again = open_reader(path, config, FactsCache(tmp_path / "facts"), print)
        assert again.identity() == reader.identity()
        return found, capsys.readouterr().out.replace(str(tmp_path), "")

    return read_file


AB = [("a", "b"), ("c", "d")]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.tsv", "a\tb\nc\td\n", "by tabs; source in column 1, target in column 2\n"),
        ("a.tsv", "\ufeffen\tde\r\na\tb\r\nc\td\r\n", "with a header; source in column 1"),
        ("a.tsv", "English\tGerman\na\tb\nc\td", "with a header"),
        (
            "a.txt",
            "de-AT\tnote\ten\nb\tx\ta\nd\ty\tc\n",
            "source in column 3, target in column 1",
        ),
        ("a.tsv", '"a"\t"b"\n"c"\t"d"\n', "by tabs, with quotes"),
        ("a.csv", "en,de\na,b\nc,d\n", "by commas, with quotes, with a header"),
        ("a.csv", "a;b\nc;d\n", "by semicolons"),
        ("a.csv", "source\ttarget\na\tb\nc\td\n", "by tabs"),
        ("a.txt", "en;de\na;b\nc;d\n", "by semicolons"),
        ("a.txt", "a ||| b\nc ||| d\n", "by three bars; source in column 1, target in column 2\n"),
        ("a.de-en", "de ||| en\r\nb ||| a\r\nd|||c\r\n", "by three bars, with a header"),
        ("a.csv", "a ||| b ||| x\nc ||| d ||| y\n", "by three bars; source in column 1"),
        ("a.txt", "a\tb\tCC-BY\nc\td\tCC-BY\n", "other columns are ignored"),
    ],
)
def test_the_layout_of_a_table_is_detected_and_said(read, name, text, said) -> None:
    found, printed = read(name, text)
    assert [tuple(cell.strip() for cell in pair) for pair in found] == AB
    assert said in printed


@pytest.mark.parametrize(
    ("columns", "direction", "text"),
    [
        (["2", "1"], "de-en", "a\tb\nc\td\n"),
        (["en", "de"], "de-en", "a\tb\nc\td\n"),
        (["de", "en"], "de-en", "de\ten\nb\ta\nd\tc\n"),
        (["answer", "question"], "de-en", "question\tid\tanswer\na\t1\tb\nc\t2\td\n"),
        (["2", "4"], "de-en", "1\tb\t2\ta\n3\td\t4\tc\n"),
        (["2", "1"], "de-en", "a\tb\tx\ty\nc\td\n"),
    ],
)
def test_columns_are_named_or_numbered(read, columns, direction, text) -> None:
    assert read("a.tsv", text, direction, columns)[0] == [("b", "a"), ("d", "c")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["x", "y"], r"corpus\.columns=\[x,y\]: line 1 has the columns a \| b; name two"),
        (["1", "3"], r"corpus\.columns=\[1,3\]: line 1"),
        (["0", "1"], r"corpus\.columns=\[0,1\]: line 1"),
        ([], r"line 1 has 4 columns; name those of source and target by"),
    ],
)
def test_columns_that_are_not_there(read, columns, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read("a.tsv", "a\tb\n" if columns else "a\tb\tc\td\n", columns=columns)
    with pytest.raises(UserError, match="has one column"):
        CorpusConfig(columns=["en"])


@pytest.mark.parametrize("name", ["train.en", "a.en.srt", "a.csv"])
def test_a_file_without_columns_is_refused(read, name: str) -> None:
    with pytest.raises(UserError, match="no line has a separator of columns, such as a tab; of"):
        read(name, "1\nOne, two.\n\n2\nThree.\n" if name != "a.csv" else "One.\nTwo.\n")


def test_scores_are_numbers_in_a_third_column(read) -> None:
    found, said = read("a.tsv", "a\tb\t0.5\nc\td\nx\ty\tnan\ne\tf\t-1\n")
    assert "score in column 3" in said
    assert [one.line if isinstance(one, BadUnit) else score_of(one) for one in found] == [
        0.5, None, 3, -1,
    ]  # fmt: skip
    found, _ = read("a.tsv", "score\ten\tde\n2\ta\tb\n")
    assert [score_of(pair) for pair in found] == [2]
    found, _ = read("a.tsv", "a\tb\tx\t3\n", columns=["1", "2", "4"])
    assert [score_of(pair) for pair in found] == [3]


def test_quotes_of_the_text_are_kept(read) -> None:
    text = '"Hello," she said.\t"Hallo", sagte sie.\n"Yes."\tJa, gut.\n5" tall\t5" hoch\n'
    assert read("a.tsv", text)[0] == [tuple(line.split("\t")) for line in text.splitlines()]


def test_quotes_of_the_format_may_hold_line_feeds_and_quotes(read) -> None:
    text = 'en,de\n"a ""b"", c","d\ne"\nf,g\n'
    assert read("a.csv", text)[0] == [('a "b", c', "d\ne"), ("f", "g")]
    assert read("a.tsv", 'He said ""x"".\tEr.\n')[0] == [('He said ""x"".', "Er.")]
    assert read("a.tsv", '"He said ""x"", then"\tEr.\n')[0] == [('He said "x", then', "Er.")]


def test_bad_rows_are_skipped_with_their_lines(read) -> None:
    rows = [f'"a{n}","b{n}"' for n in range(300)]
    rows[100] = '"open,"b100"'
    rows[200] = "one column"
    found, _ = read("a.csv", "\n".join(rows))
    bad = [(one.kind, one.line) for one in found if isinstance(one, BadUnit)]
    assert bad == [("quotes that do not match", 101), ("another number of columns", 201)]
    assert [one for one in found if not isinstance(one, BadUnit)] == [
        (f"a{n}", f"b{n}") for n in range(300) if n not in (100, 200)
    ]
    found, _ = read("a.tsv", b"a\tb\n\xff\tx\n\nc\td\te\tf\nc\td\n")
    assert [one.line if isinstance(one, BadUnit) else one for one in found] == [
        ("a", "b"), 2, ("", ""), 4, ("c", "d"),
    ]  # fmt: skip


OBJECTS = [
    {"translation": {"en": "a", "de": "b"}},
    {"en": "a", "de": "b"},
    {"id": 1, "source": "a", "target": "b"},
    {"src": "a", "tgt": "b", "meta": {"x": "y"}},
    {"English": "a", "deu_Latn": "b"},
]


@pytest.mark.parametrize("value", OBJECTS)
@pytest.mark.parametrize("layout", ["lines", "list", "document", "line"])
def test_json_has_many_layouts(read, value: dict, layout: str) -> None:
    text = {
        "lines": f"{json.dumps(value)}\n\n{json.dumps(value)}\n",
        "list": json.dumps([value, value]),
        "document": json.dumps({"version": "1", "data": [value, value]}, indent=2),
        "line": json.dumps({"version": "1", "data": [value, value]}),
    }[layout]
    assert read("a.json", text)[0] == [("a", "b")] * 2


def test_json_keys_are_named(read) -> None:
    assert read("a.jsonl", '{"en": "a", "de": "b"}\n{"en": "c", "de": null}\n')[0][1] == ("c", "")
    line = '{"q": {"text": "a"}, "answer": "b", "quality": 0.5}\n'
    columns = ["q.text", "answer", "quality"]
    [pair] = read("a.jsonl", line, columns=columns)[0]
    assert (pair, score_of(pair)) == (("a", "b"), 0.5)
    with pytest.raises(UserError, match=r"line 1 has no texts in en-de, only the keys q\.text"):
        read("a.jsonl", line)


def test_bad_json_is_skipped_with_its_lines(read, monkeypatch: pytest.MonkeyPatch) -> None:
    good = '{"en": "a", "de": "b"}'
    bad = [
        '{"en": "a", "de": }',
        '{"en": "a"}',
        '{"en": ["a"], "de": "b"}',
        '{"en": "\\ud800", "de": "b"}',
    ]
    no_text = "no text in one of the keys"
    expected = [("not valid JSON", 2), (no_text, 4), (no_text, 6)]
    expected.append(("half a character (a surrogate)", 8))
    lines = [line for one in bad for line in (good, one)]
    for name, text in {
        "a.jsonl": "\n".join([*lines, good]),
        "a.json": "[" + ",\n".join([*lines, good]) + "]",
    }.items():
        for block in (1 << 20, 5):
            monkeypatch.setattr(json_reader, "_BLOCK", block)
            found = read(name, text)[0]
            assert found[::2] == [("a", "b")] * 5
            assert [(one.kind, one.line) for one in found[1::2]] == expected
    monkeypatch.setattr(json_reader, "MAX_LINE_BYTES", 20)
    with pytest.raises(UserError, match=r"line 2: an object is longer than 0 MB"):
        read("a.json", '[{"en":"","de":""},\n{"en": "' + "x" * 50)


PO = r"""msgid ""
msgstr ""
"Language: de\n"

#: file.c:1
msgid "Open \"%s\"\n"
"now"
msgstr "„%s“\tjetzt öffnen"

msgctxt "menu"
msgid "one file"
msgid_plural "%d files"
msgstr[0] "eine Datei"
msgstr[1] "%d Dateien"

#, fuzzy, c-format
msgid "guess"
msgstr "geraten"

msgid "damaged
msgstr "kaputt"

#~ msgid "old"
#~ msgstr "alt"

msgid "last"
msgstr ""
"""


def test_po_entries_are_pairs(read) -> None:
    found, _ = read("a.po", PO)
    pairs = [
        ('Open "%s"\nnow', "„%s“\tjetzt öffnen"),
        ("one file", "eine Datei"),
        ("%d files", "%d Dateien"),
        ("last", ""),
    ]
    assert [one for one in found if not isinstance(one, BadUnit)] == pairs
    assert [one.line for one in found if isinstance(one, BadUnit)] == [20]
    back, _ = read("a.po", PO, "de-en")
    assert [one for one in back if not isinstance(one, BadUnit)] == [(b, a) for a, b in pairs]


def test_a_few_bad_units_are_counted_and_many_stop(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, sides = tmp_path / "pairs.tsv", (sentences("en", 400, 1), sentences("de", 400, 2))
    lines = [f"{a}\t{b}" for a, b in zip(*sides, strict=True)]
    lines[7] = "only one column"
    path.write_text("\n".join(lines))
    folder = toy.prepare(path=str(path))
    ledger = read_json(folder / LEDGER_FILE)["sources"]["toy"]
    kind = "another number of columns"
    first = f"{path}: line 8: only one column"
    assert ledger["skipped"] == {kind: {"units": 1, "first": [first]}}
    assert f"not read: {kind}" in (folder / "report.html").read_text()
    lines[100:105] = ["x"] * 5
    path.write_text("\n".join(lines))
    message = rf"6 of 400 units skipped: {kind}; .*line 8: only one column; .*corpus\.max_bad_share"
    with pytest.raises(UserError, match=message):
        toy.prepare(path=str(path))
    assert toy.prepare(path=str(path), max_bad_share=0.02).is_dir()


def test_a_bad_unit_of_a_test_set_is_an_error(toy: Toy, opened) -> None:
    (toy.raw / "news.tsv").write_text("a\tb\nc\n" + "d\te\n" * 300)
    (toy.raw / "test.tsv").write_text("a\tb\nc\n" + "d\te\n" * 300)
    source = opened(toy.config)
    assert source.splits() == ["train", "valid", "test", "test.tsv"]
    with pytest.raises(UserError, match=r"1 of 302 units skipped: .*line 2: c$"):
        list(source.pairs("test.tsv"))


def test_a_folder_may_have_files_of_pairs(toy: Toy, tmp_path: Path, opened) -> None:
    (tmp_path / "text").mkdir()
    for name in ("train.jsonl", "validation.jsonl", "test.jsonl"):
        (tmp_path / "text" / name).write_text('{"en": "' + name + '", "de": "b"}\n')
    source = opened(toy.config, path=str(tmp_path / "text"))
    assert source.splits() == ["train", "valid", "test"]
    assert [pair.source for pair in source.pairs("valid")] == ["validation.jsonl"]
    folder = tmp_path / "more"
    for name, text in {"one.tsv": "c\td\n", "two.po": 'msgid "a"\nmsgstr "b"\n'}.items():
        write_lines(folder / name, [text])
    config = replace(toy.config, path=str(folder))
    source = LocalSource(config, FactsCache(tmp_path / "facts"), print)
    assert source.splits() == ["train"]
    assert list(source.pairs("train")) == [("c", "d"), ("", ""), ("a", "b")]


@pytest.mark.parametrize(
    "name", [f"a.{ending}.gz" for ending in ("tsv", "csv", "jsonl", "json", "tmx", "po")]
)
def test_a_line_without_end_takes_no_memory(
    name: str, read, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (text_files, json_reader):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", 100_000)
    monkeypatch.setattr("data_prep.xml_reader.MAX_LINE_BYTES", 100_000)
    text = "<tmx><tu>" if "tmx" in name else '[{"en": "' if ".json" in name else "a"
    with pytest.raises(UserError, match="is longer than 0 MB"):
        read(name, gzip.compress(text.encode() + b"x" * 10_000_000))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.tsv.gz", "a\tb\n"),
        ("a.csv.xz", "a,b\n"),
        ("a.jsonl.gz", '{"en": "a", "de": "b"}\n'),
        ("a.po.gz", 'msgid "a"\n'),
    ],
)
def test_a_later_line_without_end_is_refused_before_the_rest_is_decompressed(
    name: str, line: str, read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 100_000)
    compress = lzma.compress if name.endswith(".xz") else gzip.compress
    # The end is missing, which is an error, too, when it is read.
    damaged = compress(line.encode() * 1000 + b"x" * 3_000_000)[:-20]
    with pytest.raises(UserError, match="line 1001 is longer than 0 MB"):
        read(name, damaged)


def test_a_row_with_an_open_quote_ends_after_the_longest_line(
    read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_reader, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(table_reader, "_parse", parse := Mock(wraps=table_reader._parse))
    read("a.csv", "\n".join(["en,de", *['"a' + "x" * 500 + ","] * 9, "a,b"]))
    assert 1000 < max(len(call.args[0]) for call in parse.call_args_list) < 2000


@pytest.mark.skipif(not SHARED_CASES.is_dir(), reason="../shared/cases is not there")
@pytest.mark.parametrize(
    ("name", "direction", "num_pairs", "num_bad"),
    [
        ("tmx/good.tmx", "en-de", 600, 0),
        ("tmx/ctrl-raw.tmx", "en-de", 600, 1),
        ("tmx/no-seg.tmx", "en-de", 600, 1),
        ("tmx/nbsp.tmx", "en-de", 601, 0),
        ("tmx/fre-FR.tmx", "en-de", 600, 0),
        ("tsv/quote-all.tsv", "en-de", 1296, 0),
        ("tsv/header.tsv", "de-en", 1296, 0),
        ("tsv/manythings-deu.txt", "en-de", 1296, 0),
        ("tsv/data.csv", "en-de", 1296, 0),
        ("tsv/hf.jsonl", "en-de", 1296, 0),
        ("tsv/one-bad-line.tsv", "en-de", 1295, 1),
        ("zh/ui-zh_Hans.tsv", "en-zh", 4000, 0),
    ],
)
def test_shared_cases(
    name: str, direction: str, num_pairs: int, num_bad: int, tmp_path: Path
) -> None:
    config = CorpusConfig(source=CorpusSource.folder, path="x", direction=direction)
    reader = open_reader(SHARED_CASES / name, config, FactsCache(tmp_path / "facts"), print)
    found = list(reader.pairs())
    bad = [one for one in found if isinstance(one, BadUnit)]
    assert (len(found) - len(bad), len(bad)) == (num_pairs, num_bad)
    assert not any('"' in text for one in found if "quote" in name for text in one)
