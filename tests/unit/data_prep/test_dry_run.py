import re
from dataclasses import replace
from pathlib import Path

import pytest

from data_prep import dry_run as module
from data_prep import filters
from data_prep.dry_run import dry_run, read_samples
from data_prep.prepare import prepare
from data_prep.progress import Reporter
from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.config import CleaningConfig, EvaluationConfig, SourceConfig
from tests.unit.data_prep.conftest import Toy, write_pairs


def test_a_dry_run_shows_what_each_preset_takes_of_each_source_and_writes_nothing(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SAMPLE_PAIRS", 4)
    write_pairs(tmp_path / "web", "train", ["one", "two", "two", "a b c"], ["eins", *["zwei"] * 3])
    source = SourceConfig(path=str(tmp_path / "web"), cleaning={"max_words": 2})
    before = set(tmp_path.rglob("*"))
    presets = {
        "all": CleaningConfig(drop_duplicates=False, drop_copies=False),
        "none": CleaningConfig(max_words=1, drop_duplicates=False),
    }
    config = replace(toy.config, sources={"web": source})
    dry_run(config, presets, toy.outputs, Reporter())
    lines = [line.split() for line in capsys.readouterr().err.splitlines() if "%" in line]
    assert lines == [
        ["kept", "100.00", "%", "100.00", "%", "0.00", "%"],
        ["length", "0.00", "%", "0.00", "%", "100.00", "%"],
        ["kept", "50.00", "%", "75.00", "%", "75.00", "%"],
        ["length", "25.00", "%", "25.00", "%", "25.00", "%"],
        ["duplicate", "25.00", "%", "0.00", "%", "0.00", "%"],
    ]
    assert set(tmp_path.rglob("*")) == before


def test_a_minimum_of_scores_that_are_not_there_is_refused_as_in_preparation(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    presets = {"scored": CleaningConfig(min_score=0.5)}
    dry_run(toy.config, presets, toy.outputs, Reporter())
    message = "corpus.cleaning.min_score=0.5: pairs of toy have no score; give a third column"
    assert f"cleaning=scored is not shown: {message}" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(UserError, match=re.escape(message)):
        dry_run(replace(toy.config, cleaning=presets["scored"]), {}, toy.outputs, Reporter())


def test_a_preset_that_lacks_a_package_is_not_shown(
    toy: Toy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.base.system.find_spec", lambda name: None)
    filters._ftfy.cache_clear()
    dry_run(toy.config, {"strict": CleaningConfig(repair_unicode=True)}, toy.outputs, Reporter())
    printed = capsys.readouterr().err
    assert "cleaning=strict is not shown: " in printed
    assert "make install-data" in printed


def test_a_dry_run_opens_the_text(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    path = toy.raw / "pairs.tsv"
    rows = [f"{a}\t{b}" for a, b in zip(toy.lines("train.en"), toy.lines("train.de"), strict=True)]
    write_lines(path, [*rows, "one column"])
    config = replace(toy.config, path=str(path))
    dry_run(config, {}, toy.outputs, Reporter())
    assert "1 of 201 units skipped: another number of columns" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"corpus\.name=toy: source and target are swapped"):
        dry_run(replace(config, direction="de-en"), {}, toy.outputs, Reporter())
    write_lines(path, [*rows, *["one column"] * 9])
    with pytest.raises(UserError, match=r"9 of 209 units skipped: .*corpus\.max_bad_share"):
        read_samples(config, toy.outputs, Reporter(quiet=True))


def test_blank_references_are_refused_before_anything_is_prepared(toy: Toy) -> None:
    write_lines(toy.raw / "test.de.1", ["a", "b", "\u200b", "d"])
    write_lines(toy.raw / "test.de", ["a", " ", "c", ""])
    quiet, message = Reporter(quiet=True), r"^test set test: 2 of 4 references are blank"
    with pytest.raises(UserError, match=message):
        dry_run(toy.config, {}, toy.outputs, quiet)
    with pytest.raises(UserError, match=message):
        toy.prepare()
    assert not list(toy.outputs.glob("toy-*"))
    allowed = EvaluationConfig(allow_blank=True)
    dry_run(toy.config, {}, toy.outputs, quiet, allowed)
    prepare(toy.config, toy.tokenizer, toy.outputs, quiet, evaluation=allowed)
