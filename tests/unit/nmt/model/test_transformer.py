import math
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.plain_transformer import PlainTransformer, copy_weights
from nmt.base.errors import UserError
from nmt.config import (
    Activation,
    ModelConfig,
    NormPlacement,
    Positions,
    StartEmbedding,
    TiedEmbeddings,
    Timescales,
)
from nmt.model.build import count_parameters, meta_model
from nmt.model.positions import sinusoidal_table
from nmt.model.transformer import Transformer
from tests.support import tiny_model_config, tiny_transformer

VOCABULARY = 23
PAD = 0

VARIANTS: dict[str, dict[str, Any]] = {
    **{
        f"{positions.name}-{norm.name}": {"positions": positions, "norm": norm}
        for positions in Positions
        for norm in NormPlacement
    },
    "widths": {"key_width": 6, "value_width": 10},
    "widths-rotary-pre": {
        "key_width": 6,
        "value_width": 10,
        "positions": Positions.rotary,
        "norm": NormPlacement.pre,
    },
    "marian": {
        "activation": Activation.silu,
        "output_bias": True,
        "start": StartEmbedding.zero,
        "timescales": Timescales.marian,
    },
    "experts": {"num_experts": 4},
    "window": {"attention_window": 4},
    "window-rotary-pre": {
        "attention_window": 3,
        "positions": Positions.rotary,
        "norm": NormPlacement.pre,
    },
    "gelu-untied": {"activation": Activation.gelu, "tied_embeddings": TiedEmbeddings.none},
}


def model_of(**variant: Any) -> Transformer:
    return tiny_transformer(tiny_model_config(**variant), VOCABULARY)


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def model(request: pytest.FixtureRequest) -> Iterator[Transformer]:
    with torch.no_grad():
        yield model_of(**request.param)


def random_ids(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, VOCABULARY, shape, generator=generator)


