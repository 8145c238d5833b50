from itertools import pairwise

import pytest

from nmt.evaluation.sentences import (
    bleu_of,
    compare_words,
    length_bins,
    length_unit,
    most_changed,
    worst_and_best,
)
from tests.support import made_up_sentences


def test_worst_and_best_list_each_source_once() -> None:
    sources = ["a", "b", "a", "bb", "c", "ddd"]
    scores = [1.0, 5.0, 1.0, 5.0, 9.0, 5.0]
    assert worst_and_best(scores, sources, 3) == ([0, 5, 3], [4, 5, 3])
    assert worst_and_best([], [], 3) == ([], [])


def test_most_changed_sentences_are_first() -> None:
    before, after = [10.0, 20.0, 30.0, 40.0], [10.0, 25.0, 0.0, 41.0]
    assert most_changed(before, after, 20) == [2, 1, 3]
    assert most_changed(before, after, 1) == [2]


@pytest.mark.parametrize("number", [1, 2, 7, 100])
def test_each_sentence_is_in_one_bin(number: int) -> None:
    sources = made_up_sentences(number)
    bins = length_bins(sources)
    assert sorted(index for indices in bins.values() for index in indices) == list(range(number))
    assert len(bins) <= 6
    of_bins = [sorted({len(sources[index].split()) for index in one}) for one in bins.values()]
    assert all(one[-1] < other[0] for one, other in pairwise(of_bins))
    labels = [f"{one[0]}–{one[-1]}" if len(one) > 1 else f"{one[0]}" for one in of_bins]
    assert list(bins) == labels


def test_bins_have_similar_sizes() -> None:
    bins = length_bins([" ".join("x" * (1 + number % 12)) for number in range(120)], 4)
    assert list(bins) == ["1–3", "4–6", "7–9", "10–12"]
    assert [len(indices) for indices in bins.values()] == [30] * 4
    assert list(length_bins(["a b", "c d"])) == ["2"]


def test_length_unit_without_spaces() -> None:
    assert length_unit(["这是一只狗。", "那只猫在睡觉。"]) == "characters"
    assert list(length_bins(["这是一只狗。", "那只猫在睡觉。"], 2)) == ["5", "6"]
    assert length_unit(["a dog", "two dogs", "hm"]) == "words"
    assert length_unit(["ฉันรักหมา", "हाँ मैं हूँ", "แมวก็ด้วย"]) == "characters"


def test_bleu_of_some_sentences() -> None:
    translations = ["das ist ein kleiner Hund .", "gar nichts davon stimmt hier"]
    references = ["das ist ein kleiner Hund .", "x y z"]
    assert bleu_of([0], translations, references).score == pytest.approx(100)
    assert bleu_of([0, 1], translations, references).score < 60
    assert bleu_of([0], translations, references).ci95 is not None


def test_compare_words() -> None:
    assert compare_words("a <b> c", "a c") == [("a", False), ("<b>", True), ("c", False)]
    assert compare_words("a c", "a <b> c") == [("a", False), ("c", False)]
    assert compare_words("", "a") == []
    found = [("我在", False), ("北", True), ("京 ABC", False)]
    assert compare_words("我在北京  ABC", "我在南京 ABC") == found
