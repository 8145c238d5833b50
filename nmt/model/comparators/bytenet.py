"""ByteNet, dilated convolutions without attention (Kalchbrenner et al. 2017)."""

from collections.abc import Sequence
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.base.errors import UserError
from nmt.config import ModelConfig
from nmt.model.comparators.convolution import Convolution
from nmt.model.comparators.row_decoder import RowDecoder, RowState
from nmt.model.cpu import Dropout, Linear
from nmt.model.encoder_decoder import stack

_Length = TypeVar("_Length", int, Tensor)
# Dilations of the first five blocks; later blocks repeat them (section 3.5).
_DILATIONS = (1, 2, 4, 8, 16)
# Positions of the encoder output per 100 source tokens (section 3.2: a = 1.2, b = 0).
_LENGTH_PERCENT = 120


class ResidualBlock(nn.Module):
    """Residual block with ReLUs (Figure 3, left): 1 × 1, dilated and 1 × 1 convolution.

    Layer normalization and a ReLU precede each convolution. The dilated convolution has half of the
    model's width.
    """

    def __init__(self, config: ModelConfig, dilation: int) -> None:
        super().__init__()
        outer, inner = config.width, config.width // 2
        self.norm = nn.LayerNorm(outer)
        self.reduce = Linear(outer, inner)
        self.reduced_norm = nn.LayerNorm(inner)
        self.convolution = Convolution(inner, inner, config.kernel_width, dilation)
        self.convolved_norm = nn.LayerNorm(inner)
        self.expand = Linear(inner, outer)
        self.dropout = Dropout(config.dropout)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Apply the block: (B, S', D) → (B, S', D); see `Convolution.forward`."""
        return self._residual(hidden, self.convolution(self._reduced(hidden), mask))

    def continued(self, hidden: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """Apply the block to the next T positions; see `Convolution.continued`."""
        outputs, past = self.convolution.continued(self._reduced(hidden), past)
        return self._residual(hidden, outputs), past

    def _reduced(self, hidden: Tensor) -> Tensor:
        inner = self.reduce(F.relu(self.norm(hidden)))
        return F.relu(self.reduced_norm(inner))

    def _residual(self, hidden: Tensor, outputs: Tensor) -> Tensor:
        return hidden + self.dropout(self.expand(F.relu(self.convolved_norm(outputs))))


class ByteNet(RowDecoder):
    """An encoder, and a decoder that reads the encoder output position by position.

    The encoder output of a source with n tokens has 1.2 n positions, rounded up (dynamic unfolding,
    section 3.2): the encoder reads zeros after the tokens. The decoder reads target input t and
    position t of the encoder output together. At padding and after the last position, the decoder
    reads zeros, so it needs no source mask.

    The paper's model reads characters; this one reads subwords. The paper does not state how the
    encoder output enters the decoder; here, a linear layer combines it with the target embedding.
    """

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        self.num_attention_layers = 0
        self.encoder = _blocks(config, config.num_encoder_layers)
        self.encoder_norm = nn.LayerNorm(config.width)
        self.join = Linear(2 * config.width, config.width)
        self.decoder = _blocks(config, config.num_decoder_layers)
        self.decoder_norm = nn.LayerNorm(config.width)
        self.output = Linear(config.width, config.width)
        self._initialize()

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Encode ids (B, S) → (B, S', D) with S' = 1.2 S, rounded up."""
        real = source_mask[..., None]  # (B, S, 1)
        embedded = self.dropout(self._scaled(self.source_embedding, source)) * real
        length = _unfolded(source.size(1))
        hidden = F.pad(embedded, (0, 0, 0, length - source.size(1)))  # (B, S', D)
        lengths = _unfolded(source_mask.sum(dim=1, keepdim=True))  # (B, 1)
        mask = torch.arange(length, device=source.device) < lengths  # (B, S')
        for block in self.encoder:
            hidden = block(hidden, mask)
        return self.encoder_norm(hidden) * mask[..., None]

    def start(self, memory: Tensor, source_mask: Tensor) -> RowState:  # noqa: ARG002
        """Return the first state; its `rows` are the past inputs of each convolution."""
        pasts = [block.convolution.no_past(memory) for block in self.decoder]
        return RowState.start(pasts, [memory])

    def continued(self, ids: Tensor, state: RowState) -> Tensor:
        """Decode the next T positions: (N, T) → (N, T, D)."""
        first, number = state.position, ids.size(1)
        columns = state.shared[0][:, first : first + number]  # (B, T', D)
        columns = F.pad(columns, (0, 0, 0, number - columns.size(1)))  # zeros after the last one
        columns = columns.index_select(0, state.sentences)  # (N, T, D)
        embedded = self.dropout(self._scaled(self.target_embedding, ids))
        hidden = self.join(torch.cat((embedded, columns), dim=-1))
        for index, block in enumerate(self.decoder):
            hidden, state.rows[index] = block.continued(hidden, state.rows[index])
        return F.relu(self.output(self.decoder_norm(hidden)))

    def attention_maps(self, *_: Tensor) -> dict[str, list[Tensor]]:
        """Raise UserError: there is no attention."""
        raise UserError(
            "model.architecture=bytenet has no attention; use a model of another architecture"
        )


def _blocks(config: ModelConfig, number: int) -> Sequence[ResidualBlock]:
    dilations = (_DILATIONS[index % len(_DILATIONS)] for index in range(number))
    return stack(ResidualBlock(config, dilation) for dilation in dilations)


def _unfolded(length: _Length) -> _Length:
    """Return the number of positions of the encoder output for `length` source tokens."""
    return (length * _LENGTH_PERCENT + 99) // 100
