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


def test_phrases_match_at_word_boundaries() -> None:
    annotation = annotate(has=("er",), lacks=("sie",))
    assert annotation.is_correct("Dann ging er.")
    assert not annotation.is_correct("Dann kam der.")
    assert not annotation.is_correct("Ob er oder sie?")
    assert annotation.is_correct("Da hat er gesiegt.")


def test_phrase_is_not_a_pattern() -> None:
    assert annotate(has=("a.c",)).is_correct("x a.c y")
    assert not annotate(has=("a.c",)).is_correct("x abc y")
    assert annotate(has=("(so)",)).is_correct("x (so) y")


def test_all_phrases_are_required() -> None:
    annotation = annotate(has=("rote", "Katze"))
    assert annotation.is_correct("die rote Katze")
    assert not annotation.is_correct("die rote Maus")
    assert not annotate().is_checked


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


def test_unchecked_phenomenon_has_no_accuracy() -> None:
    report = score_phenomena([annotate("order")], ["a b c d"], ["a b c d"])
    assert report.phenomena["order"].accuracy is None


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


@pytest.mark.parametrize("line", ["{", "[]", "3", "", '{"phenomena": 3}'])
def test_malformed_line_is_rejected(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    write_lines(path, ["{}", line])
    with pytest.raises(UserError, match=f"{path}: line 2 is not an annotation"):
        read_annotations(path, 2)


def test_missing_line_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_lines(path, ["{}"])
    with pytest.raises(UserError, match=f"{path}: 1 lines for 2 sentences"):
        read_annotations(path, 2)
