from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nmt.config import BatchingConfig, Layout
from nmt.data.batching import BucketedPlan, plan_epoch, trainable_pairs
from nmt.data.plan import EpochPlan, MicroBatch

Lengths = tuple[np.ndarray, np.ndarray]


@st.composite
def lengths(draw: st.DrawFn) -> Lengths:
    """Token lengths of both sides, including EOS; equal in some corpora, different in others."""
    count = draw(st.integers(1, 300))
    longest = draw(st.integers(1, 40))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sides = random.integers(1, longest + 1, size=(2, count), dtype=np.int32)
    return sides[0], sides[1]


@st.composite
def configs(draw: st.DrawFn) -> BatchingConfig:
    longest = draw(st.integers(5, 40)), draw(st.integers(5, 40))
    return BatchingConfig(
        layout=draw(st.sampled_from([Layout.bucketed, Layout.packed])),
        target_tokens_per_update=draw(st.integers(1, 20_000)),
        tokens_per_micro_batch=max(longest) + draw(st.integers(0, 200)),
        max_source_length=longest[0],
        max_target_length=longest[1],
    )


def planned(sides: Lengths, config: BatchingConfig, epoch: int = 0, seed: int = 1) -> EpochPlan:
    limits = config.max_source_length, config.max_target_length
    assume(((sides[0] <= limits[0]) & (sides[1] <= limits[1])).any())
    return plan_epoch(*sides, config, seed, epoch)


@given(lengths(), configs(), st.integers(0, 5))
def test_every_trainable_pair_is_used_exactly_once(
    sides: Lengths, config: BatchingConfig, epoch: int
) -> None:
    plan = planned(sides, config, epoch)
    seen = [int(i) for update in range(plan.num_updates) for i in plan.update(update)]
    fits = (sides[0] <= config.max_source_length) & (sides[1] <= config.max_target_length)
    assert sorted(seen) == np.flatnonzero(fits).tolist()
    assert trainable_pairs(*sides, config).tolist() == np.flatnonzero(fits).tolist()


@given(lengths(), configs())
def test_micro_batches_partition_an_update_within_the_budget(
    sides: Lengths, config: BatchingConfig
) -> None:
    plan = planned(sides, config)
    for update in range(plan.num_updates):
        parts = plan.micro_batches(update)
        together = np.concatenate([part.pairs for part in parts])
        assert sorted(together) == sorted(plan.update(update))
        assert plan.num_target_tokens(update) == sides[1][together].sum() > 0
        for part in parts:
            if config.layout is Layout.bucketed:
                longest = [int(side[part.pairs].max()) for side in sides]
                assert part.shape == (len(part.pairs), *longest)
        padded = [part.padded_tokens for part in parts]
        assert max(padded) <= config.tokens_per_micro_batch
        assert padded == sorted(padded, reverse=True)


@given(lengths(), configs(), st.integers(1, 9))
def test_ranks_partition_the_micro_batches(
    sides: Lengths, config: BatchingConfig, world_size: int
) -> None:
    """The loads of two ranks differ by at most one micro-batch."""
    plan = planned(sides, replace(config, layout=Layout.bucketed))
    for update in range(plan.num_updates):
        parts = plan.micro_batches(update)
        ranks = plan.micro_batches_of_ranks(update, world_size)
        assert len(ranks) == world_size
        assert sorted(number for rank in ranks for number in rank) == list(range(len(parts)))
        for rank in ranks:
            assert list(rank) == sorted(rank)
            assert all(same(part, parts[number]) for number, part in rank.items())
        loads = [sum(part.cost for part in rank.values()) for rank in ranks]
        assert max(loads) - min(loads) <= max(part.cost for part in parts)


def same(first: MicroBatch, second: MicroBatch) -> bool:
    is_same = np.array_equal(first.pairs, second.pairs) and first.shape == second.shape
    return is_same and np.array_equal(first.rows, second.rows)  # type: ignore[arg-type]


@given(lengths(), configs(), st.integers(1, 9))
def test_ranks_have_equal_numbers_of_packed_micro_batches_of_one_shape(
    sides: Lengths, config: BatchingConfig, world_size: int
) -> None:
    plan = planned(sides, replace(config, layout=Layout.packed))
    shapes = set()
    for update in range(plan.num_updates):
        ranks = plan.micro_batches_of_ranks(update, world_size)
        assert len({len(rank) for rank in ranks}) == 1
        numbers = [number for rank in ranks for number in rank]
        assert sorted(numbers) == list(range(len(numbers)))
        parts = [part for rank in ranks for part in rank.values()]
        shapes |= {part.shape for part in parts}
        together = np.concatenate([part.pairs for part in parts])
        assert sorted(together) == sorted(plan.update(update))
        for part in parts:
            num_rows, *row_lengths = part.shape
            for side, row_length in zip(sides, row_lengths, strict=True):
                filled = np.bincount(part.rows, weights=side[part.pairs], minlength=num_rows)
                assert len(filled) == num_rows
                assert filled.max() <= row_length
    assert len(shapes) == 1


