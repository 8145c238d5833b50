import math
from dataclasses import replace

import pytest
import torch

from nmt.base.errors import UserError
from nmt.search.request import Request
from nmt.search.required import allocate, missing, num_met
from tests.unit.nmt.search.tables import (
    BOS,
    Table,
    config,
    enumerate_all,
    exhaustive,
    search,
)

MAX_LENGTH = 4


def windows(ids: list[int], size: int) -> list[list[int]]:
    return [ids[start : start + size] for start in range(len(ids) - size + 1)]


@pytest.mark.parametrize("seed", range(3))
def test_constraints_find_the_best_allowed_translations(seed: int) -> None:
    table, options = Table(seed), exhaustive(MAX_LENGTH, num_best=3)
    everything = [hypothesis.ids for hypothesis in enumerate_all(table, MAX_LENGTH, options)]

    def best(request: Request, **changes: int) -> list[list[int]]:
        request = replace(request, max_length=MAX_LENGTH)
        [found] = search(table, replace(options, **changes), request)
        return [hypothesis.ids for hypothesis in found]

    long_enough = [ids for ids in everything if len(ids) + 1 >= 3]
    assert best(Request(), min_length=3) == long_enough[:3]
    with_prefix = [ids for ids in everything if ids[:1] == [3]]
    assert best(Request(prefix=[3])) == with_prefix[:3]
    allowed = [ids for ids in everything if 2 not in ids and [3, 3] not in windows(ids, 2)]
    assert best(Request(banned=[[2], [3, 3]])) == allowed[:3]
    # There are two.
    required = [ids for ids in everything if 3 in ids and [2, 2] in windows(ids, 2)]
    assert best(Request(required=[[[3]], [[2, 2]]]))[:2] == required


def test_constraints_keep_the_log_probabilities_of_the_model() -> None:
    table = Table(fixed={(): [0.5, 0.0, 0.3, 0.2]})
    [[found]] = search(table, config(beam_size=1, min_length=2), Request(max_length=3))
    assert found.token_log_probs[0] == pytest.approx(torch.tensor(0.3).log().item(), abs=1e-5)


def test_prefix_may_contain_banned_ids() -> None:
    request = Request(prefix=[BOS, 2], max_length=5)
    [[found]] = search(Table(1), config(beam_size=2), request)
    assert found.ids[:2] == [BOS, 2]


def test_if_everything_is_forbidden_the_live_hypothesis_is_returned() -> None:
    request = Request(banned=[[2], [3]], max_length=9)
    [[found]] = search(Table(1), config(beam_size=2, min_length=9), request)
    assert (found.ids, found.log_prob, found.token_log_probs) == ([], 0.0, [])


@pytest.mark.parametrize("prefix", [[], [2]])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_scores_that_are_not_finite_are_reported(value: float, prefix: list[int]) -> None:
    table = Table(fixed={(): [value] * 4})
    with pytest.raises(UserError, match="the scores of the model are not finite"):
        search(table, config(beam_size=2), Request(prefix, max_length=9))


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_improbable_required_sequences_occur_in_any_batch(beam_size: int) -> None:
    table, options = Table(3, vocabulary_size=60), config(beam_size=beam_size)
    requests = [
        Request(max_length=30),
        Request(required=[[[17, 4, 17]], [[55]]], max_length=30),
        Request([9, 8], [[[8, 3]], [[41, 41], [13, 7, 5]]], [[41, 41, 8]], max_length=30),
    ]
    found = search(table, options, *requests)
    for number, (request, [best]) in enumerate(zip(requests, found, strict=True)):
        assert not missing(best.ids, request)
        assert best.ids[: len(request.prefix)] == list(request.prefix)
        [[alone]] = search(table, options, request, sentences=[number])
        assert alone == best


def test_a_required_sequence_ends_where_a_word_ends() -> None:
    request = Request(required=[[[5, 6], [5, 8]]], continuing={8, 9})
    assert [bool(missing(ids, request)) for ids in ([5, 6], [5, 6, 9], [5, 6, 7], [5, 8])] == [
        False,
        True,
        False,
        False,
    ]
    # Token 9 follows 5 6 with certainty.
    table = Table(1, fixed={(5, 6): [1e-4] * 9 + [1 - 9e-4]}, vocabulary_size=10)
    [[best]] = search(table, config(beam_size=4), replace(request, max_length=12))
    assert not missing(best.ids, request)


@pytest.mark.parametrize(
    ("ids", "sequences", "met"),
    [
        ([], [[5, 6]], 0),
        ([5], [[5, 6]], 1),
        ([5, 6, 7], [[5, 6]], 2),
        ([5, 7], [[5, 6]], 0),
        # Of two sequences that have begun the longer one counts.
        ([4, 5], [[4, 5, 6], [5, 9]], 2),
        ([4, 5, 9], [[4, 5, 6], [5, 9]], 2),
        ([5, 5, 6], [[5, 6], [7]], 2),
    ],
)
def test_required_tokens_are_counted(ids: list[int], sequences: list[list[int]], met: int) -> None:
    assert num_met(ids, Request(required=[[sequence] for sequence in sequences])) == met


@pytest.mark.parametrize(
    ("beam_size", "counts", "shares"),
    [
        (4, [9, 9], [2, 2]),
        (5, [9, 9], [2, 3]),
        (4, [9, 0], [4, 0]),
        (4, [9, 1, 0], [3, 1, 0]),
        # A beam smaller than the number of groups goes to those with most tokens.
        (2, [9, 9, 1], [0, 1, 1]),
        (6, [1, 1, 1], [1, 1, 1]),
    ],
)
def test_the_beam_is_allocated(beam_size: int, counts: list[int], shares: list[int]) -> None:
    assert allocate(beam_size, counts) == shares
