"""Recurrent encoder and decoder with attention and residual stacks (GNMT, Wu et al. 2016).

As in section 3 of the paper, the first encoder layer reads in both directions, and residual
connections start at the third layer of each stack. The query of attention is the output of the
bottom decoder layer, and all layers above it read the context.

The query at a position is the output of the bottom layer at this position; in the paper, at the
previous one. The bottom layer reads no context, so each layer computes all target positions in one
call.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.model.recurrent_attention import MemoryAttention
from nmt.model.row_state import RowState

# Index of the first layer with a residual connection (Wu et al. 2016, Figure 1).
_FIRST_RESIDUAL = 2


class Recurrent(EncoderDecoder[RowState]):
    """Stacks of LSTM layers (Hochreiter and Schmidhuber 1997); see `EncoderDecoder`."""

    def __init__(
        self, config: ModelConfig, source_vocabulary_size: int, target_vocabulary_size: int
    ) -> None:
        super().__init__(config, source_vocabulary_size, target_vocabulary_size)
        width = config.width
        self.backward_layer = _lstm(width, width)
        self.encoder: Sequence[nn.LSTM] = nn.ModuleList(  # type: ignore[assignment]
            _lstm(2 * width if index == 1 else width, width)
            for index in range(config.num_encoder_layers)
        )
        self.attention = MemoryAttention(config)
        self.decoder: Sequence[nn.LSTM] = nn.ModuleList(  # type: ignore[assignment]
            _lstm(2 * width if index else width, width)
            for index in range(config.num_decoder_layers)
        )
        self._initialize()

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Encode ids (B, S) to (B, S, D); padding must be at the end of a source."""
        hidden = self.dropout(self._scaled(self.source_embedding, source))
        # The backward layer reads the real tokens from last to first, and padding after them.
        positions = torch.arange(source.size(1), device=source.device)
        mirrored = source_mask.sum(dim=1, keepdim=True) - 1 - positions  # (B, S)
        mirrored = torch.where(mirrored < 0, positions, mirrored)[..., None].expand_as(hidden)
        backward, _ = self.backward_layer(hidden.gather(1, mirrored))
        for index, layer in enumerate(self.encoder):
            outputs, _ = layer(hidden)
            if index == 0:
                outputs = torch.cat((outputs, backward.gather(1, mirrored)), dim=-1)  # (B, S, 2D)
            outputs = self.dropout(outputs)
            hidden = hidden + outputs if index >= _FIRST_RESIDUAL else outputs
        return hidden

    def decode(self, target_input: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Decode all target positions (B, T) at once to (B, T, D)."""
        keys = self.attention.key(memory)
        hidden, _ = self._decode(
            target_input,
            self._zeros(memory),
            lambda states: self.attention(states, keys, memory, source_mask)[0],
        )
        return hidden

    def start(self, memory: Tensor, source_mask: Tensor) -> RowState:
        """Return the state before the first decoding step, with one row per sentence."""
        shared = [self.attention.key(memory), memory, source_mask]
        return RowState.start(self._zeros(memory), shared)

    def step(self, tokens: Tensor, state: RowState) -> tuple[Tensor, RowState]:
        """Decode one target position of every row: tokens (N,) → logits (N, V)."""
        attend = partial(state.attend, self.attention)
        hidden, state.rows = self._decode(tokens[:, None], state.rows, attend)
        state.position += 1
        return self.project(hidden[:, 0]), state

    def attention_maps(
        self, source: Tensor, source_mask: Tensor, target_input: Tensor
    ) -> dict[str, list[Tensor]]:
        """Compute the attention weights `cross`: (B, 1, T, S) of the only layer with attention."""
        return self._cross_attention_maps(self.attention, source, source_mask, target_input)

    @property
    def num_attention_layers(self) -> int:
        """Number of layers that compute attention: one, whose context all layers above read."""
        return 1

    def _zeros(self, memory: Tensor) -> list[Tensor]:
        """Return output and cell (B, L, D) of all decoder layers before the first position."""
        zeros = memory.new_zeros(len(memory), len(self.decoder), self.config.width)
        return [zeros, zeros]

    def _decode(
        self, ids: Tensor, rows: list[Tensor], attend: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Decode the next T positions.

        Args:
            ids: (N, T).
            rows: output and cell (N, L, D) of the L LSTM layers at the previous position.
            attend: function from outputs (N, T, D) of the bottom layer to contexts (N, T, D).

        Returns:
            Outputs of the top layer (N, T, D), and `rows` at the last position.
        """
        hidden = self.dropout(self._scaled(self.target_embedding, ids))
        states: list[tuple[Tensor, Tensor]] = []
        context: list[Tensor] = []  # empty for the bottom layer
        for index, layer in enumerate(self.decoder):
            given = tuple(part[:, index][None].contiguous() for part in rows)  # (1, N, D) each
            outputs, state = layer(torch.cat((hidden, *context), dim=-1), given)
            states.append(state)
            outputs = self.dropout(outputs)
            hidden = hidden + outputs if index >= _FIRST_RESIDUAL else outputs
            context = context or [attend(hidden)]
        return hidden, [torch.cat(part).transpose(0, 1) for part in zip(*states, strict=True)]


def _lstm(input_width: int, width: int) -> nn.LSTM:
    return nn.LSTM(input_width, width, batch_first=True)
