"""Recurrent encoder and decoder with attention and residual stacks (GNMT, Wu et al. 2016).

As in section 3 of the paper, the first encoder layer reads in both directions, and residual
connections start at the third layer of each stack. The query of attention is the output of the
bottom decoder layer, and all layers above it read the context.

The query at a position is the output of the bottom layer at this position; in the paper, at the
previous position. The bottom layer reads no context, so each layer computes all target positions in
one call.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import AttentionKind, ModelConfig
from nmt.model.comparators.row_decoder import RowDecoder, RowState
from nmt.model.cpu import Linear
from nmt.model.encoder_decoder import stack

# Index of the first layer with a residual connection (Wu et al. 2016, Figure 1).
_FIRST_RESIDUAL = 2


class MemoryAttention(nn.Module):
    """Attention with one head, whose values are the encoder output h_1 … h_S: c = sum_j a_j h_j.

    The weights are a = softmax(e). The kind determines the score e_j of a decoder state s and h_j:

    - additive: v^T tanh(W s + U h_j) (Bahdanau et al. 2015, section A.1.2).
    - dot: (W s)^T (U h_j), the `general` score of Luong et al. 2015 with the matrix W^T U.
    - scaled_dot: the score of `dot` divided by sqrt(d_k) (Vaswani et al. 2017, section 3.2.1).
    - hard: the additive score, but a is one at the largest score and zero elsewhere. The gradient
      is that of the softmax (straight-through, Bengio et al. 2013), which is biased. The context is
      one h_j, as in the hard attention of Xu et al. 2015, who sample j and estimate the gradient by
      REINFORCE.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.kind = config.attention
        key_width = config.key_width or config.width  # d_k
        self.query = Linear(config.width, key_width)  # W
        # U needs no bias: in dot products, a bias would add the same number to all scores of a
        # query; in the additive score, W already has a bias.
        self.key = Linear(config.width, key_width, bias=False)  # U
        if self.kind in (AttentionKind.additive, AttentionKind.hard):
            self.score = Linear(key_width, 1, bias=False)  # v

    def forward(
        self, states: Tensor, keys: Tensor, memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute the contexts (B, T, D) and the weights (B, T, S) of decoder states (B, T, D).

        The keys are U h_j, (B, S, d_k), `memory` is the encoder output (B, S, D), and `mask` (B, S)
        is True at real tokens.
        """
        query = self.query(states)  # (B, T, d_k)
        if self.kind in (AttentionKind.additive, AttentionKind.hard):
            scores = self.score((query[:, :, None] + keys[:, None]).tanh())[..., 0]  # (B, T, S)
        else:
            scores = query @ keys.transpose(1, 2)  # (B, T, S)
        if self.kind is AttentionKind.scaled_dot:
            scores = scores / math.sqrt(query.size(-1))
        weights = scores.masked_fill(~mask[:, None], -math.inf).softmax(dim=-1)
        if self.kind is AttentionKind.hard:
            chosen = F.one_hot(weights.argmax(dim=-1), weights.size(-1))  # (B, T, S)
            weights = chosen + (weights - weights.detach())
        return weights @ memory, weights


class Recurrent(RowDecoder):
    """Stacks of LSTM layers (Hochreiter and Schmidhuber 1997); see `EncoderDecoder`."""

    attention: MemoryAttention

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        self.num_attention_layers = 1  # the bottom one; all layers above it read its context
        width = config.width
        self.backward_layer = nn.LSTM(width, width, batch_first=True)
        self.encoder = stack(
            nn.LSTM(2 * width if index == 1 else width, width, batch_first=True)
            for index in range(config.num_encoder_layers)
        )
        self.attention = MemoryAttention(config)
        self.decoder = stack(
            nn.LSTM(2 * width if index else width, width, batch_first=True)
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

    def start(self, memory: Tensor, source_mask: Tensor) -> RowState:
        """Return the state before the first position: zeros as output and cell of each layer."""
        zeros = memory.new_zeros(len(memory), len(self.decoder), self.config.width)
        return RowState.start([zeros, zeros], [self.attention.key(memory), memory, source_mask])

    def continued(self, ids: Tensor, state: RowState) -> Tensor:
        """Decode the next T positions: (N, T) → (N, T, D).

        `state.rows` are output and cell (N, L, D) of the L layers at the previous position.
        """
        hidden = self.dropout(self._scaled(self.target_embedding, ids))
        last: list[tuple[Tensor, Tensor]] = []
        context: list[Tensor] = []  # empty for the bottom layer
        for index, layer in enumerate(self.decoder):
            past = tuple(part[:, index][None].contiguous() for part in state.rows)  # (1, N, D)
            outputs, output_and_cell = layer(torch.cat((hidden, *context), dim=-1), past)
            last.append(output_and_cell)
            outputs = self.dropout(outputs)
            hidden = hidden + outputs if index >= _FIRST_RESIDUAL else outputs
            context = context or [state.attend(self.attention, hidden)]
        state.rows = [torch.cat(part).transpose(0, 1) for part in zip(*last, strict=True)]
        return hidden
