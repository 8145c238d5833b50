"""A packed update has the loss and the gradient of its pairs, computed one by one."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import (
    Activation,
    BatchingConfig,
    Layout,
    NormPlacement,
    Positions,
    StartEmbedding,
    TiedEmbeddings,
)
from nmt.data.batch import Batch, collate, collate_rows
from nmt.data.batching import plan_epoch
from nmt.data.packing import first_fit, pack
from nmt.model.build import build_model
from nmt.training.loss import SummedLoss
from tests.support import SpecialIds, tiny_model_config

Pairs = list[tuple[np.ndarray, np.ndarray]]

SPECIAL = SpecialIds(3, 1, 2)
VOCABULARY = 13


@st.composite
def some_pairs(draw: st.DrawFn) -> Pairs:
    """Ids of up to 30 pairs of up to 10 tokens."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = random.integers(0, 11, size=(draw(st.integers(1, 30)), 2)).tolist()
    return [tuple(random.integers(4, VOCABULARY, n) for n in each) for each in sizes]  # type: ignore[misc]


@st.composite
def models(draw: st.DrawFn) -> dict[str, Any]:
    """Variants of the Transformer, without dropout."""
    return {
        "positions": draw(st.sampled_from(Positions)),
        "norm": draw(st.sampled_from(NormPlacement)),
        "activation": draw(st.sampled_from(Activation)),
        "start": draw(st.sampled_from(StartEmbedding)),
        "tied_embeddings": draw(st.sampled_from(TiedEmbeddings)),
        "output_bias": draw(st.booleans()),
        "num_experts": draw(st.sampled_from([1, 3])),
        "max_length": 40,
    }


def loss_and_gradient(
    objective: SummedLoss, batches: Iterable[Batch]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    objective.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for batch in batches:
        loss = objective(batch)
        loss.backward()
        total += loss.detach()
    named = objective.named_parameters()
    return total, {name: p.grad for name, p in named if p.grad is not None}


@settings(max_examples=25, deadline=None)
@given(some_pairs(), models(), st.integers(11, 40), st.integers(1, 90), st.integers(1, 3))
def test_a_packed_update_equals_its_pairs_one_by_one(
    pairs: Pairs, model: dict[str, Any], row_length: int, target_tokens: int, world_size: int
) -> None:
    torch.manual_seed(len(pairs))
    network = build_model(tiny_model_config(**model), VOCABULARY, VOCABULARY).double()
    objective = SummedLoss(network, 0.1, 0.05)
    lengths = [np.array([len(pair[side]) + 1 for pair in pairs]) for side in (0, 1)]
    config = BatchingConfig(
        layout=Layout.packed,
        target_tokens_per_update=target_tokens,
        tokens_per_micro_batch=row_length * (1 + len(pairs) % 3),
        max_source_length=row_length,
        max_target_length=11,
    )
    plan = plan_epoch(lengths[0], lengths[1], config, 1, 0)
    for index in range(min(plan.num_updates, 3)):
        by_rank = plan.micro_batches_of_ranks(index, world_size)
        parts = [part for of_rank in by_rank for part in of_rank.values()]
        assert len({part.shape for part in parts}) == 1
        packed = [
            collate_rows([pairs[i] for i in part.pairs], part.rows, part.shape, SPECIAL, SPECIAL)
            for part in parts
            if part.rows is not None
        ]
        assert len(packed) == len(parts) == world_size * len(by_rank[0])
        assert sum(b.num_target_tokens for b in packed) == plan.num_target_tokens(index)
        alone = [collate([pairs[i]], SPECIAL, SPECIAL) for i in plan.update(index)]
        loss, gradient = loss_and_gradient(objective, packed)
        expected_loss, expected = loss_and_gradient(objective, alone)
        torch.testing.assert_close(loss, expected_loss, rtol=1e-10, atol=1e-10)
        assert gradient.keys() == expected.keys()
        for name, values in expected.items():
            torch.testing.assert_close(gradient[name], values, rtol=1e-10, atol=1e-10, msg=name)


@given(some_pairs(), st.integers(11, 40))
def test_rows_hold_every_sentence_once_and_whole(pairs: Pairs, row_length: int) -> None:
    sources = [source for source, _ in pairs]
    lengths = [np.array([len(pair[side]) + 2 for pair in pairs]) for side in (0, 1)]
    rows = first_fit(lengths[0], lengths[1], row_length + 1)
    by_row = np.argsort(rows, kind="stable")
    shape = int(rows.max()) + 2, row_length + 1  # one empty row
    packed = pack([sources[i] for i in by_row], rows[by_row], shape, 3, before=1, after=2)
    ids, segments, positions = (part.numpy() for part in packed)
    found: list[list[int]] = []
    for row in range(shape[0]):
        for number in range(1, segments[row].max() + 1):
            (index,) = np.nonzero(segments[row] == number)
            assert np.array_equal(index, index[0] + np.arange(len(index)))
            assert np.array_equal(positions[row, index], np.arange(len(index)))
            found.append(ids[row, index].tolist())
    assert found == [[1, *sources[i].tolist(), 2] for i in by_row]
    assert (ids[segments == 0] == 3).all()
    assert (positions[segments == 0] == 0).all()
    assert not segments[-1].any()
