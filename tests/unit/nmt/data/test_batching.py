from dataclasses import replace

import numpy as np
import pytest

from nmt.config import BatchingConfig
from nmt.data.batching import EpochPlan, eligible_pairs, plan_epoch


def plan(count: int = 4000, seed: int = 1, epoch: int = 0, **changes: int) -> EpochPlan:
    random = np.random.default_rng(0)
    source = random.integers(2, 60, count)
    target = np.clip(source + random.integers(-5, 6, count), 2, 60)
    values = {"target_tokens_per_update": 2000, "max_source_length": 64, "max_target_length": 64}
    return plan_epoch(source, target, BatchingConfig(**{**values, **changes}), seed, epoch)


def test_epochs_and_seeds_differ() -> None:
    orders = [plan(epoch=0).order, plan(epoch=1).order, plan(seed=2).order]
    assert not np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])


@pytest.mark.parametrize(("count", "padding"), [(4_000, 0.1), (60_000, 0.01)])
def test_pairs_of_an_update_are_of_like_length(count: int, padding: float) -> None:
    made = plan(count)
    computed = real = 0
    for update in range(made.num_updates):
        for part in made.micro_batches(update):
            for lengths in (made.source_lengths[part], made.target_lengths[part]):
                computed += len(part) * lengths.max()
                real += lengths.sum()
    assert real / computed > 1 - padding


def test_a_large_update_mixes_lengths() -> None:
    made = plan(count=20_000, target_tokens_per_update=25_000)
    spreads = [np.ptp(made.target_lengths[made.update(u)]) for u in range(made.num_updates - 1)]
    assert np.median(spreads) > 30


def test_length_does_not_go_with_time() -> None:
    made = plan()
    means = [made.target_lengths[made.update(u)].mean() for u in range(made.num_updates)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.5


def test_nothing_eligible_makes_no_update() -> None:
    made = plan(max_source_length=1, max_target_length=1)
    assert made.num_updates == 0
    assert len(made.order) == 0


def test_many_micro_batches_are_shared_evenly_and_few_are_not() -> None:
    few = plan(tokens_per_micro_batch=8192)  # four an update
    assert few.evenness(1) == 1.0
    assert few.evenness(8) <= 0.5
    many = replace(few, max_micro_batch_tokens=150)
    assert 0.85 < many.evenness(8) <= 1.0


@pytest.mark.parametrize("lengths", [(8, 7), (7, 8), (8, 8)])
def test_a_pair_is_left_out_when_either_side_is_over_long(lengths: tuple[int, int]) -> None:
    config = BatchingConfig(max_source_length=7, max_target_length=7)
    source, target = np.array([lengths[0], 7]), np.array([lengths[1], 7])
    assert eligible_pairs(source, target, config).tolist() == [1]
