from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data_prep.clean_shard import CleanShard, ShardJob, clean_shard, key_of, shard_file
from data_prep.ledger import Amount, Taken
from data_prep.merge_shards import SeenKeys, ShardMerger
from nmt.config import CleaningConfig


@given(st.lists(st.lists(st.integers(0, 30), max_size=9), max_size=12))
def test_seen_keys_equal_a_set(shards: list[list[int]]) -> None:
    seen, known = SeenKeys(), set()
    for shard in shards:
        expected = []
        for key in shard:
            expected.append(key not in known)
            known.add(key)
        assert seen.first_seen(np.array(shard, dtype=np.uint64)).tolist() == expected


def shard(folder: Path, pairs: list[tuple[str, str]], **config: object) -> CleanShard:
    values = CleaningConfig(**config)
    path = folder / shard_file(0, sum(1 for _ in folder.iterdir()))
    sources, targets = map(list, zip(*pairs, strict=True))
    return CleanShard(clean_shard(ShardJob(sources, targets, values, ("en", "de"), path)))


def test_keys_differ_for_pairs_that_are_equal_if_joined(tmp_path: Path) -> None:
    pairs = [("a b", "c"), ("a", "b c"), ("a b", "c")]
    assert shard(tmp_path, pairs).table["key"].to_pylist() == [key_of(*pair) for pair in pairs]
    assert len({key_of(*pair) for pair in pairs}) == 2


def test_a_shard_without_a_clean_pair(tmp_path: Path) -> None:
    found = shard(tmp_path, [("", "a"), ("", "b")])
    assert len(found.table) == 0
    assert found.statistics.dropped == {"empty": Amount(2, 0)}


NEAR = {"drop_near_duplicates": True, "drop_test_sentences": True}
TESTS = (["a sentence of a test set", "Yes."], ["ein Satz aus der Testmenge", "Ja."])


def test_filters_of_the_whole_corpus(tmp_path: Path) -> None:
    merger = ShardMerger(CleaningConfig(**NEAR), ("en", "de"), TESTS)
    kept = merger.add(
        shard(
            tmp_path,
            [
                ("A dog.", "Ein Hund."),
                ("a sentence of a test set", "anders"),
                ("Yes.", "Ja."),
                ("12", "12"),
                ("another text here", "ein Satz aus der Testmenge"),
                ("A dog.", "Ein Hund."),
                ("13", "13"),
            ],
            **NEAR,
        ),
        "first",
    )
    assert kept["source"].to_pylist() == ["A dog.", "Yes.", "12", "13"]
    kept = merger.add(
        shard(tmp_path, [("A Dog!", "ein Hund"), ("A dog.", "Der Hund."), ("", "x")], **NEAR),
        "second",
    )
    assert kept.to_pydict()["target"] == ["Der Hund."]
    summary = merger.summary()
    first, second = summary.ledger["first"], summary.ledger["second"]
    assert (first.read, first.kept) == (Amount(7, 16), Amount(4, 5))
    assert first.filters["test_sentence"] == Taken(2, 9, 2)
    assert first.filters["duplicate"] == Taken(1, 2, 1)
    assert second.filters["near_duplicate"] == Taken(1, 2, 1)
    assert second.filters["empty"] == Taken(1, 0, 1)
    assert (summary.num_read, summary.num_kept) == (10, 5)
    assert [one.source for one in second.examples["near_duplicate"]] == ["A Dog!"]
    assert summary.words["en"] == {1: 3, 2: 2}
    assert summary.characters["en"] == sum(map(len, ["A dog.", "Yes.", "12", "13", "A dog."]))


def test_duplicates_of_one_side(tmp_path: Path) -> None:
    sides = {"drop_duplicate_sides": True}
    merger = ShardMerger(CleaningConfig(**sides), ("en", "de"), ([], []))
    pairs = [("Yes.", "Ja."), ("Yes.", "Doch."), ("Yeah.", "Ja."), ("No.", "Nein.")]
    assert merger.add(shard(tmp_path, pairs, **sides), "all")["target"].to_pylist() == [
        "Ja.",
        "Nein.",
    ]
    filters = merger.summary().ledger["all"].filters
    assert filters["duplicate_source"] == filters["duplicate_target"] == Taken(1, 1, 1)


def test_sides_that_are_nearly_equal(tmp_path: Path) -> None:
    near = {"drop_duplicate_sides": True, "drop_near_duplicates": True}
    merger = ShardMerger(CleaningConfig(**near), ("en", "de"), TESTS)
    pairs = [("Yes.", "Ja."), ("yes!", "Doch."), ("A Sentence of a test set.", "x"), ("1", "2")]
    kept = merger.add(shard(tmp_path, [*pairs, ("3", "4")], **near), "all")
    assert kept["source"].to_pylist() == ["Yes.", "1", "3"]


def test_vowel_signs_distinguish_near_duplicates(tmp_path: Path) -> None:
    merger = ShardMerger(CleaningConfig(**NEAR), ("hi", "tr"), ([], []))
    pairs = [("पढ़ता", "İyi"), ("पढ़ती", "iyi"), ("पढ़ता ❤️!", "iyi 1️⃣")]
    assert merger.add(shard(tmp_path, pairs, **NEAR), "all")["target"].to_pylist() == ["İyi", "iyi"]


def test_ratios_of_lengths(tmp_path: Path) -> None:
    merger = ShardMerger(CleaningConfig(), ("en", "de"), ([], []))
    pairs = [("x" * 8, "y" * 8), ("x" * 8, "y" * 16), ("x" * 9, "y" * 18), ("x" * 8, "y" * 4)]
    merger.add(shard(tmp_path, pairs), "all")
    assert merger.summary().ratios == {-8: 1, 0: 1, 8: 2}


def test_overlaps_and_the_oddest_pairs(tmp_path: Path) -> None:
    limits = {"max_words": 5, "max_length_ratio": 2.0}
    pairs = [("a b c d e f", "a" * 40), ("x" * 30, "y" * 10), ("a b c d e f", "a b c d e f g")]
    merger = ShardMerger(CleaningConfig(**limits), ("en", "de"), ([], []))
    merger.add(shard(tmp_path, [*pairs, ("x" * 30, "y" * 16), ("z" * 9, "z" * 9)], **limits), "all")
    summary = merger.summary()
    assert summary.ledger["all"].overlaps == {"length+ratio": 1}
    assert summary.ledger["all"].filters["length"] == Taken(2, 12, 1)
    assert summary.ledger["all"].filters["ratio"] == Taken(2, 7, 1)
    assert summary.oddest[0].source == "x" * 30
    assert summary.oddest[0].detail == "30 against 16 characters"
