import hashlib
from pathlib import Path

import pytest

from data_prep.clean import normalise
from nmt.errors import UserError
from nmt.evaluation import known_test_sets
from nmt.evaluation.known_test_sets import TABLE, checksum, identify, read_table, suspicions
from nmt.files import read_lines, write_lines

SHARED = Path(__file__).parents[5] / "shared" / "data"

RAW = ["Das ist ein Satz.", "Noch einer, bitte."]


def test_the_checksum_of_plain_text_is_that_of_the_file() -> None:
    text = "".join(f"{line}\n" for line in RAW)
    assert checksum(RAW) == hashlib.sha256(text.encode()).hexdigest()
    assert checksum(RAW) != checksum(RAW[:1])
    assert checksum(["a b"]) != checksum(["a", "b"])


@pytest.mark.parametrize(
    "odd", ["a\u00a0b", "a\u2028 b", "a\x85b\r", "\ufeffa  b", "a\tb ", "e\u0301 ▁", "a\x00b"]
)
def test_preparation_does_not_change_a_checksum(odd: str) -> None:
    assert checksum([odd]) == checksum([normalise(odd)])


def test_the_table_is_sound() -> None:
    rows = read_table()
    assert len({(digest, language) for digest, language, *_ in rows}) == len(rows)
    assert all(name.strip() == name and name for *_, name in rows)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("mixed-en-de/newstest2014.de", "newstest2014 full (en-de)"),
        ("mixed-en-fr/newstest2014.fr", "newstest2014 full (en-fr)"),
        ("multi30k/test_2016_flickr.de", "Multi30k test_2016_flickr"),
    ],
)
def test_a_set_is_known_whatever_it_is_called(path: str, name: str) -> None:
    if not (SHARED / path).is_file():
        pytest.skip(f"{path} is not there")
    lines = read_lines(SHARED / path)
    language = path.rpartition(".")[2]
    assert identify("mine", language, [lines]).known_as == name
    assert not identify("mine", language, [lines]).warnings
    # One sentence less is another set.
    assert not identify("mine", language, [lines[:-1]]).known_as


def test_one_line_in_the_table_names_a_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "test_sets.tsv"
    write_lines(table, ["# ours", f"{checksum(RAW)}\tde\t2\tOur letters"])
    monkeypatch.setattr(known_test_sets, "read_table", lambda: read_table(table))
    assert identify("letters", "de", [RAW]).known_as == "Our letters"
    assert identify("letters", "en", [RAW]).known_as == ""


@pytest.mark.parametrize(
    "line", ["abc\tde\t2\tname", f"{'0' * 64}\tde\tname", f"{'0' * 64} de 2 x"]
)
def test_a_line_that_is_unlike_the_others_is_refused(tmp_path: Path, line: str) -> None:
    table = tmp_path / "test_sets.tsv"
    write_lines(table, ["# ours", line])
    with pytest.raises(UserError, match="line 2: write a checksum"):
        read_table(table)
    assert TABLE.name == "test_sets.tsv"


def test_what_sacrebleu_has_downloaded_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_test_sets, "SACREBLEU_DIR", str(tmp_path))
    write_lines(tmp_path / "wmt14" / "full" / "wmt14_full.en-de.ref", RAW)
    write_lines(tmp_path / "wmt14" / "full" / "wmt14_full.de-en.ref", ["something else", "x"])
    assert identify("x", "de", [RAW]).known_as == "sacrebleu -t wmt14/full -l en-de"
    assert identify("x", "en", [RAW]).known_as == ""


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (3003, "taken for newstest2014 full, 3,003 sentences"),
        (2737, "the variant of newstest2014 with 2,737 sentences"),
        (3000, "this has 3,000, so its scores compare with neither"),
    ],
)
def test_the_two_newstests_of_2014_are_told_apart(number: int, told: str) -> None:
    lines = [f"Satz {n}." for n in range(number)]
    (warning,) = identify("newstest2014", "de", [lines]).warnings
    assert told in warning
    assert not identify("newstest2015", "de", [lines]).warnings


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["Das ist ein Rich @-@ Text .", "Gut."], "@-@"),
        (["Wie geht &apos;s?", "Gut."], "&apos;"),
        (["Das ist gut .", "Das auch ."], "spaces before full stops"),
        (["das ist gut.", "das auch."], "no capital letter"),
    ],
)
def test_references_that_are_not_raw_are_noticed(lines: list[str], told: str) -> None:
    assert any(told in warning for warning in suspicions(lines))


def test_raw_references_raise_no_suspicion() -> None:
    # One stray space among a hundred lines is real life; digits and Chinese have no capitals.
    assert suspicions(["Das ist gut."] * 99 + ["Das auch ."]) == []
    assert suspicions(["1 2 3", "4 5"]) == []
    assert suspicions(["这是一句话。"]) == []


@pytest.mark.parametrize("path", ["mixed-en-de/newstest2014.de", "mixed-en-fr/newstest2014.fr"])
def test_real_references_raise_no_suspicion(path: str) -> None:
    if not (SHARED / path).is_file():
        pytest.skip(f"{path} is not there")
    assert suspicions(read_lines(SHARED / path)) == []
