"""The run's report, made from invented runs."""

import json
import math
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.config import Config, CorpusConfig, OptimizerConfig, save_config
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.baseline import Baseline
from nmt.evaluation.report import report_page, write_report
from nmt.evaluation.systems import System
from nmt.run_folder import Run, StoredTexts, series
from nmt.trained_model import TrainedModel, save_trained_model
from nmt.translation.attention import sentence_attention, short_sentences
from tests.html_check import check_page
from tests.support import (
    made_up_sentences,
    tiny_config,
    write_corpus,
    write_environment,
    write_result,
)

SCORE = {"score": 12.3456, "signature": "nrefs:1|tok:13a", "ci95": 1.5}
HOSTILE = [
    "<script>alert(1)</script>",
    "</div></body> & \"quotes\" 'single' {{ 1 }}",
    "a\u2028b 🎉👩‍👩‍👧 e\u0301",
    "שלום \u202e עולם",
    "\x00\x1b[31m \x85",
    "x" * 5000,
    "see http://example.org/?a=1&b=2 or url(x)",
    "",
]


def table(**more: Any) -> dict[str, Any]:
    return {"bleu": SCORE, "chrf": SCORE, "ter": SCORE, "sentences": 8, **more}


RESULT = {"valid": {"bleu": 1.0, "loss": 2.0}, "test_sets": {"test": table()}}


def add_run(config: Config, name: str, *records: dict[str, Any]) -> Run:
    """Write a run without a model."""
    folder = Path(config.run.outputs, "runs", name)
    save_config(config, folder / "config.yaml")
    write_environment(folder)
    write_lines(folder / "metrics.jsonl", map(json.dumps, records))
    return Run(folder)


def page_of(
    run: Run, texts: Sequence[StoredTexts] = (), baseline: Run | None = None, **more: Any
) -> str:
    """Return the report of a run; `more` are keys of its result."""
    result = {"valid": {"loss": 1.0, "bleu": 20.0}, "chosen": "checkpoint of update 5", **more}
    found, why = None, "the only comparable run"
    if baseline:
        found = Baseline(System(baseline.name, baseline.model, baseline), why)
    return report_page(run, result, texts, found, why)


def same(lines: list[str], baseline: list[str] | None = None) -> list[StoredTexts]:
    """A test set whose texts are all the same."""
    return [StoredTexts("t<e>st", lines, [lines], lines, baseline)]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return tiny_config(tmp_path)


@pytest.fixture
def invented(config: Config) -> Run:
    return add_run(config, "a<b")


def test_any_text_is_shown_safely(config: Config, invented: Run) -> None:
    for baseline in (None, add_run(config, "<base>")):
        hostile = same(HOSTILE, HOSTILE[::-1] if baseline else None)
        page = page_of(invented, hostile, baseline, test_sets={"t<e>st": table()})
        text = check_page(page)
        assert "<script" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "שלום" in text
        assert "[4,400 more characters]" in text
        assert "\x00" not in page
        assert '<dd dir="auto">' in page
        page.encode()


def test_scores_with_intervals_and_verdict(invented: Run) -> None:
    found = {"baseline": 10.0, "difference": 2.3456, "p_bootstrap": 0.01, "p_randomisation": 0.02}
    terms = {"words": ["a"], "occurrences": 7, "baseline": 25.0, "system": 75.0}
    bleu = {**found, "verdict": "better"}
    comparison = {"system": "old", "why": "by chance", "bleu": bleu, "terms": terms}
    side = {"exact": 1, "near": 2}
    leakage = {"source": side, "target": side}
    identity = {"known_as": "", "warnings": ["looks odd"]}
    scores = table(baseline=comparison, test_set=identity, leakage=leakage)
    text = check_page(page_of(invented, same(made_up_sentences(8)), test_sets={"t<e>st": scores}))
    assert "t<e>st BLEU 12.35 ± 1.50 nrefs:1|tok:13a" in text
    assert "BLEU12.35± 1.5010.00+2.350.020better" in text
    assert "TER ↓12.35± 1.50–––" in text
    assert "Warning: looks odd." in text
    assert "The training text contains 1 of the source sentences (2 including near" in text
    assert "The baseline is old: by chance. p is the larger" in text
    assert "Terms: 1, with 7 occurrences in the references; recall 75.0 %, baseline 25.0 %" in text
    assert "The 8 worst by chrF" in text
    assert "largest change" not in text