def mask_of(lengths: list[int]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def test_stepping_with_a_cache_equals_decoding_at_once(model: Transformer) -> None:
    length = 40  # more slots than the cache has at first
    source_mask = mask_of([7, 4, 6])
    memory = model.encode(random_ids(3, 7), source_mask)
    target = random_ids(3, length, seed=2)
    expected = model.project(model.decode(target, memory, source_mask))
    state = model.start(memory, source_mask)
    for position in range(length):
        assert state.position == position
        logits, state = model.step(target[:, position], state)
        torch.testing.assert_close(logits, expected[:, position])


def test_rows_that_branch_and_end_equal_decoding_their_prefixes(model: Transformer) -> None:
    """Rows branch and sentences end at random, so that some are not yet dropped from the state."""
    choose = random.Random(2)
    lengths = [3 + number % 5 for number in range(20)]
    source, source_mask = random_ids(20, 7), mask_of(lengths)
    memory = model.encode(source, source_mask)
    state = model.start(memory, source_mask)
    sentences, prefixes = list(range(20)), torch.empty(20, 0, dtype=torch.long)
    most_ended = 0
    for step in range(20):
        tokens = random_ids(len(sentences), seed=10 + step)
        logits, state = model.step(tokens, state)
        prefixes = torch.cat((prefixes, tokens[:, None]), dim=1)
        hidden = model.decode(prefixes, memory[sentences], source_mask[sentences])
        torch.testing.assert_close(logits, model.project(hidden[:, -1]))
        most_ended = max(most_ended, len(state.source_mask) - len(set(sentences)))
        live = [s for s in sorted(set(sentences)) if choose.random() > 0.07]
        rows = [
            row
            for sentence in live
            for row in choose.choices(
                [r for r, s in enumerate(sentences) if s == sentence], k=choose.randint(1, 3)
            )
        ]
        state = state.reorder(torch.tensor(rows))
        sentences, prefixes = [sentences[row] for row in rows], prefixes[rows]
    assert most_ended > 0
    assert len(state.source_mask) < 20
    assert sentences


def test_padding_does_not_change_the_output(model: Transformer) -> None:
    source, target = random_ids(1, 5), random_ids(1, 6, seed=2)
    alone = model(source, mask_of([5]), target)
    longer = torch.cat((source, torch.full((1, 4), PAD)), dim=1)
    batch = torch.cat((longer, random_ids(1, 9, seed=5)))
    targets = torch.cat((F.pad(target, (0, 3), value=PAD), random_ids(1, 9, seed=6)))
    together = model(batch, mask_of([5, 9]), targets)
    torch.testing.assert_close(together[:1, :6], alone)


def test_a_target_token_does_not_change_earlier_positions(model: Transformer) -> None:
    source, source_mask, target = random_ids(2, 5), mask_of([5, 5]), random_ids(2, 8, seed=2)
    before = model(source, source_mask, target)
    changed = target.clone()
    changed[:, 4] = (changed[:, 4] % (VOCABULARY - 1)) + 1
    after = model(source, source_mask, changed)
    assert torch.equal(before[:, :4], after[:, :4])
    difference = (before[:, 4:] - after[:, 4:]).abs().amax(dim=-1)
    assert (difference > 1e-6).all()


def test_every_source_token_reaches_every_target_position(model: Transformer) -> None:
    source, source_mask, target = random_ids(1, 5), mask_of([5]), random_ids(1, 4, seed=2)
    before = model(source, source_mask, target)
    for index in range(5):
        changed = source.clone()
        changed[0, index] = (changed[0, index] % (VOCABULARY - 1)) + 1
        difference = (model(changed, source_mask, target) - before).abs().amax(dim=-1)
        assert (difference > 1e-6).all()


def test_attention_maps_are_distributions_over_real_tokens(model: Transformer) -> None:
    source, source_mask, target = random_ids(2, 6), mask_of([6, 3]), random_ids(2, 5, seed=2)
    maps = model.attention_maps(source, source_mask, target)
    shapes = {"encoder": (2, 2, 6, 6), "decoder": (2, 2, 5, 5), "cross": (2, 2, 5, 6)}
    for name, shape in shapes.items():
        assert len(maps[name]) == 2
        for layer in maps[name]:
            assert layer.shape == shape
            torch.testing.assert_close(layer.sum(dim=-1), torch.ones(shape[:3], dtype=layer.dtype))
    for layer in (*maps["encoder"], *maps["cross"]):
        assert (layer[1, :, :3, 3:] == 0).all()
    for layer in maps["decoder"]:
        assert (layer.triu(diagonal=1) == 0).all()


@pytest.mark.parametrize("norm", list(NormPlacement))
@torch.no_grad()
def test_the_model_equals_the_transformer_of_torch(norm: NormPlacement) -> None:
    config = tiny_model_config(norm=norm)
    model = tiny_transformer(config, VOCABULARY)
    theirs = PlainTransformer(config, VOCABULARY, PAD).transformer.double()
    copy_weights(theirs, model)
    source, source_mask, target = random_ids(3, 7), mask_of([7, 4, 6]), random_ids(3, 5, seed=2)

    def embedded(ids: Tensor) -> Tensor:
        # The factor of section 3.4 and the table of section 3.5.
        table = sinusoidal_table(ids.size(1), config.width).double()
        return model.source_embedding.weight[ids] * math.sqrt(config.width) + table

    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    expected = theirs(
        embedded(source),
        embedded(target),
        tgt_mask=causal,
        src_key_padding_mask=~source_mask,
        memory_key_padding_mask=~source_mask,
    )
    torch.testing.assert_close(model(source, source_mask, target), expected)


@pytest.mark.parametrize(
    ("width", "num_heads", "count", "millions"),
    [(512, 8, 63_082_496, 65), (1024, 16, 214_245_376, 213)],
    ids=["base", "big"],
)
def test_models_have_as_many_parameters_as_in_the_paper(
    width: int, num_heads: int, count: int, millions: int
) -> None:
    config = ModelConfig(
        width=width, num_heads=num_heads, feed_forward_width=4 * width, max_length=512
    )
    assert count_parameters(meta_model(config, 37_000, 37_000)) == count
    # The paper rounds, and its vocabulary of 37,000 is approximate too.
    assert count == pytest.approx(millions * 1e6, rel=0.04)


@pytest.mark.parametrize(
    ("tied", "num_matrices"),
    [(TiedEmbeddings.three_way, 1), (TiedEmbeddings.target, 2), (TiedEmbeddings.none, 3)],
)
def test_tied_matrices_are_one_parameter(tied: TiedEmbeddings, num_matrices: int) -> None:
    model = model_of(tied_embeddings=tied)
    matrices = (model.source_embedding.weight, model.target_embedding.weight, model.output_weight)
    assert len({id(matrix) for matrix in matrices}) == num_matrices
    none = model_of(tied_embeddings=TiedEmbeddings.three_way)
    extra = (num_matrices - 1) * VOCABULARY * 16
    assert count_parameters(model) == count_parameters(none) + extra


def test_dropout_applies_in_training_only() -> None:
    model = tiny_transformer(tiny_model_config(dropout=0.3), VOCABULARY)
    inputs = random_ids(2, 5), mask_of([5, 5]), random_ids(2, 4)
    assert torch.equal(model(*inputs), model(*inputs))
    model.train()
    assert not torch.equal(model(*inputs), model(*inputs))


def test_embeddings_have_the_standard_deviation_of_section_3_4() -> None:
    torch.manual_seed(0)
    model = Transformer(tiny_model_config(width=64), 500, 500)
    assert float(model.source_embedding.weight.detach().std()) == pytest.approx(64**-0.5, rel=0.05)
    assert all(not p.any() for n, p in model.named_parameters() if ".query.bias" in n)


def test_a_zero_start_does_not_depend_on_the_first_token() -> None:
    model = model_of(start=StartEmbedding.zero)
    target, changed = random_ids(2, 4), random_ids(2, 4)
    changed[:, 0] += 1
    changed[:, 1:] = target[:, 1:]
    source, mask = random_ids(2, 5, seed=2), mask_of([5, 5])
    assert torch.equal(model(source, mask, target), model(source, mask, changed))


def test_the_output_bias_is_added_to_the_logits() -> None:
    torch.manual_seed(0)
    model = model_of(output_bias=True)
    hidden = torch.randn(3, model.config.width, dtype=torch.float64)
    without = hidden @ model.output_weight.T
    with torch.no_grad():
        assert model.output_bias is not None
        model.output_bias.copy_(torch.arange(VOCABULARY))
    torch.testing.assert_close(model.project(hidden), without + torch.arange(VOCABULARY))


def test_positions_of_marian_have_wavelengths_from_two_pi_to_ten_thousand_times_that() -> None:
    table = sinusoidal_table(7, 8, Timescales.marian)
    for index, wavelength in enumerate([1.0, 10_000 ** (1 / 3), 10_000 ** (2 / 3), 10_000.0]):
        assert table[5, 2 * index] == pytest.approx(math.sin(5 / wavelength), abs=1e-6)
        assert table[5, 2 * index + 1] == pytest.approx(math.cos(5 / wavelength), abs=1e-6)


def test_three_way_tied_vocabularies_of_two_sizes_are_refused() -> None:
    with pytest.raises(UserError, match=r"three_way needs one vocabulary.*23 and 24 pieces"):
        Transformer(tiny_model_config(tied_embeddings=TiedEmbeddings.three_way), 23, 24)
