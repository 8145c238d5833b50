import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.config import Architecture, AttentionKind
from nmt.model.comparators.recurrent import MemoryAttention, Recurrent
from tests.support import mask_of, random_ids, tiny_model_config, tiny_transformer


def attention_of(kind: AttentionKind) -> MemoryAttention:
    torch.manual_seed(0)
    config = tiny_model_config(architecture=Architecture.recurrent, attention=kind, key_width=6)
    return MemoryAttention(config).double()


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    states, memory = (
        torch.randn(2, length, 16, dtype=torch.float64, generator=generator) for length in (3, 5)
    )
    return states, memory, mask_of([5, 4])


@pytest.mark.parametrize("kind", AttentionKind)
def test_the_weights_are_those_of_the_formula(kind: AttentionKind) -> None:
    attention = attention_of(kind)
    states, memory, mask = inputs()
    context, weights = attention(states, attention.key(memory), memory, mask)
    for t in range(3):
        query, keys = attention.query(states[1, t]), attention.key(memory[1, :4])
        scores = {
            AttentionKind.dot: keys @ query,
            AttentionKind.scaled_dot: keys @ query / math.sqrt(6),
        }.get(kind)
        if scores is None:
            scores = (keys + query).tanh() @ attention.score.weight[0]
        expected = scores.softmax(dim=0)
        if kind is AttentionKind.hard:
            expected = (torch.arange(4) == scores.argmax()).to(scores)
        torch.testing.assert_close(weights[1, t], torch.cat((expected, expected.new_zeros(1))))
        torch.testing.assert_close(context[1, t], expected @ memory[1, :4])


def test_hard_attention_has_the_gradient_of_soft_weights() -> None:
    hard = attention_of(AttentionKind.hard)
    states, memory, mask = inputs()
    soft = attention_of(AttentionKind.additive)
    soft.load_state_dict(hard.state_dict())
    factor = torch.randn(2, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for attention in (hard, soft):
        _, weights = attention(states, attention.key(memory), memory, mask)
        (weights * factor).sum().backward()
    assert hard.score.weight.grad is not None
    assert hard.score.weight.grad.abs().min() > 0
    torch.testing.assert_close(hard.score.weight.grad, soft.score.weight.grad)


@torch.no_grad()
def test_the_first_layer_equals_the_bidirectional_layer_of_torch() -> None:
    config = tiny_model_config(architecture=Architecture.recurrent)
    model = tiny_transformer(config)
    assert isinstance(model, Recurrent)
    theirs = nn.LSTM(16, 16, batch_first=True, bidirectional=True).double()
    for layer, suffix in ((model.encoder[0], ""), (model.backward_layer, "_reverse")):
        for name, weight in layer.named_parameters():
            getattr(theirs, name + suffix).copy_(weight)
    source, lengths = random_ids(3, 7), [7, 4, 6]
    embedded = 4 * model.source_embedding(source)  # sqrt(D)
    packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
    outputs, _ = pad_packed_sequence(theirs(packed)[0], batch_first=True)
    expected, _ = model.encoder[1](outputs)
    mask = mask_of(lengths)
    torch.testing.assert_close(model.encode(source, mask)[mask], expected[mask])
