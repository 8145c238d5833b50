"""The search in fixed shapes finds the hypotheses of `beam_search`."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nmt.base.errors import UserError
from nmt.config import DecodingConfig, LengthPenalty
from nmt.search.captured import FixedSearch
from nmt.search.hypothesis import Hypothesis
from nmt.search.request import Request, TargetIds
from tests.unit.nmt.search.tables import BOS, EOS, Table, config, search


class FixedTable:
    """A table as a step function of fixed shapes; padding sentences read it too."""

    def __init__(self, table: Table, sentences: list[int]) -> None:
        self._table = table
        self._sentences = sentences
        self._slots: dict[tuple[int, int, int], int] = {}

    def __call__(self, tokens: Tensor, ancestors: Tensor, position: Tensor) -> Tensor:
        self._table.num_steps += 1
        num_sentences, beam_size, _ = ancestors.shape
        now = int(position)
        logits = []
        for index, token in enumerate(tokens.tolist()):
            self._slots[index // beam_size, index % beam_size, now] = token
        for sentence in range(num_sentences):
            for path in ancestors[sentence, :, : now + 1].tolist():
                read = (self._slots[sentence, slot, p] for p, slot in enumerate(path))
                logits.append(self._table.logits((self._sentences[sentence], *read)))
        return torch.stack(logits)


def fixed_search(
    table: Table,
    options: DecodingConfig,
    *requests: Request,
    num_sentences: int = 0,
    sentences: list[int] | None = None,
    banned: tuple[int, ...] = (BOS,),
) -> list[Hypothesis]:
    size = num_sentences or len(requests)
    numbers = [*(sentences or range(len(requests)))]
    step = FixedTable(table, numbers + [99] * (size - len(numbers)))
    longest = max(request.max_length for request in requests)
    fixed = FixedSearch(options, TargetIds(BOS, EOS, banned), size, longest, torch.device("cpu"))
    return fixed.search(requests, lambda positions: fixed.step(step, positions))


def assert_equal(found: list[Hypothesis], expected: list[list[Hypothesis]]) -> None:
    for one, [other] in zip(found, expected, strict=True):
        assert one.ids == other.ids
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


@st.composite
def problems(draw: st.DrawFn) -> tuple[int, int, DecodingConfig, list[Request], tuple[int, ...]]:
    kind = draw(st.sampled_from(LengthPenalty))
    options: dict[str, Any] = {"length_penalty_kind": kind}
    if kind is LengthPenalty.gnmt:
        options["length_penalty"] = draw(st.sampled_from([-0.5, 0.0, 0.6, 1.0, 3.0]))
    lengths = draw(st.lists(st.integers(1, 11), min_size=1, max_size=4))
    size = draw(st.integers(4, 9))
    return (
        draw(st.integers(0, 10_000)),
        size,
        config(
            **options,
            beam_size=draw(st.integers(1, 6)),
            min_length=draw(st.integers(0, 4)),
            patience=draw(st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0])),
        ),
        [Request(max_length=length) for length in lengths],
        draw(st.sampled_from([(BOS,), (BOS, 2), (BOS, 2, 3)])),
    )


@given(problems())
def test_it_finds_the_hypotheses_of_beam_search(
    problem: tuple[int, int, DecodingConfig, list[Request], tuple[int, ...]],
) -> None:
    seed, size, options, requests, banned = problem
    expected = search(Table(seed, vocabulary_size=size), options, *requests, banned=banned)
    found = fixed_search(Table(seed, vocabulary_size=size), options, *requests, banned=banned)
    assert_equal(found, expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"patience": 0.75, "length_penalty": 3.0},  # how many have finished decides the result
        {"length_penalty": -3.0},  # the shortest hypothesis has the largest penalty
    ],
    ids=str,
)
def test_the_search_ends_when_beam_search_ends(changes: dict[str, float]) -> None:
    options = config(beam_size=4, **changes)
    requests = [Request(max_length=9)] * 4
    for seed in range(12):
        found = fixed_search(Table(seed), options, *requests)
        assert_equal(found, search(Table(seed), options, *requests))


def test_every_continuation_may_be_forbidden() -> None:
    table = Table(fixed={(): [0.0, 0.2, 0.8, 0.0]})
    options = config(beam_size=2)
    request = Request(max_length=4)
    banned = (BOS, 2, 3)
    expected = search(table, options, request, banned=banned)
    assert expected[0][0].ids == []
    assert_equal(fixed_search(table, options, request, banned=banned), expected)


def test_the_tokens_of_many_blocks_are_ranked_exactly() -> None:
    options = config(beam_size=3, min_length=3)
    requests = [Request(max_length=length) for length in (40, 3, 70)]
    tables = [Table(7, vocabulary_size=1_000) for _ in range(2)]
    assert_equal(fixed_search(tables[0], options, *requests), search(tables[1], options, *requests))


def test_other_sentences_and_missing_ones_do_not_change_a_hypothesis() -> None:
    options = config(beam_size=3)
    requests = [Request(max_length=length) for length in (1, 9, 4, 2)]
    together = fixed_search(Table(2), options, *requests, num_sentences=6)
    for sentence, request in enumerate(requests):
        assert fixed_search(Table(2), options, request, sentences=[sentence], num_sentences=6) == [
            together[sentence]
        ]


def test_it_ends_within_eight_steps_of_the_last_sentence() -> None:
    table = Table(fixed={(): [0.9, 0.0, 0.05, 0.05]})
    fixed_search(table, config(beam_size=2, length_penalty=0.0), Request(max_length=60))
    assert table.num_steps == 8


def test_scores_that_are_not_finite_are_refused() -> None:
    class Damaged(Table):
        def logits(self, prefix: tuple[int, ...]) -> Tensor:
            return super().logits(prefix) * torch.nan

    with pytest.raises(UserError, match="not finite"):
        fixed_search(Damaged(), config(beam_size=2), Request(max_length=3))