def test_the_confidence_of_a_model(invented: Run) -> None:
    found = {
        "test_set": "test",
        "calibration_error": 0.0123,
        "rank_correlation": 0.5,
        "reliability": [[0.25, 0.3, 1200], [0.95, 0.9, 7]],
    }
    text = check_page(page_of(invented, confidence=found, test_sets={"test": table()}))
    assert "Confidence on test: calibration error 1.2 %, rank correlation 0.50" in text
    assert "probabilityrightwords" in text
    assert "25.0 %30.0 %1,20095.0 %90.0 %7" in "".join(text.split("\n"))


def test_differences_from_the_baseline(config: Config, invented: Run) -> None:
    other = replace(config, optimizer=OptimizerConfig(beta2=0.5))
    other = replace(other, run=replace(other.run, name="elsewhere"))
    text = check_page(page_of(invented, baseline=add_run(other, "old")))
    assert "keythis runold\noptimizer.beta20.980.5" in text
    assert "run.nametiny" in text  # in the table of all keys
    assert "elsewhere" not in text
    assert text.count("No differences.") == 1
    same = check_page(page_of(invented, baseline=add_run(config, "same")))
    assert same.count("No differences.") == 2


def test_sentences_with_the_largest_change(config: Config, invented: Run) -> None:
    lines = made_up_sentences(30)
    before = list(lines)
    before[3], before[4] = "ganz anders", lines[4] + " nu"
    sets = {"t<e>st": table(baseline={"system": "old", "why": ""})}
    page = page_of(invented, same(lines, before), test_sets=sets)
    changed = check_page(page).partition("The 2 with the largest change from old")[2]
    assert "2 sentences are better than those of old, 0 are worse and 28 are equal" in changed
    assert changed.index("line 4,") < changed.index("line 5,")
    assert "<mark>ganz anders</mark>" in page
    assert "<mark>nu</mark>" in page


def test_table_of_lengths_contains_all_sentences(invented: Run) -> None:
    page = page_of(invented, same(made_up_sentences(100)), test_sets={"t<e>st": table()})
    rows = page.partition("BLEU by length of the source")[2].partition("</table>")[0]
    numbers = [row.split('class="number">')[1].split("<")[0] for row in rows.split("<tr>")[2:]]
    assert sum(map(int, numbers)) == 100


def test_curves_have_gaps_where_records_have_no_value(config: Config) -> None:
    records = [
        {"update": 1, "epoch": 0, "train/loss": 5.0, "train/gradient_norm": math.nan},
        {"update": 2, "epoch": 0, "train/loss": None, "train/gradient_norm": 2.0},
        {"update": 2, "valid/loss": 4.0, "valid/bleu": 1.0},
        {"update": 3, "epoch": 0, "train/loss": 3.0, "train/gradient_norm": math.inf},
        {"update": 4, "epoch": 0, "train/loss": 2.0, "train/gradient_norm": "text"},
    ]
    run = add_run(config, "a", *records)
    updates, losses = series(run.metrics, "train/loss")
    assert updates == [1, 2, 3, 4]
    assert [value for value in losses if math.isfinite(value)] == [5, 3, 2]
    assert series(run.metrics, "valid/bleu") == ([2], [1.0])
    page = page_of(run)
    check_page(page)
    charts = [chart.split("<b>")[1].split("</b>")[0] for chart in page.split("<figure")[1:]]
    assert charts == ["Loss", "Validation BLEU", "Gradient norm"]


def test_attention_map_of_a_sentence(invented: Run, trained_model: TrainedModel) -> None:
    pair = tuple(made_up_sentences(2))
    found = sentence_attention(trained_model, *pair)
    assert found.source[-1] == found.target[-1] == "</s>"
    heads = found.kinds["cross"][-1]
    assert heads.shape == (2, len(found.target), len(found.source))
    torch.testing.assert_close(heads.sum(-1), torch.ones(heads.shape[:2]))
    assert not trained_model.network.training
    page = report_page(invented, RESULT, (), None, "", [(*pair, found)])
    check_page(page, num_scripts=2)
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    [shown] = json.loads(data)
    assert (shown["source"], shown["translation"]) == pair
    cross = shown["kinds"]["cross"]
    assert (cross["columns"], cross["rows"]) == (found.source, found.target)
    weights = torch.tensor([head["weights"] for head in cross["layers"][-1]])
    torch.testing.assert_close(weights, heads, atol=1e-3, rtol=0)


