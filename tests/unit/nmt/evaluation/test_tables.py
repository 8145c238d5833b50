from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from nmt.config import DecodingConfig, DecodingPrecision, LengthPenalty
from nmt.evaluation.comparison import Changed, Comparison
from nmt.evaluation.evaluate import Evaluation, TestSet
from nmt.evaluation.tables import bleu_line, describe_search, note_lines, print_scores, sample_table
from nmt.metrics.comet import NOT_INSTALLED
from nmt.metrics.known_test_sets import Identity
from nmt.metrics.phenomena import GroupScore, PhenomenaReport, PhenomenonScore
from nmt.metrics.scores import Score, Scores
from nmt.metrics.significance import NO_DIFFERENCE, Difference
from nmt.metrics.terms import TermRecall

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def evaluation(system: str = "wmt14_en_de_base", name: str = "newstest2014") -> Evaluation:
    score = Score(27.34, SIGNATURE, 1.25)
    scores = Scores(score, score, score, score, score, 0.987, 0.988, 3003, 1)
    better = Difference(26.5, -0.84, 0.002, 0.003, "better", [])
    none = Difference(60.0, 0.1, 0.4, 0.5, NO_DIFFERENCE, [])
    differences = {"bleu": better, "chrf": better, "ter": none}
    leakage = {"source": {"exact": 1, "near": 1234}, "target": {"exact": 0, "near": 2}}
    return Evaluation(
        TestSet(name, ("en", "de"), ["s"], [["r"]], leakage=leakage),
        system,
        ["h"],
        DecodingConfig(),
        Identity("newstest2014 full (en-de)", ["00"], ["it is odd"]),
        scores,
        NOT_INSTALLED,
        None,
        Comparison(
            "old",
            "the only comparable run on wmt14 en-de",
            differences,
            ["x"],
            [Changed(1, "s", "r", "x", "h", 20.0, 31.5)],
            [],
            TermRecall(["word"], 8, 25.0, 75.0),
        ),
    )


def shown(evaluations: list[Evaluation]) -> str:
    """Print as to a log file, which has 80 columns."""
    out = StringIO()
    print_scores(Console(file=out), evaluations)
    return out.getvalue()


def test_one_system_has_a_row_for_each_test_set() -> None:
    text = shown([evaluation(), evaluation(name="newstest2015")])
    assert "Scores of wmt14_en_de_base" in text
    assert [line.split()[0] for line in text.splitlines() if "27.34" in line] == [
        "newstest2014",
        "newstest2015",
    ]
    row = next(line.split() for line in text.splitlines() if "2015  BLEU" in line)
    assert row == ["newstest2015", "BLEU", "26.50", "−0.84", "0.003", "better"]
    assert "3,003 sentences" in text
    words = "newstest2014: words that the baseline missed on valid: 1, with 8 occurrences"
    assert f"{words} in the references; recall 75.0 %, baseline" in " ".join(text.split())
    assert text.count("→ 31.5") == 1


def test_several_systems_have_a_row_each() -> None:
    baseline = replace(evaluation("old"), comparison=None)
    text = shown([baseline, evaluation("new")])
    assert "newstest2014, 3,003 sentences" in text
    assert [line.split()[0] for line in text.splitlines() if "27.34" in line] == ["old", "new"]
    assert text.count("better") == 2
    assert "Compared with old" in text


@pytest.mark.parametrize(
    "system", ["a", "peak_lr_multi30k_en_de/schedule.peak_learning_rate=0.004"]
)
def test_tables_are_complete_at_80_columns(system: str) -> None:
    full = evaluation(system)
    full = replace(full, scores=replace(full.scores, comet=Score(0.8512, "model")))
    for evaluations in ([full], [full, replace(full, system="b")]):
        text = shown(evaluations)
        tables = text.partition("baseline: old")[0]
        assert max(map(len, tables.splitlines())) <= 80
        assert "…" not in text
        assert text.count("27.34") == 5 * len(evaluations)
        assert text.count("0.8512") == len(evaluations)
        assert text.count("± 1.25") == 5 * len(evaluations)
        assert text.count("no difference can") == len(evaluations)


def test_control_characters_are_escaped() -> None:
    hostile = replace(
        evaluation("a\x1b[31m", "t\x1b]0;title\x07"),
        comet_note="\x1b[2J",
        phenomena=PhenomenaReport({"p\x1b[1m": PhenomenonScore(1, 1.0, 0, None)}, None),
        hypotheses=["\x1b[31mrot"],
    )
    out = StringIO()
    Console(file=out).print(sample_table(hostile, 1))
    text = out.getvalue() + shown([hostile, replace(hostile, system="[bold]b")])
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]b" in text
    assert "\x1b" not in bleu_line("t\x1b[31m", 1.0, SIGNATURE)


def test_each_note_is_listed_once() -> None:
    groups = GroupScore(9, 88.5, 90.0, 50.0, 75.0)
    full = replace(evaluation(), phenomena=PhenomenaReport({}, groups))
    lines = note_lines([full, full])
    assert len(lines) == len(set(lines))
    for line in (
        "baseline: old, the only comparable run on wmt14 en-de",
        "warning: newstest2014: it is odd",
        "newstest2014 is newstest2014 full (en-de), by the checksum of its references",
        "newstest2014: the training text contains 1 of the source sentences (1,234 including near"
        " duplicates) and 0 of the target sentences (2 including near duplicates)",
        f"BLEU {SIGNATURE}",
        NOT_INSTALLED,
    ):
        assert line in lines
    assert any("both sentences are correct in 88.5 % of 9 minimal pairs" in line for line in lines)


def test_search_is_described_once_or_for_each_system() -> None:
    first, second = evaluation("one"), evaluation("two")
    search = "beam 4, length penalty 0.6, at most 2 × the source + 10 tokens"
    lines = [line for line in note_lines([first, second]) if line.startswith("search")]
    assert lines == [f"search: {search}"]
    second = replace(second, decoding=DecodingConfig(beam_size=1))
    lines = [line for line in note_lines([first, second]) if line.startswith("search")]
    assert lines == [f"search of one: {search}", f"search of two: {search.replace('4', '1', 1)}"]


def test_unusual_keys_of_the_search_are_described() -> None:
    decoding = DecodingConfig(max_length=5, length_penalty_kind=LengthPenalty.none)
    assert describe_search(decoding) == (
        "beam 4, length penalty 0.6, at most 2 × the source + 10 tokens,"
        " decoding.length_penalty_kind=none, decoding.max_length=5"
    )
    # The batch size changes no translation, except in low precision.
    assert "batch_size" not in describe_search(DecodingConfig(batch_size=7))
    low = DecodingConfig(precision=DecodingPrecision.float16)
    assert "decoding.precision=float16" in describe_search(low)


def test_missing_baseline_is_reported_without_a_table() -> None:
    alone = replace(evaluation(), comparison=None, not_compared="there is no earlier run")
    assert "Compared with" not in shown([alone])
    assert "not compared: there is no earlier run" in note_lines([alone])