@given(
    lengths(),
    configs(),
    st.integers(1, 3),
    st.sampled_from([10, 100, 1_000, 10_000]),
    st.integers(0, 5_000),
)
def test_merged_micro_batches_cost_least(
    sides: Lengths, config: BatchingConfig, world_size: int, start_tokens: int, more: int
) -> None:
    """No other way to merge neighbours in the order of their lengths costs less."""
    limit = config.max_micro_batch_tokens + more
    plan = planned(sides, replace(config, layout=Layout.bucketed))
    assert isinstance(plan, BucketedPlan)
    plan = replace(plan, max_micro_batch_tokens=limit, buckets_per_update=6)
    merging = replace(plan, start_tokens=start_tokens)
    for update in range(min(plan.num_updates, 3)):
        ranks = plan.micro_batches_of_ranks(update, world_size)
        merged_ranks = merging.micro_batches_of_ranks(update, world_size)
        for parts, merged in zip(ranks, merged_ranks, strict=True):
            members = {
                number: [n for n, part in parts.items() if set(part.pairs) <= set(own.pairs)]
                for number, own in merged.items()
            }
            assert sorted(n for numbers in members.values() for n in numbers) == list(parts)
            for number, own in merged.items():
                assert number == min(members[number])
                assert len(own.pairs) == sum(len(parts[n].pairs) for n in members[number])
                assert own.padded_tokens <= limit
            padded = [own.padded_tokens for own in merged.values()]
            assert padded == sorted(padded, reverse=True)
            if len(parts) <= 8:
                in_order = sorted(parts.values(), key=lambda part: part.shape[::-1])
                costs = [start_tokens + own.cost for own in merged.values()]
                assert sum(costs) == least_cost(merging, in_order)


def least_cost(plan: BucketedPlan, parts: list[MicroBatch]) -> int:
    """Try every first micro-batch."""
    options = [0] if not parts else []
    for end in range(1, len(parts) + 1):
        shapes = np.array([part.shape for part in parts[:end]])
        shape = int(shapes[:, 0].sum()), int(shapes[:, 1].max()), int(shapes[:, 2].max())
        first = MicroBatch(np.concatenate([part.pairs for part in parts[:end]]), shape)
        if end == 1 or first.padded_tokens <= plan.max_micro_batch_tokens:
            rest = least_cost(plan, parts[end:])
            options.append(plan.start_tokens + first.cost + rest)
    return min(options)


@given(lengths(), configs(), st.integers(0, 3), st.integers(0, 3))
def test_a_plan_is_a_pure_function(
    sides: Lengths, config: BatchingConfig, seed: int, epoch: int
) -> None:
    """A resumed epoch is planned again, and continues the interrupted one."""
    first, second = (planned(sides, config, epoch, seed) for _ in range(2))
    assert np.array_equal(first.order, second.order)
    assert first.num_updates == second.num_updates
    for update in range(first.num_updates):
        mine, theirs = first.micro_batches(update), second.micro_batches(update)
        assert all(same(a, b) for a, b in zip(mine, theirs, strict=True))


@given(lengths(), configs(), st.integers(1, 500))
def test_the_micro_batch_budget_does_not_change_updates(
    sides: Lengths, config: BatchingConfig, more: int
) -> None:
    other = replace(config, tokens_per_micro_batch=config.max_micro_batch_tokens + more)
    first, second = planned(sides, config), planned(sides, other)
    assert first.num_updates == second.num_updates
    for update in range(first.num_updates):
        assert np.array_equal(first.update(update), second.update(update))


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(100, 20_000))
def test_updates_have_about_the_configured_size(seed: int, target_tokens: int) -> None:
    sides = np.random.default_rng(seed).integers(2, 40, size=(2, 6000))
    config = BatchingConfig(target_tokens_per_update=target_tokens)
    plan = planned((sides[0], sides[1]), config)
    sizes = [plan.num_target_tokens(update) for update in range(plan.num_updates)]
    # The last update may be smaller, and a bucket contains whole pairs.
    assert all(abs(size - target_tokens) <= 0.35 * target_tokens + 40 for size in sizes[:-1])
    assert sizes[-1] <= 1.35 * target_tokens + 40
