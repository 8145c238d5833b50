import torch

from nmt.config import Architecture, ModelConfig
from nmt.model.comparators.bytenet import ByteNet


def model_of(num_layers: int) -> ByteNet:
    config = ModelConfig(
        architecture=Architecture.bytenet,
        width=16,
        num_encoder_layers=num_layers,
        num_decoder_layers=num_layers,
        dropout=0.0,
    )
    torch.manual_seed(0)
    return ByteNet(config, 23, 23).double().eval()


@torch.no_grad()
def test_the_encoder_output_is_longer_than_the_source_and_then_zero() -> None:
    model = model_of(2)
    source = torch.randint(1, 23, (2, 10))
    mask = torch.arange(10) < torch.tensor([10, 4])[:, None]
    memory = model.encode(source, mask)
    is_used = (memory != 0).any(dim=-1)
    assert is_used.sum(dim=1).tolist() == [12, 5]
    assert is_used[1, :5].all()


@torch.no_grad()
def test_six_blocks_read_the_positions_of_their_dilations() -> None:
    """One position on either side for each of 1, 2, 4, 8, 16 and again 1."""
    model = model_of(6)
    source, mask = torch.randint(1, 23, (1, 100)), torch.ones(1, 100, dtype=torch.bool)
    changed = source.clone()
    changed[0, 50] = source[0, 50] % 22 + 1
    difference = (model.encode(source, mask) - model.encode(changed, mask)).abs().amax(dim=-1)
    reached = difference[0].nonzero()[:, 0]
    assert (int(reached.min()), int(reached.max())) == (50 - 32, 50 + 32)
