from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from nmt.config import BatchingConfig
from nmt.data.batching import plan_epoch
from nmt.data.corpus import ParallelCorpus, shard_name, write_shard
from nmt.data.loader import Position, UpdateLoader, UpdateWork
from tests.support import SpecialIds

CONFIG = BatchingConfig(
    target_tokens_per_update=120,
    tokens_per_micro_batch=40,
    max_source_length=20,
    max_target_length=20,
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ParallelCorpus:
    """Pair i consists of the token i + 10, so that batches show which pairs they contain."""
    folder: Path = tmp_path_factory.mktemp("corpus")
    random = np.random.default_rng(0)
    sizes = random.integers(1, 12, size=(120, 2)).tolist()
    pairs = [([i + 10] * a, [i + 10] * b) for i, (a, b) in enumerate(sizes)]
    write_shard(folder / shard_name("train", 0), pairs)
    return ParallelCorpus(folder, "train")


def load(
    corpus: ParallelCorpus,
    count: int,
    position: Position | None = None,
    rank: int = 0,
    size: int = 1,
    config: BatchingConfig = CONFIG,
) -> list[UpdateWork]:
    special = SpecialIds(3, 1, 2)
    loader = UpdateLoader(corpus, config, 7, special, special, rank=rank, world_size=size)
    return list(islice(loader.updates(position or Position()), count))


def pairs_of(work: UpdateWork) -> list[int]:
    return [int(i) - 10 for part in work.micro_batches.values() for i in part.target_output[:, 0]]


def parts_of(*works: UpdateWork) -> list[tuple]:
    """Numbers and contents of the micro-batches, in the order of their numbers."""
    parts = {number: part for work in works for number, part in work.micro_batches.items()}
    assert len(parts) == sum(len(work.micro_batches) for work in works)
    return [(n, parts[n].source.tolist(), parts[n].target_output.tolist()) for n in sorted(parts)]


def test_updates_match_the_plan(corpus: ParallelCorpus) -> None:
    plan = plan_epoch(corpus.source_lengths, corpus.target_lengths, CONFIG, seed=7, epoch=0)
    made = load(corpus, plan.num_updates + 1)
    for index, work in enumerate(made[:-1]):
        assert sorted(pairs_of(work)) == sorted(plan.update(index))
        assert work.num_target_tokens == plan.num_target_tokens(index)
        total = sum(part.num_target_tokens for part in work.micro_batches.values())
        assert total == work.num_target_tokens
        assert len(work.shapes) == len(work.micro_batches)
    assert made[-2].next_position == Position(1, 0)
    assert made[-1].position == Position(1, 0)
    assert sorted(i for work in made[:-1] for i in pairs_of(work)) == list(range(120))


@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("done", [1, 4, 9, 14])
def test_a_resumed_loader_continues(corpus: ParallelCorpus, done: int, world_size: int) -> None:
    """Also with another number of ranks (accelerate #2016, fairseq #1226 and #781)."""
    straight = load(corpus, 20)
    position = straight[done - 1].next_position
    shares = [load(corpus, 20 - done, position, rank, world_size) for rank in range(world_size)]
    for expected, *found in zip(straight[done:], *shares, strict=True):
        for share in found:
            assert share.next_position == expected.next_position
            assert share.position == expected.position
        assert parts_of(*found) == parts_of(expected)


@pytest.mark.parametrize("world_size", [2, 3, 50])
def test_ranks_share_the_micro_batches_of_an_update(
    corpus: ParallelCorpus, world_size: int
) -> None:
    alone = load(corpus, 6)
    shares = [load(corpus, 6, rank=rank, size=world_size) for rank in range(world_size)]
    for update, whole in enumerate(alone):
        assert parts_of(*(share[update] for share in shares)) == parts_of(whole)
        num_rounds = max(len(share[update].micro_batches) for share in shares)
        for share in shares:
            assert share[update].num_target_tokens == whole.num_target_tokens
            assert len(share[update].shapes) == len(whole.shapes)
            assert share[update].num_rounds == num_rounds
            assert share[update].next_position == whole.next_position