def test_only_short_sentences_have_attention_maps(trained_model: TrainedModel) -> None:
    short = [" ".join(line.split()[:3]) for line in made_up_sentences(20)]
    long = [" ".join(made_up_sentences(8))] * 20
    lines = [line for pair in zip(short, long, strict=True) for line in pair]
    indices = short_sentences(trained_model, lines, lines, 3)
    assert len(indices) == 3
    assert all(index % 2 == 0 for index in indices)
    assert short_sentences(trained_model, long, long, 3) == []
    assert short_sentences(trained_model, short[:1], short[:1], 3) == [0]
    assert short_sentences(trained_model, short, [""] * 20, 3) == []


@pytest.fixture
def run(tmp_path: Path, trained_model: TrainedModel, tokenizer_path: Path) -> Path:
    """Write a run folder without records."""
    pairs = [(line, line) for line in made_up_sentences(6)]
    splits = {"train": pairs, "valid": pairs[:2], "test": pairs}
    write_corpus(tmp_path / "corpora" / "toy-1", tokenizer_path, splits)
    config = replace(tiny_config(tmp_path), corpus=CorpusConfig(name="toy"))
    folder = config.run_folder
    save_config(config, folder / "config.yaml")
    write_environment(folder)
    write_lines(folder / "metrics.jsonl", [])
    for name in ("source", "reference", "reference.1", "hypotheses"):
        write_lines(folder / "evaluation" / "test" / f"{name}.txt", made_up_sentences(6))
    save_trained_model(trained_model, folder / "model", {})
    return folder


@pytest.fixture
def write(run: Path, trained_model: TrainedModel) -> Callable[..., str]:
    """Write the report of `run`; returns its text."""

    def write(has_corpus: bool = True) -> str:
        corpus = PreparedCorpus(run.parents[1] / "corpora" / "toy-1") if has_corpus else None
        path = write_report(Run(run), RESULT, trained_model, corpus)
        assert path == run / "report.html"
        return check_page(path.read_text(encoding="utf-8"), num_scripts=2)

    return write


def test_run_without_records_baseline_or_corpus(write: Callable[..., str]) -> None:
    text = write()
    for part in ("there is no earlier run to compare with", "There are no records.", "reference 2"):
        assert part in text
    [data] = [line for line in text.splitlines() if line.startswith('[{"source": ')]
    assert [len(one["kinds"]["cross"]["layers"][-1]) for one in json.loads(data)] == [2] * 3
    assert "the corpus of the run no longer exists" in write(has_corpus=False)


def test_pages_link_to_each_other_by_relative_addresses(
    run: Path, write: Callable[..., str]
) -> None:
    other = shutil.copytree(run, run.with_name("a b"))
    write_result(other, 1.0)
    (run.parents[1] / "corpora" / "toy-1" / "report.html").touch()
    write()
    page = (run / "report.html").read_text(encoding="utf-8")
    assert '<a href="../../corpora/toy-1/report.html">toy</a>' in page
    assert '">a b</a>' not in page  # it has no page
    (other / "report.html").touch()
    write()
    assert '<a href="../a%20b/report.html">a b</a>' in (run / "report.html").read_text()


def test_damaged_baseline_is_reported(run: Path, write: Callable[..., str]) -> None:
    other = run.with_name("damaged")
    shutil.copytree(run, other)
    write_result(other, 1.0)
    assert "Compared with damaged: the only comparable run on toy en-de." in write()
    (other / "metrics.jsonl").write_text("[]\n", encoding="utf-8")
    text = write()
    assert "damaged cannot be read:" in text
    assert "line 1 is not a JSON object" in text


def test_files_of_different_lengths_are_rejected(run: Path, write: Callable[..., str]) -> None:
    write_lines(run / "evaluation" / "test" / "hypotheses.txt", ["one"])
    with pytest.raises(UserError, match=r"source.txt has 6 lines and .*hypotheses.txt has 1"):
        write()
    assert not (run / "report.html").exists()


def test_texts_outside_of_a_run_are_not_read(run: Path, trained_model: TrainedModel) -> None:
    (run / "evaluation").rename(run.parent / "private")
    for name, message in (
        ("../../private/test", "is not a plain file name"),
        (str(run.parent / "private/test"), "is not a plain file name"),
        ("test", "leads out of its folder"),
    ):
        if name == "test":
            (run / "evaluation").symlink_to(run.parent / "private")
        with pytest.raises(UserError, match=message):
            write_report(Run(run), {**RESULT, "test_sets": {name: table()}}, trained_model, None)
    assert not (run / "report.html").exists()


def test_run_without_test_sets(invented: Run) -> None:
    text = check_page(page_of(invented))
    assert "The corpus has no test set." in text
    assert "The model has no attention, or no translation is short enough to show." in text
