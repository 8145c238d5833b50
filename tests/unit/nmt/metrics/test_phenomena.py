import json
from pathlib import Path
from typing import Any

import pytest

from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.metrics.phenomena import Annotation, read_annotations, score_phenomena


def annotate(
    *phenomena: str, has: tuple[str, ...] = (), lacks: tuple[str, ...] = (), group: str = ""
) -> Annotation:
    return Annotation(phenomena, has, lacks, group)


@pytest.mark.parametrize(
    ("has", "lacks", "translation", "is_correct"),
    [
        # Phrases match at word boundaries.
        (("er",), ("sie",), "Dann ging er.", True),
        (("er",), ("sie",), "Dann kam der.", False),
        (("er",), ("sie",), "Ob er oder sie?", False),
        (("er",), ("sie",), "Da hat er gesiegt.", True),
        # A phrase is not a pattern.
        (("a.c",), (), "x a.c y", True),
        (("a.c",), (), "x abc y", False),
        (("(so)",), (), "x (so) y", True),
        # All phrases are required.
        (("rote", "Katze"), (), "die rote Katze", True),
        (("rote", "Katze"), (), "die rote Maus", False),
        # Scripts without blanks have no word boundaries.
        (("自行车",), ("雨伞",), "我买了自行车。", True),
        (("IBM",), (), "我在IBM工作", True),
        (("IBM",), (), "我在IBMS工作", False),
    ],
)
def test_phrases_decide_if_a_translation_is_correct(
    has: tuple[str, ...], lacks: tuple[str, ...], translation: str, is_correct: bool
) -> None:
    annotation = annotate(has=has, lacks=lacks)
    assert annotation.is_checked
    assert annotation.is_correct(translation) is is_correct


def test_accuracy_and_bleu_by_phenomenon() -> None:
    annotations = [
        annotate("gender", has=("sie",)),
        annotate("gender", "order", has=("er",)),
        annotate("gender"),
        annotate("order"),
    ]
    hypotheses = ["sie kommt heute noch", "sie kommt heute noch", "a b c d", "e f g h"]
    references = ["sie kommt heute noch", "er kommt heute noch", "a b c d", "x y z w"]
    report = score_phenomena(annotations, hypotheses, references)
    assert list(report.phenomena) == ["gender", "order"]  # most frequent first
    gender, order = report.phenomena["gender"], report.phenomena["order"]
    assert (gender.sentences, gender.checked, gender.accuracy) == (3, 2, 50)
    assert (order.sentences, order.checked, order.accuracy) == (2, 1, 0)
    assert gender.bleu > order.bleu
    assert report.groups is None
    report = score_phenomena([annotate("order")], ["a b c d"], ["a b c d"])
    assert report.phenomena["order"].accuracy is None


def test_bleu_of_a_phenomenon_has_the_tokens_of_the_language() -> None:
    report = score_phenomena([annotate("x")], ["我买了书。"], ["我买了书。"], tokenizer="zh")
    assert report.phenomena["x"].bleu == pytest.approx(100)


def test_group_is_correct_if_all_sentences_are() -> None:
    annotations = [
        annotate(has=("es",), lacks=("sie",), group="1"),
        annotate(has=("sie",), lacks=("es",), group="1"),
        annotate(has=("es",), lacks=("sie",), group="2"),
        annotate(has=("es",), lacks=("sie",), group="2"),
    ]
    report = score_phenomena(annotations, ["es", "sie", "es", "sie"], ["es", "sie", "es", "es"])
    groups = report.groups
    assert groups is not None
    assert (groups.groups, groups.accuracy, groups.sentence_accuracy) == (2, 50, 75)
    # The answer "es" is correct in three of four sentences and in one whole group.
    assert groups.majority_sentence_accuracy == 75
    assert groups.majority_accuracy == 50


def test_read_annotations(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {
            "phenomena": ["gender"],
            "must_contain": ["er"],
            "must_not_contain": ["sie"],
            "group": "7",
        },
        {},
    ]
    write_lines(tmp_path / "a.jsonl", [json.dumps(record) for record in records])
    assert read_annotations(tmp_path / "a.jsonl", 2) == [
        annotate("gender", has=("er",), lacks=("sie",), group="7"),
        annotate(),
    ]
    with pytest.raises(UserError, match=f"{tmp_path / 'a.jsonl'}: 2 lines for 3 sentences"):
        read_annotations(tmp_path / "a.jsonl", 3)


@pytest.mark.parametrize("line", ["{", "[]", "3", "", '{"phenomena": 3}'])
def test_malformed_line_is_rejected(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    write_lines(path, ["{}", line])
    with pytest.raises(UserError, match=f"{path}: line 2 is not an annotation"):
        read_annotations(path, 2)
