from itertools import pairwise

import pytest

from nmt.evaluation.sentences import (
    bleu_of,
    has_end,
    is_copied,
    is_repetitive,
    is_truncated,
    length_bins,
    length_unit,
    most_changed,
    oddities,
    sentence_chrf,
    worst_and_best,
)
from tests.support import made_up_sentences


def test_sentence_chrf_takes_the_nearest_reference() -> None:
    one, two, same = sentence_chrf(["ein Hund", "x", "ja"], ["eine Katze", "ein Hund", "ja"])
    assert 0 < one < 100
    assert (two, same) == (0, 100)
    assert sentence_chrf(["ein Hund"], ["eine Katze"], ["ein Hund"]) == [100]


def test_worst_and_best_give_each_source_once_and_the_longer_first() -> None:
    sources = ["a", "b", "a", "bb", "c", "ddd"]
    scores = [1.0, 5.0, 1.0, 5.0, 9.0, 5.0]
    worst, best = worst_and_best(scores, sources, 3)
    assert worst == [0, 5, 3]
    assert best == [4, 5, 3]
    assert worst_and_best([], [], 3) == ([], [])


def test_what_changed_most_comes_first_and_what_did_not_change_never() -> None:
    before, after = [10.0, 20.0, 30.0, 40.0], [10.0, 25.0, 0.0, 41.0]
    assert most_changed(before, after, 20) == [2, 1, 3]
    assert most_changed(before, after, 1) == [2]


def test_a_copy_is_the_source_itself() -> None:
    assert is_copied("Berlin .", " Berlin . ")
    assert not is_copied("Berlin.", "berlin.")
    assert not is_copied("", "")


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
def test_where_a_sentence_ends(text: str, expected: bool) -> None:
    assert has_end(text) is expected


def test_truncated_is_told_by_the_reference() -> None:
    assert is_truncated("Ein Hund und", "Ein Hund.")
    assert not is_truncated("Ein Hund und", "Ein Hund")
    assert not is_truncated("Ein Hund!", "Ein Hund.")
    assert not is_truncated("", "Ein Hund.")


def test_oddities_are_counted_in_translations_and_references() -> None:
    sources = ["One.", "Two.", "Paris", "Four.", "Five."]
    references = ["Eins.", "Zwei.", "Paris", "Vier.", "nein nein nein."]
    translations = ["One.", " ", "Paris", "vier vier vier", "Fünf."]
    found = {one.name: one for one in oddities(sources, references, translations)}
    assert {name: one.places for name, one in found.items()} == {
        "copied": [0, 2],
        "empty": [1],
        "repeated": [3],
        "truncated": [3],
    }
    # "nein." with its full stop is another word.
    assert {name: one.in_references for name, one in found.items()} == {
        "copied": 1,
        "empty": 0,
        "repeated": 0,
        "truncated": None,
    }


@pytest.mark.parametrize("number", [1, 2, 7, 100])
def test_each_sentence_is_in_one_bin_of_lengths(number: int) -> None:
    sources = made_up_sentences(number)
    bins = length_bins(sources)
    assert sorted(place for one in bins for place in one.places) == list(range(number))
    assert len(bins) <= 6
    for one, other in pairwise(bins):
        assert one.longest < other.shortest
    for one in bins:
        lengths = [len(sources[place].split()) for place in one.places]
        assert (min(lengths), max(lengths)) == (one.shortest, one.longest)


def test_bins_are_about_as_large_as_each_other() -> None:
    bins = length_bins([" ".join("x" * (1 + number % 12)) for number in range(120)], 4)
    assert [one.label for one in bins] == ["1–3", "4–6", "7–9", "10–12"]
    assert [len(one.places) for one in bins] == [30] * 4
    assert length_bins([]) == []
    assert [one.label for one in length_bins(["a b", "c d"])] == ["2"]


def test_a_language_without_spaces_is_counted_in_characters() -> None:
    assert length_unit(["这是一只狗。", "那只猫在睡觉。"]) == "characters"
    assert [one.label for one in length_bins(["这是一只狗。", "那只猫在睡觉。"], 2)] == ["6", "7"]
    assert length_unit(["a dog", "two dogs", "hm"]) == "words"


def test_bleu_over_some_sentences() -> None:
    translations = ["das ist ein kleiner Hund .", "gar nichts davon stimmt hier"]
    references = ["das ist ein kleiner Hund .", "x y z"]
    assert bleu_of([0], translations, references).score == pytest.approx(100)
    assert bleu_of([0, 1], translations, references).score < 60
    assert bleu_of([0], translations, references).ci95 is not None
