from dataclasses import replace

import numpy as np
import pytest

from nmt.base.errors import UserError
from nmt.config import BatchingConfig, Layout
from nmt.data.batching import plan_epoch, trainable_pairs
from nmt.data.plan import EpochPlan


def make_plan(count: int = 4000, seed: int = 1, epoch: int = 0, **changes: int) -> EpochPlan:
    random = np.random.default_rng(0)
    source = random.integers(2, 60, count)
    target = np.clip(source + random.integers(-5, 6, count), 2, 60)
    values = {"target_tokens_per_update": 2000, "max_source_length": 64, "max_target_length": 64}
    return plan_epoch(source, target, BatchingConfig(**{**values, **changes}), seed, epoch)


def test_epochs_and_seeds_have_different_orders() -> None:
    orders = [make_plan(epoch=0).order, make_plan(epoch=1).order, make_plan(seed=2).order]
    assert not np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])


@pytest.mark.parametrize(("count", "padding"), [(4_000, 0.1), (60_000, 0.01)])
def test_micro_batches_need_little_padding(count: int, padding: float) -> None:
    plan = make_plan(count)
    padded = tokens = 0
    for update in range(plan.num_updates):
        for part in plan.micro_batches(update):
            padded += part.cost
            tokens += plan.source_lengths[part.pairs].sum() + plan.target_lengths[part.pairs].sum()
    assert tokens / padded > 1 - padding


def test_packed_rows_are_nearly_full() -> None:
    """With lengths as in WMT14, whose sources are longer here, and 101 or 102 rows per update."""
    random = np.random.default_rng(1)
    source = np.clip(random.lognormal(3.15, 0.6, 40_000), 1, 255).astype(np.int32)
    target = np.clip(source * random.lognormal(0.0, 0.15, 40_000), 1, 255).astype(np.int32)
    source, target = source + 1, target + 1  # EOS
    config = BatchingConfig(layout=Layout.packed, tokens_per_micro_batch=32_768)
    plan = plan_epoch(source, target, config, seed=1, epoch=0)
    parts = [part for index in range(plan.num_updates) for part in plan.micro_batches(index)]
    assert len(parts) == plan.num_updates
    positions = sum(part.padded_tokens for part in parts)
    assert source.sum() / positions > 0.96
    assert target.sum() / positions > 0.95


def test_the_only_update_of_an_epoch_fits_into_one_micro_batch() -> None:
    random = np.random.default_rng(1)
    config = BatchingConfig(
        layout=Layout.packed, target_tokens_per_update=2_000, tokens_per_micro_batch=4_096
    )
    for seed in range(8):
        lengths = random.integers(2, 40, (2, 100))
        plan = plan_epoch(*lengths, config, seed, epoch=0)
        assert plan.num_updates == 1
        assert len(plan.micro_batches(0)) == 1


def test_a_large_update_mixes_lengths() -> None:
    plan = make_plan(count=20_000, target_tokens_per_update=25_000)
    spreads = [np.ptp(plan.target_lengths[plan.update(u)]) for u in range(plan.num_updates - 1)]
    assert np.median(spreads) > 30


def test_lengths_do_not_change_over_the_epoch() -> None:
    plan = make_plan()
    means = [plan.target_lengths[plan.update(u)].mean() for u in range(plan.num_updates)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.5


def test_pairs_much_longer_than_an_update_get_an_update_each() -> None:
    config = BatchingConfig(
        target_tokens_per_update=1, tokens_per_micro_batch=10_000, max_target_length=10_000
    )
    sources, targets = np.full(3, 5), np.full(3, 5_000)
    plan = plan_epoch(sources, targets, config, seed=1, epoch=0)
    assert [len(plan.update(index)) for index in range(plan.num_updates)] == [1, 1, 1]


def test_a_corpus_without_trainable_pairs_is_rejected() -> None:
    config = BatchingConfig(max_source_length=7, max_target_length=7)
    for lengths in (np.array([8, 9]), np.array([], dtype=np.int32)):
        with pytest.raises(UserError, match=r"none of the \d training pairs fits in"):
            plan_epoch(lengths, lengths, config, seed=1, epoch=0)


def test_evenness() -> None:
    few = make_plan(tokens_per_micro_batch=8192)  # four per update
    assert few.evenness(1) == 1.0
    assert few.evenness(8) <= 0.5
    many = replace(few, max_micro_batch_tokens=150)
    assert 0.85 < many.evenness(8) <= 1.0


@pytest.mark.parametrize("lengths", [(8, 7), (7, 8), (8, 8)])
def test_pairs_with_an_over_long_side_are_excluded(lengths: tuple[int, int]) -> None:
    config = BatchingConfig(max_source_length=7, max_target_length=7)
    source, target = np.array([lengths[0], 7]), np.array([lengths[1], 7])
    assert trainable_pairs(source, target, config).tolist() == [1]
