from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.config import BatchingConfig
from nmt.data.batch import SpecialIds
from nmt.data.batching import plan_epoch
from nmt.data.corpus import ParallelCorpus, shard_name, write_shard
from nmt.data.loader import Position, UpdateLoader, UpdateWork

CONFIG = BatchingConfig(
    target_tokens_per_update=120,
    tokens_per_micro_batch=40,
    max_source_length=20,
    max_target_length=20,
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ParallelCorpus:
    """Pair i is made of the token i + 10, so that batches tell which pairs they hold."""
    folder: Path = tmp_path_factory.mktemp("corpus")
    random = np.random.default_rng(0)
    sizes = random.integers(1, 12, size=(120, 2)).tolist()
    pairs = [([i + 10] * a, [i + 10] * b) for i, (a, b) in enumerate(sizes)]
    write_shard(folder / shard_name("train", 0), pairs)
    return ParallelCorpus.open(folder, "train")


def works(
    corpus: ParallelCorpus,
    count: int,
    position: Position | None = None,
    rank: int = 0,
    size: int = 1,
) -> list[UpdateWork]:
    special = SpecialIds(3, 1, 2)
    loader = UpdateLoader(corpus, CONFIG, 7, special, special, rank, size)
    return list(islice(loader.updates(position or Position()), count))


def pairs_of(work: UpdateWork) -> list[int]:
    return [int(i) - 10 for part in work.micro_batches for i in part.batch.target_output[:, 0]]


def same(first: UpdateWork, second: UpdateWork) -> bool:
    parts = zip(first.micro_batches, second.micro_batches, strict=True)
    return (first.epoch, first.update_in_epoch, first.next_position) == (
        second.epoch,
        second.update_in_epoch,
        second.next_position,
    ) and all(
        a.number == b.number
        and torch.equal(a.batch.source, b.batch.source)
        and torch.equal(a.batch.target_output, b.batch.target_output)
        for a, b in parts
    )


def test_updates_are_the_plans(corpus: ParallelCorpus) -> None:
    plan = plan_epoch(corpus.source_lengths, corpus.target_lengths, CONFIG, seed=7, epoch=0)
    made = works(corpus, plan.num_updates + 1)
    for index, work in enumerate(made[:-1]):
        assert sorted(pairs_of(work)) == sorted(plan.update(index))
        assert work.num_target_tokens == plan.num_target_tokens(index)
        total = sum(part.batch.num_target_tokens for part in work.micro_batches)
        assert total == work.num_target_tokens
        assert work.num_micro_batches == len(work.micro_batches)
    assert made[-2].next_position == Position(1, 0)
    assert (made[-1].epoch, made[-1].update_in_epoch) == (1, 0)
    assert sorted(i for work in made[:-1] for i in pairs_of(work)) == list(range(120))


@pytest.mark.parametrize("done", [1, 4, 9, 14])
def test_a_resumed_loader_gives_the_rest(corpus: ParallelCorpus, done: int) -> None:
    straight = works(corpus, 20)
    resumed = works(corpus, 20 - done, position=straight[done - 1].next_position)
    assert all(same(a, b) for a, b in zip(straight[done:], resumed, strict=True))


@pytest.mark.parametrize("world_size", [2, 3, 50])
def test_ranks_share_the_micro_batches_of_one_process(
    corpus: ParallelCorpus, world_size: int
) -> None:
    alone = works(corpus, 6)
    shares = [works(corpus, 6, rank=rank, size=world_size) for rank in range(world_size)]
    for update, whole in enumerate(alone):
        parts = [part for share in shares for part in share[update].micro_batches]
        parts.sort(key=lambda part: part.number)
        assert [part.number for part in parts] == [part.number for part in whole.micro_batches]
        for part, expected in zip(parts, whole.micro_batches, strict=True):
            assert torch.equal(part.batch.source, expected.batch.source)
        for share in shares:
            assert share[update].num_target_tokens == whole.num_target_tokens
            assert share[update].num_micro_batches == whole.num_micro_batches
            assert share[update].num_rounds == max(
                len(other[update].micro_batches) for other in shares
            )
            assert share[update].next_position == whole.next_position
