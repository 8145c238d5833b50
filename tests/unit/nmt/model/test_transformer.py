import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.plain_transformer import PlainTransformer, copy_weights
from nmt.base.errors import UserError
from nmt.config import (
    ModelConfig,
    NormPlacement,
    StartEmbedding,
    TiedEmbeddings,
    Timescales,
)
from nmt.model.build import count_parameters, meta_model
from nmt.model.positions import sinusoidal_table
from nmt.model.transformer import Transformer
from tests.support import mask_of, random_ids, tiny_model_config, tiny_transformer

VOCABULARY = 23
PAD = 0


def model_of(**variant: Any) -> Transformer:
    return tiny_transformer(tiny_model_config(**variant), VOCABULARY)


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
