import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from nmt.config import ModelConfig, NormPlacement, Positions, TiedEmbeddings
from nmt.model.cost import Processed, micro_batch, training_flops
from nmt.model.transformer import Transformer
from tests.support import tiny_model_config


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"key_width": 6, "value_width": 10, "num_encoder_layers": 1, "num_decoder_layers": 3},
        {"tied_embeddings": TiedEmbeddings.none, "norm": NormPlacement.pre},
        {"positions": Positions.rotary},
    ],
)
def test_torch_counts_as_many(changes: dict[str, object]) -> None:
    config = tiny_model_config(**changes)
    model = Transformer(config, 23, 23)
    source = torch.randint(4, 23, (3, 7))
    target = torch.randint(4, 23, (3, 5))
    real = torch.ones(3, 5, dtype=torch.bool)
    real[1, 3:] = False
    # torch knows the cost of attention only where it is made of matrix products, and of products
    # only where they are its own.
    with (
        sdpa_kernel(SDPBackend.MATH),
        torch.backends.mkldnn.flags(enabled=False),  # type: ignore[no-untyped-call]
        FlopCounterMode(display=False) as counter,
    ):
        hidden = model(source, torch.ones(3, 7, dtype=torch.bool), target)
        F.cross_entropy(model.project(hidden[real]), target[real]).backward()
    processed = micro_batch(rows=3, source=7, target=5, num_target_tokens=13)
    assert training_flops(config, 23, processed) == counter.get_total_flops()
    twice = micro_batch(rows=3, source=7, target=5, num_target_tokens=13, num_passes=2)
    assert training_flops(config, 23, twice) == 2 * counter.get_total_flops()


def test_micro_batches_add_up() -> None:
    first, second = micro_batch(2, 3, 4, 7), micro_batch(1, 5, 2, 2)
    assert first + second == Processed(6 + 5, 8 + 2, 18 + 25, 32 + 4, 24 + 10, 7 + 2)
    config = tiny_model_config()
    both = training_flops(config, 23, first + second)
    assert both == sum(training_flops(config, 23, one) for one in (first, second))


def test_the_papers_base_model_by_its_parameters() -> None:
    """Without attention a token costs 6 operations a weight that it meets, forward and backward.

    Base has 63 M weights in matrices with a vocabulary of 37,000. A source token meets the encoder
    and the decoder's W^K and W^V of cross-attention, a target token all the rest.
    """
    config = ModelConfig()
    one = Processed(source=1, target=1, projected=1)
    weights = 6 * (4 * 512**2 + 2 * 512 * 2048) + 6 * (8 * 512**2 + 2 * 512 * 2048) + 512 * 37_000
    assert training_flops(config, 37_000, one) == 6 * weights
    assert round(weights / 1e6) == 63
