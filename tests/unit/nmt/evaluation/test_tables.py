from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from nmt.config import DecodingConfig, DecodingPrecision, LengthPenalty
from nmt.evaluation.comet import HOW_TO_GET_IT, Comet
from nmt.evaluation.evaluate import Evaluation, TestSet
from nmt.evaluation.known_test_sets import Identity
from nmt.evaluation.scores import Score, Scores
from nmt.evaluation.significance import Comparison, Difference
from nmt.evaluation.tables import note_lines, scores_table, search_in_words

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def evaluation(system: str = "wmt14_en_de_base", name: str = "newstest2014") -> Evaluation:
    score = Score(27.34, SIGNATURE, 1.25)
    scores = Scores(score, score, score, score, score, 0.987, 0.988, 3003, 1)
    better = Difference(26.5, 0.84, 0.002, 0.003, "better")
    none = Difference(60.0, 0.1, 0.4, 0.5, "no difference can be shown")
    differences = {"bleu": better, "chrf": better, "ter": none}
    leakage = {"source": {"exact": 1, "near": 1234}, "target": {"exact": 0, "near": 2}}
    return Evaluation(
        TestSet(name, ("en", "de"), ["s"], ["r"], leakage=leakage),
        system,
        ["h"],
        DecodingConfig(),
        Identity("newstest2014 full (en-de)", ("00",), ("it is odd",)),
        scores,
        Comet(None, HOW_TO_GET_IT),
        None,
        Comparison("old", "the one earlier run on wmt14 en-de", differences, {}),
    )


def shown(evaluations: list[Evaluation], width: int = 100) -> str:
    out = StringIO()
    Console(file=out, width=width).print(scores_table(evaluations))
    return out.getvalue()


def test_one_system_has_a_row_a_test_set() -> None:
    text = shown([evaluation(), evaluation(name="newstest2015")])
    assert "Scores of wmt14_en_de_base" in text
    assert [line.split()[0] for line in text.splitlines() if "27.34" in line] == [
        "newstest2014",
        "newstest2015",
    ]
    assert "better, p = 0.003" in text
    assert "+0.84 on 26.50" in text
    assert "3,003 sentences" in text


def test_several_systems_have_a_row_each_and_the_baseline_is_marked() -> None:
    baseline = replace(evaluation("old"), comparison=None)
    text = shown([baseline, evaluation("new")])
    assert "newstest2014, 3,003 sentences" in text
    rows = [line for line in text.splitlines() if "27.34" in line]
    assert rows[0].split()[0] == "old"
    assert rows[0].rstrip().endswith("the baseline")
    assert "better, p = 0.003" in rows[1]


@pytest.mark.parametrize(
    "system", ["a", "peak_lr_multi30k_en_de/schedule.peak_learning_rate=0.004"]
)
def test_the_table_fits_into_a_hundred_columns_with_every_score(system: str) -> None:
    full = replace(evaluation(system), comet=Comet(Score(0.8512, "model"), ""))
    for evaluations in ([full], [full, replace(full, system="b")]):
        text = shown(evaluations)
        assert "0.8512" in text
        assert "…" not in text
        # rich cuts what does not fit: no number may be among it.
        assert text.count("27.34") == 5 * len(evaluations)
        assert "better, p = 0.003" in text


def test_notes_tell_each_thing_once() -> None:
    lines = note_lines([evaluation(), evaluation()])
    assert len(lines) == len(set(lines))
    assert "baseline: old, the one earlier run on wmt14 en-de" in lines
    assert "newstest2014: BLEU better, p = 0.003, +0.84 on 26.50" in lines
    assert "newstest2014: chrF2++ better, p = 0.003; TER no difference can be shown" in lines
    assert "warning: newstest2014: it is odd" in lines
    assert any("is newstest2014 full (en-de), by the checksum" in line for line in lines)
    assert any(
        "in the training text 1 of its sources, 1,234 nearly; 0 of" in line for line in lines
    )
    assert f"BLEU {SIGNATURE}" in lines
    assert lines.count(HOW_TO_GET_IT) == 1


def test_the_search_is_told_once_or_of_each_system() -> None:
    first, second = evaluation("one"), evaluation("two")
    told = "beam 4, length penalty 0.6, at most 2 × the source + 10 tokens"
    searches = [line for line in note_lines([first, second]) if line.startswith("search")]
    assert searches == [f"search: {told}"]
    second = replace(second, decoding=DecodingConfig(beam_size=1))
    searches = [line for line in note_lines([first, second]) if line.startswith("search")]
    assert searches == [f"search of one: {told}", f"search of two: {told.replace('4', '1', 1)}"]


def test_what_is_not_usual_of_a_search_is_told() -> None:
    decoding = DecodingConfig(max_length=5, length_penalty_kind=LengthPenalty.none)
    assert search_in_words(decoding) == (
        "beam 4, length penalty 0.6, at most 2 × the source + 10 tokens,"
        " decoding.length_penalty_kind=none, decoding.max_length=5"
    )
    # How sentences are arranged changes no translation, but where numbers are rounded coarsely.
    assert "batch_size" not in search_in_words(DecodingConfig(batch_size=7))
    coarse = DecodingConfig(precision=DecodingPrecision.int8)
    assert "decoding.precision=int8" in search_in_words(coarse)


def test_no_baseline_is_told_and_has_no_column() -> None:
    alone = replace(evaluation(), comparison=None, not_compared="there is no earlier run")
    assert "against baseline" not in shown([alone])
    assert "not compared: there is no earlier run" in note_lines([alone])
