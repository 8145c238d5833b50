import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from nmt.config import (
    Architecture,
    ModelConfig,
    NormPlacement,
    Positions,
    TiedEmbeddings,
)
from nmt.model.build import build_model, count_parameters, meta_model
from nmt.model.cost import Processed, training_flops
from nmt.model.transformer import Transformer
from tests.support import tiny_model_config


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"key_width": 6, "value_width": 10, "num_encoder_layers": 1, "num_decoder_layers": 3},
        {"tied_embeddings": TiedEmbeddings.none, "norm": NormPlacement.pre},
        {"positions": Positions.rotary, "attention_dropout": 0.1},
        {"num_experts": 5},
        *({"attention_window": window} for window in (1, 2, 3, 6, 9)),
        {"architecture": Architecture.convolutional},
        # 1.2 times the FLOPs of a position are a whole number.
        {"architecture": Architecture.bytenet, "width": 20},
    ],
)
def test_training_flops_equal_those_that_torch_counts(changes: dict[str, object]) -> None:
    config = tiny_model_config(**changes)
    model = build_model(config, 23, 23)
    source = torch.randint(4, 23, (3, 10))
    target = torch.randint(4, 23, (3, 5))
    is_token = torch.ones(3, 5, dtype=torch.bool)
    is_token[1, 3:] = False
    # torch counts only its own products, and attention only where it consists of them.
    with (
        sdpa_kernel(SDPBackend.MATH),
        torch.backends.mkldnn.flags(enabled=False),  # type: ignore[no-untyped-call]
        FlopCounterMode(display=False) as counter,
    ):
        hidden = model(source, torch.ones(3, 10, dtype=torch.bool), target)
        F.cross_entropy(model.project(hidden[is_token]), target[is_token]).backward()
    processed = Processed.of([(3, 10, 5)], 13, config.attention_window)
    assert training_flops(config, 23, processed) == counter.get_total_flops()


@torch.no_grad()
def test_forward_flops_of_a_recurrent_model_equal_those_that_torch_counts() -> None:
    """Backwards, torch counts less: the states before the first position have no gradient."""
    config = tiny_model_config(architecture=Architecture.recurrent, num_encoder_layers=3)
    model = build_model(config, 23, 23)
    source, target = torch.randint(4, 23, (3, 7)), torch.randint(4, 23, (3, 5))
    with (
        torch.backends.mkldnn.flags(enabled=False),  # type: ignore[no-untyped-call]
        FlopCounterMode(display=False) as counter,
    ):
        model.project(model(source, torch.ones(3, 7, dtype=torch.bool), target))
    processed = Processed.of([(3, 7, 5)], num_target_tokens=15)
    assert training_flops(config, 23, processed) == 3 * counter.get_total_flops()


def test_flops_of_the_base_model_are_six_per_weight_and_token() -> None:
    """Without attention, a token costs 6 FLOPs for each weight that it is multiplied by.

    The base model has 63 M weights in matrices with a vocabulary of 37,000. A source token meets
    the encoder and the decoder's cross-attention keys and values, a target token all others.
    """
    config = ModelConfig()
    one = Processed(source=1, target=1, projected=1)
    weights = 6 * (4 * 512**2 + 2 * 512 * 2048) + 6 * (8 * 512**2 + 2 * 512 * 2048) + 512 * 37_000
    assert training_flops(config, 37_000, one) == 6 * weights
    assert round(weights / 1e6) == 63


@pytest.mark.parametrize(
    ("model", "updates", "printed", "times"),
    [
        (ModelConfig(), 100_000, 3.3e18, 3.46),
        (ModelConfig(width=1024, num_heads=16, feed_forward_width=4096), 300_000, 2.3e19, 2.38),
    ],
)
def test_flops_of_the_papers_trainings(
    model: ModelConfig, updates: int, printed: float, times: float
) -> None:
    """The paper prints time on eight P100 · 9.5e12, which is more than the products (Table 2)."""
    tokens, length = 25_000, 28  # of each side of an update, and of a sentence
    squares = tokens * length
    processed = Processed(tokens, tokens, squares, squares, squares, tokens)
    flops = training_flops(model, 37_000, processed) * updates
    assert printed / flops == pytest.approx(times, abs=0.01)


def test_a_meta_transformer_has_the_parameters_of_the_model_and_no_memory() -> None:
    config = tiny_model_config(tied_embeddings=TiedEmbeddings.target)
    model = meta_model(config, 11, 13)
    assert count_parameters(model) == count_parameters(Transformer(config, 11, 13))
    assert {tensor.device.type for tensor in model.state_dict().values()} == {"meta"}
