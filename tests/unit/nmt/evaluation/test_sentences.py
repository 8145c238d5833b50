from itertools import pairwise

import pytest

from nmt.evaluation.sentences import (
    bleu_of,
    has_end,
    is_repetitive,
    length_bins,
    length_unit,
    most_changed,
    oddities,
    sentence_chrf,
    worst_and_best,
)
from tests.support import made_up_sentences


def test_sentence_chrf_uses_the_closest_reference() -> None:
    one, two, same = sentence_chrf(["ein Hund", "x", "ja"], ["eine Katze", "ein Hund", "ja"])
    assert 0 < one < 100
    assert (two, same) == (0, 100)
    assert sentence_chrf(["ein Hund"], ["eine Katze"], ["ein Hund"]) == [100]


def test_worst_and_best_list_each_source_once() -> None:
    sources = ["a", "b", "a", "bb", "c", "ddd"]
    scores = [1.0, 5.0, 1.0, 5.0, 9.0, 5.0]
    worst, best = worst_and_best(scores, sources, 3)
    assert worst == [0, 5, 3]
    assert best == [4, 5, 3]
    assert worst_and_best([], [], 3) == ([], [])


def test_most_changed_sentences_are_first() -> None:
    before, after = [10.0, 20.0, 30.0, 40.0], [10.0, 25.0, 0.0, 41.0]
    assert most_changed(before, after, 20) == [2, 1, 3]
    assert most_changed(before, after, 1) == [2]


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("ja ja ja", True),
        ("er sagt ja ja ja .", True),
        ("ja ja nein ja", False),
        ("ja ja", False),
        ("a b a b a b", True),
        ("a b a b a", False),
        ("x a b c d a b c d a b c d y", True),
        ("a b c d e a b c d e a b c d e", False),
        ("", False),
    ],
)
def test_repeated_words(translation: str, expected: bool) -> None:
    assert is_repetitive(translation) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ende.", True),
        ("„Ende?“ ", True),
        ("(Ende!)", True),
        ("終わり。", True),
        ("Ende,", False),
        ("Ende", False),
        ("", False),
        ("“", False),
    ],
)
def test_sentence_final_marks(text: str, expected: bool) -> None:
    assert has_end(text) is expected


def test_oddities_are_counted_in_translations_and_references() -> None:
    sources = ["One.", "Two.", "Paris", "Four.", "Five.", "", "Bonn.", " Rom . ", "Six"]
    references = ["Eins.", "Zwei.", "Paris", "Vier.", "nein nein nein.", "A.", "x", "y", "B"]
    translations = ["One.", " ", "Paris", "vier vier vier", "Fünf!", "", "bonn.", "Rom .", "Sechs"]
    found = {one.name: one for one in oddities(sources, references, translations)}
    assert {name: one.indices for name, one in found.items()} == {
        "copied": [0, 2, 7],
        "empty": [1, 5],
        "repeated": [3],
        "truncated": [3],
    }
    # "nein." is a different word because of its full stop.
    assert {name: one.in_references for name, one in found.items()} == {
        "copied": 1,
        "empty": 0,
        "repeated": 0,
        "truncated": 0,
    }


@pytest.mark.parametrize("number", [1, 2, 7, 100])
def test_each_sentence_is_in_one_bin(number: int) -> None:
    sources = made_up_sentences(number)
    bins = length_bins(sources)
    assert sorted(index for one in bins for index in one.indices) == list(range(number))
    assert len(bins) <= 6
    of_bins = [sorted({len(sources[index].split()) for index in one.indices}) for one in bins]
    assert all(one[-1] < other[0] for one, other in pairwise(of_bins))
    labels = [f"{one[0]}–{one[-1]}" if len(one) > 1 else f"{one[0]}" for one in of_bins]
    assert [one.label for one in bins] == labels


def test_bins_have_similar_sizes() -> None:
    bins = length_bins([" ".join("x" * (1 + number % 12)) for number in range(120)], 4)
    assert [one.label for one in bins] == ["1–3", "4–6", "7–9", "10–12"]
    assert [len(one.indices) for one in bins] == [30] * 4
    assert length_bins([]) == []
    assert [one.label for one in length_bins(["a b", "c d"])] == ["2"]


def test_length_unit_without_spaces() -> None:
    assert length_unit(["这是一只狗。", "那只猫在睡觉。"]) == "characters"
    assert [one.label for one in length_bins(["这是一只狗。", "那只猫在睡觉。"], 2)] == ["6", "7"]
    assert length_unit(["a dog", "two dogs", "hm"]) == "words"


def test_bleu_of_some_sentences() -> None:
    translations = ["das ist ein kleiner Hund .", "gar nichts davon stimmt hier"]
    references = ["das ist ein kleiner Hund .", "x y z"]
    assert bleu_of([0], translations, references).score == pytest.approx(100)
    assert bleu_of([0, 1], translations, references).score < 60
    assert bleu_of([0], translations, references).ci95 is not None
