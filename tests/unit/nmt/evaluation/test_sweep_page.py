"""The page of a sweep, made from invented runs."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from nmt.base.files import write_json, write_lines
from nmt.evaluation.sweep import Sweep, read_sweep
from nmt.evaluation.sweep_page import (
    axis_of,
    choose_sentences,
    effect_chart,
    group_colours,
    sweep_page,
)
from nmt.run_folder import Run
from tests.html_check import check_page
from tests.support import made_up_sentences, write_corpus
from tests.sweeps import add_run, swept_config

REFERENCES = made_up_sentences(60)
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def folder(tmp_path: Path, tokenizer_path: Path) -> Path:
    pairs = [(line, line) for line in REFERENCES]
    write_corpus(tmp_path / "corpora" / "toy-1", tokenizer_path, {"train": pairs, "valid": pairs})
    return tmp_path / "sweeps" / "rates"


def add_grid(
    folder: Path,
    *rates: float,
    dropouts: tuple[float, ...] = (0.1,),
    seeds: tuple[int, ...] = (1, 2),
) -> Sweep:
    """Add the seeds of each setting; the first rate is the best one."""
    for number, rate in enumerate(rates):
        for dropout in dropouts:
            for seed in seeds:
                config = swept_config(rate, seed, dropout)
                name = f"dropout={dropout},rate={rate},seed={seed}"
                add_run(folder / name, config, REFERENCES, 0.1 + 0.02 * number, "toy-1")
    return read_sweep(folder)


def test_page_shows_ranking_curves_effects_and_translations(folder: Path) -> None:
    sweep = add_grid(folder, 0.02, 0.01, dropouts=(0.1, 0.3))
    page = sweep_page(sweep)
    text = check_page(page)
    assert sweep.verdict() in text
    assert "8 complete" in text
    best = sweep.groups[0]
    bleu, loss = best.spread("bleu"), best.spread("loss")
    assert bleu is not None
    assert loss is not None
    first_row = f"{bleu.format('bleu')}––{loss.format('loss')}"
    assert first_row in text.replace("\n", "")
    assert "paired bootstrap over the validation sentences (1,000 resamples" in text
    labels = re.findall(r'aria-label="([^.:"]*)', page)
    assert labels == [
        *("Validation loss", "Validation BLEU"),
        *("Validation BLEU by model", "Validation BLEU by schedule"),
        "A line for each of 8 runs across model",
    ]
    for group in ("group1", "group2", "group3", "group4", "fifth1", "fifth5"):
        assert f"stroke: var(--{group})" in page
    assert page.count('<div class="sentence">') == 10
    assert page.count("<dt>") == 10 * (2 + 4 + 4)  # four settings with two seeds
    assert page.count("<summary>4 more runs</summary>") == 10
    assert "<mark>" in page
    assert "#aa00" not in page  # all colours are variables


def test_statuses_and_last_lines_are_listed(folder: Path) -> None:
    add_grid(folder, 0.02, 0.01)
    run = folder / "dropout=0.1,rate=0.01,seed=2"
    (run / "result.json").unlink()
    write_json(run / "failure.json", {"lines": ["before", f"error: {HOSTILE}"]})
    add_run(folder / "lost", swept_config(0.05, 1), is_complete=False)
    page = sweep_page(read_sweep(folder))
    text = check_page(page)
    assert "3 complete, 1 failed, 1 interrupted" in text
    assert "1 of 2" in text
    assert f"before\nerror: {HOSTILE}" in text
    assert "Settings without a complete run: 1;" in text


def test_runs_and_corpus_are_linked(folder: Path) -> None:
    add_grid(folder, 0.02, seeds=(1,))
    run = folder / "dropout=0.1,rate=0.02,seed=1"
    corpus = folder.parents[1] / "corpora" / "toy-1"
    assert 'href="../' not in sweep_page(read_sweep(folder))
    for report in (run / "report.html", corpus / "report.html"):
        report.touch()
    page = sweep_page(read_sweep(folder))
    check_page(page)
    for link in ("dropout%3D0.1%2Crate%3D0.02%2Cseed%3D1", "../../corpora/toy-1"):
        assert f'<a href="{link}/report.html">' in page


def test_any_text_is_shown_safely(folder: Path) -> None:
    add_grid(folder, 0.02)
    for run in folder.iterdir():
        write_lines(run / "valid_hypotheses.txt", [HOSTILE, "", "\x1b[31m " + "x" * 900] * 20)
    page = sweep_page(read_sweep(folder))
    text = check_page(page)
    assert "<script" not in page
    assert HOSTILE in text
    assert "(empty)" in text
    assert "\x1b" not in page
    assert "x" * 601 not in page


@pytest.mark.parametrize("is_complete", [False, True])
def test_sweep_of_one_run(folder: Path, is_complete: bool) -> None:
    add_run(folder / "all", swept_config(0.1, 1), REFERENCES, 0.1, "toy-1", is_complete)
    text = check_page(sweep_page(read_sweep(folder)))
    assert ("No run is complete." in text) is not is_complete
    assert "No key varies, apart from the seed." in text
    assert "Validation BLEU" in text
    assert text.count("line ") >= 10


def test_sweep_without_runs(tmp_path: Path) -> None:
    text = check_page(sweep_page(read_sweep(tmp_path)))
    for part in (
        "This folder contains no runs.",
        "No run has a validation yet.",
        "There are no tr",
    ):
        assert part in text


def test_more_settings_than_colours(folder: Path) -> None:
    sweep = add_grid(folder, *(0.01 * number for number in range(1, 11)), seeds=(1,))
    assert group_colours(sweep.groups)[7:] == ["group8", "other", "other"]
    page = sweep_page(sweep)
    assert "2 others" in check_page(page)
    assert page.count("<summary>2 more runs</summary>") == 10
    # A run whose configuration cannot be read has a name and no values.
    (folder / "dropout=0.1,rate=0.01,seed=1" / "config.yaml").write_text("7", encoding="utf-8")
    assert "config.yaml: has no keys" in check_page(sweep_page(read_sweep(folder)))


def test_numbers_that_vary_much_are_placed_by_their_logarithm() -> None:
    positions, ticks = axis_of([0.1, 0.001, 0.01])
    assert positions == pytest.approx([-1, -3, -2])
    assert list(ticks.values()) == ["0.001", "0.01", "0.1"]
    assert axis_of([1, 5, 2]) == ([1, 5, 2], {1: "1", 2: "2", 5: "5"})
    assert axis_of([0, 100])[0] == [0, 100]
    rates = [0.0012, 0.004, 0.011, 0.02, 0.021, 0.03, 0.033]
    assert list(axis_of(rates)[1].values()) == ["0.002", "0.005", "0.01", "0.02"]
    wide = [10.0**exponent for exponent in range(-4, 4)]
    assert list(axis_of(wide)[1].values())[::7] == ["0.0001", "1000"]
    assert list(axis_of(list(range(10, 20)))[1].values()) == ["10", "13", "16", "19"]
    assert list(axis_of(list(range(1000, 1010)))[1].values()) == ["1000", "1003", "1006", "1009"]


def test_other_values_are_categories() -> None:
    assert axis_of(["b", "a", "b"]) == ([1, 0, 1], {0: "a", 1: "b"})
    assert axis_of([True, 3]) == ([1, 0], {0: "3", 1: "true"})
    assert axis_of([["x", "y"], []])[1] == {0: "none", 1: "x,y"}


def test_effect_of_a_category_with_long_names(folder: Path) -> None:
    config = swept_config(0.1, 1)
    named = [replace(config, corpus=replace(config.corpus, name=name * 30)) for name in "ab"]
    runs = [add_run(folder / config.corpus.name, config) for config in named]
    chart = effect_chart("corpus.name", list(map(Run, runs)))
    assert "…" in chart
    assert "rotate(-25" in chart


def test_chosen_sentences_are_of_medium_length_and_evenly_spaced() -> None:
    sources = ["x" * length for length in [1, 50, 500] * 40]
    chosen = choose_sentences(sources, 10)
    assert len(chosen) == 10
    assert {len(sources[index]) for index in chosen} <= {1, 50, 500}
    lengths = ["x" * length for length in range(100)]
    assert all(24 <= index <= 75 for index in choose_sentences(lengths, 10))
    assert max(b - a for a, b in pairwise(chosen)) <= 15
    assert choose_sentences(["a"], 10) == [0]
    assert choose_sentences([], 10) == []
