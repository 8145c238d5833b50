import pytest

from nmt.config import DecodingConfig
from nmt.decoding.required import missing, num_met, shares
from nmt.decoding.search import search
from nmt.decoding.task import Demand, TargetIds, Task
from tests.unit.nmt.decoding.tables import BOS, EOS, Prefixes, Table


@pytest.mark.parametrize(
    ("ids", "phrases", "met"),
    [
        ([], [[5, 6]], 0),
        ([5], [[5, 6]], 1),
        ([5, 6, 7], [[5, 6]], 2),
        ([5, 7], [[5, 6]], 0),
        # Of two that have begun the longer one counts.
        ([4, 5], [[4, 5, 6], [5, 9]], 2),
        ([4, 5, 9], [[4, 5, 6], [5, 9]], 2),
        ([5, 5, 6], [[5, 6], [7]], 2),
    ],
)
def test_tokens_met(ids: list[int], phrases: list[list[int]], met: int) -> None:
    assert num_met(ids, phrases) == met


@pytest.mark.parametrize(
    ("num_places", "counts", "given"),
    [
        (4, [9, 9], [2, 2]),
        (5, [9, 9], [2, 3]),
        (4, [9, 0], [4, 0]),
        (4, [9, 1, 0], [3, 1, 0]),
        # Fewer places than banks: those with most tokens.
        (2, [9, 9, 1], [0, 1, 1]),
        (6, [1, 1, 1], [1, 1, 1]),
    ],
)
def test_what_a_bank_does_not_need_goes_to_others(
    num_places: int, counts: list[int], given: list[int]
) -> None:
    assert shares(num_places, counts) == given


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_phrases_come_however_improbable_and_whoever_stands_beside(beam_size: int) -> None:
    table = Table(3, vocabulary=60)
    config = DecodingConfig(beam_size=beam_size)
    ids = TargetIds(BOS, EOS, (BOS,))
    tasks = [
        Task(30),
        Task(30, demand=Demand(required=[[17, 4, 17], [55]])),
        Task(30, demand=Demand([9, 8], required=[[8, 3], [41, 41]], banned=[[41, 41, 8]])),
    ]
    found = search(table, Prefixes([(n,) for n in range(3)]), config, ids, tasks)
    for number, (task, [best]) in enumerate(zip(tasks, found, strict=True)):
        assert not missing(best.ids, task.demand.required)
        assert best.ids[: len(task.demand.prefix)] == list(task.demand.prefix)
        [[alone]] = search(table, Prefixes([(number,)]), config, ids, [task])
        assert alone == best
