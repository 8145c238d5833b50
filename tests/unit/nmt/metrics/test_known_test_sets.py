import hashlib
from pathlib import Path

import pytest

from data_prep.clean import normalise
from nmt.base.errors import UserError
from nmt.base.files import read_lines, write_lines
from nmt.metrics import known_test_sets
from nmt.metrics.known_test_sets import TABLE, checksum, identify, raw_text_warnings, read_table

SHARED = Path(__file__).parents[5] / "shared" / "data"

RAW = ["Das ist ein Satz.", "Noch einer, bitte."]


def test_checksum_of_normalised_text_equals_that_of_the_file() -> None:
    text = "".join(f"{line}\n" for line in RAW)
    assert checksum(RAW) == hashlib.sha256(text.encode()).hexdigest()
    assert checksum(RAW) != checksum(RAW[:1])
    assert checksum(["a b"]) != checksum(["a", "b"])


@pytest.mark.parametrize(
    "odd", ["a\u00a0b", "a\u2028 b", "a\x85b\r", "\ufeffa  b", "a\tb ", "e\u0301 ▁", "a\x00b"]
)
def test_preparation_keeps_the_checksum(odd: str) -> None:
    assert checksum([odd]) == checksum([normalise(odd)])


def test_table_is_valid() -> None:
    names = read_table()
    assert len(names) == sum(not line.startswith("#") for line in read_lines(TABLE))
    assert all(name.strip() == name and name for name in names.values())


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("mixed-en-de/newstest2014.de", "newstest2014 full (en-de)"),
        ("mixed-en-fr/newstest2014.fr", "newstest2014 full (en-fr)"),
        ("multi30k/test_2016_flickr.de", "Multi30k test_2016_flickr"),
    ],
)
def test_known_references_are_identified(path: str, name: str) -> None:
    if not (SHARED / path).is_file():
        pytest.skip(f"{path} is missing")
    lines = read_lines(SHARED / path)
    language = path.rpartition(".")[2]
    assert identify("mine", language, [lines]).known_as == name
    assert not identify("mine", language, [lines]).warnings  # raw text is not suspicious
    # Without its last sentence it is another test set.
    assert not identify("mine", language, [lines[:-1]]).known_as


def test_line_in_the_table_names_a_test_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "test_sets.tsv"
    write_lines(table, ["# comment", f"{checksum(RAW)}\tde\t2\tLetters"])
    monkeypatch.setattr(known_test_sets, "read_table", lambda: read_table(table))
    assert identify("letters", "de", [RAW]).known_as == "Letters"
    assert identify("letters", "en", [RAW]).known_as == ""


@pytest.mark.parametrize(
    "line", ["abc\tde\t2\tname", f"{'0' * 64}\tde\tname", f"{'0' * 64} de 2 x"]
)
def test_malformed_line_is_rejected(tmp_path: Path, line: str) -> None:
    table = tmp_path / "test_sets.tsv"
    write_lines(table, ["# comment", line])
    with pytest.raises(UserError, match="line 2: write a checksum"):
        read_table(table)
    assert TABLE.name == "test_sets.tsv"


def test_download_cache_of_sacrebleu_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_test_sets, "SACREBLEU_DIR", str(tmp_path))
    write_lines(tmp_path / "wmt14" / "full" / "wmt14_full.en-de.ref", RAW)
    write_lines(tmp_path / "wmt14" / "full" / "wmt14_full.de-en.ref", ["something else", "x"])
    assert identify("x", "de", [RAW]).known_as == "sacrebleu -t wmt14/full -l en-de"
    assert identify("x", "en", [RAW]).known_as == ""


def test_unknown_references_of_newstest2014_are_reported() -> None:
    (warning,) = identify("newstest2014", "de", [[f"Satz {n}." for n in range(3000)]]).warnings
    assert "its 3,000 references have no known checksum of newstest2014" in warning
    assert not identify("newstest2015", "de", [["Satz."]]).warnings


@pytest.mark.parametrize(
    ("lines", "warnings"),
    [
        (["Das ist ein Rich @-@ Text.", "Gut."], ["@-@"]),
        (["Wie geht &apos;s?", "Gut."], ["&apos;"]),
        (["Das ist gut .", "Das auch ."], ["spaces before full stops"]),
        (["das ist gut.", "das auch."], ["no capital letter"]),
        # Raw text contains a few odd lines; digits and Chinese characters have no case.
        (["Das ist gut."] * 99 + ["Das auch ."], []),
        (["1 2 3", "4 5"], []),
        (["这是一句话。"], []),
    ],
)
def test_tokenised_references_are_reported(lines: list[str], warnings: list[str]) -> None:
    found = raw_text_warnings(lines)
    assert len(found) == len(warnings)
    assert all(warning in text for warning, text in zip(warnings, found, strict=True))
