import json
from pathlib import Path
from typing import Any

import pytest

from nmt.errors import UserError
from nmt.evaluation.annotations import Annotation, read_annotations, score_phenomena
from nmt.files import write_lines


def note(
    *phenomena: str, has: tuple[str, ...] = (), lacks: tuple[str, ...] = (), group: str = ""
) -> Annotation:
    return Annotation(phenomena, has, lacks, group)


def test_a_phrase_counts_at_word_boundaries_only() -> None:
    annotation = note(has=("er",), lacks=("sie",))
    assert annotation.holds_for("Dann ging er.")
    assert not annotation.holds_for("Dann kam der.")
    assert not annotation.holds_for("Ob er oder sie?")
    assert annotation.holds_for("Da hat er gesiegt.")


def test_a_phrase_is_text_and_no_pattern() -> None:
    assert note(has=("a.c",)).holds_for("x a.c y")
    assert not note(has=("a.c",)).holds_for("x abc y")
    assert note(has=("(so)",)).holds_for("x (so) y")


def test_all_phrases_are_needed() -> None:
    annotation = note(has=("rote", "Katze"))
    assert annotation.holds_for("die rote Katze")
    assert not annotation.holds_for("die rote Maus")
    assert not note().is_checked


def test_accuracy_and_bleu_go_by_phenomenon() -> None:
    annotations = [
        note("gender", has=("sie",)),
        note("gender", "order", has=("er",)),
        note("gender"),
        note("order"),
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


def test_nothing_checked_has_no_accuracy() -> None:
    report = score_phenomena([note("order")], ["a b c d"], ["a b c d"])
    assert report.phenomena["order"].accuracy is None


def test_a_group_is_right_when_all_of_it_is() -> None:
    annotations = [
        note(has=("es",), lacks=("sie",), group="1"),
        note(has=("sie",), lacks=("es",), group="1"),
        note(has=("es",), lacks=("sie",), group="2"),
        note(has=("es",), lacks=("sie",), group="2"),
    ]
    report = score_phenomena(annotations, ["es", "sie", "es", "sie"], ["es", "sie", "es", "es"])
    groups = report.groups
    assert groups is not None
    assert (groups.groups, groups.accuracy, groups.sentence_accuracy) == (2, 50, 75)
    # Always saying "es" is right in three of four sentences, and in the whole of one group.
    assert groups.majority_sentence_accuracy == 75
    assert groups.majority_accuracy == 50


def test_a_file_is_read(tmp_path: Path) -> None:
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
        note("gender", has=("er",), lacks=("sie",), group="7"),
        note(),
    ]


@pytest.mark.parametrize("line", ["{", "[]", "3", "", '{"phenomena": 3}'])
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    write_lines(path, ["{}", line])
    with pytest.raises(UserError, match=f"{path}: line 2 is not an annotation"):
        read_annotations(path, 2)


def test_too_few_lines_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_lines(path, ["{}"])
    with pytest.raises(UserError, match=f"{path}: 1 lines for 2 sentences"):
        read_annotations(path, 2)
