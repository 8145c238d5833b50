from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data_prep.clean import Pair
from data_prep.clean_shard import CleanShard, ShardJob, clean_shard, key_of
from data_prep.merge_shards import SeenKeys
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


def test_keys_differ_for_pairs_that_are_equal_if_joined(tmp_path: Path) -> None:
    pairs = [Pair("a b", "c"), Pair("a", "b c"), Pair("a b", "c")]
    sources, targets = map(list, zip(*pairs, strict=True))
    path = clean_shard(ShardJob(sources, targets, CleaningConfig(), tmp_path / "0-000000.arrow"))
    assert CleanShard(path).keys.tolist() == list(map(key_of, pairs))
    assert len(set(map(key_of, pairs))) == 2


def test_a_shard_without_a_clean_pair(tmp_path: Path) -> None:
    job = ShardJob(["", ""], ["a", "b"], CleaningConfig(), tmp_path / "0-000000.arrow")
    shard = CleanShard(clean_shard(job))
    assert len(shard.table) == len(shard.keys) == 0
    assert shard.statistics.dropped == {"empty": 2}
