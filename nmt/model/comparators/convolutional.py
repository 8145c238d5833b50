"""ConvS2S, a convolutional encoder and decoder with attention (Gehring et al. 2017)."""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.model.comparators.convolution import Convolution
from nmt.model.comparators.row_decoder import RowDecoder, RowState
from nmt.model.cpu import Dropout, Linear
from nmt.model.encoder_decoder import stack

# Factor that gives a sum of two terms the variance of one of them (section 3.4).
_SCALE = math.sqrt(0.5)
_EMBEDDING_STD = 0.1


class GatedConvolution(nn.Module):
    """Dropout, convolution and gated linear unit with a residual connection (section 3.2).

    h' = (h + A ⊗ sigmoid(B)) · sqrt(0.5), where [A; B] is the convolution of h.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dropout = Dropout(config.dropout)
        self.convolution = Convolution(config.width, 2 * config.width, config.kernel_width)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Apply the block: (B, L, D) → (B, L, D); `mask` (B, L) is True at real tokens."""
        return self._residual(hidden, self.convolution(self.dropout(hidden), mask))

    def continued(self, hidden: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """Apply the block to the next T positions; see `Convolution.continued`."""
        outputs, past = self.convolution.continued(self.dropout(hidden), past)
        return self._residual(hidden, outputs), past

    def _residual(self, hidden: Tensor, outputs: Tensor) -> Tensor:
        return (hidden + F.glu(outputs)) * _SCALE


class DotAttention(nn.Module):
    """Dot-product attention (equation 2, scaled as in section 3.4).

    c_i = sqrt(m) sum_j a_ij v_j with a_i = softmax(d_i^T z).
    """

    def forward(self, queries: Tensor, memory: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the contexts (B, T, D) and the weights (B, T, S) of queries d_i, (B, T, D).

        `memory` is [z_j; v_j], (B, S, 2 D), and `mask` (B, S) is True at the m real tokens.
        """
        keys, values = memory.chunk(2, dim=-1)
        scores = queries @ keys.transpose(1, 2)  # (B, T, S)
        weights = scores.masked_fill(~mask[:, None], -math.inf).softmax(dim=-1)
        # The mean of m vectors has 1 / m of their variance (section 3.4).
        scale = mask.sum(dim=1).to(values.dtype).sqrt()[:, None, None]
        return weights @ values * scale, weights


class DecoderLayer(nn.Module):
    """Gated convolution, then attention with the query d = W_d h + b_d + g (equation 1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gated = GatedConvolution(config)
        self.query = Linear(config.width, config.width)

    def forward(
        self, hidden: Tensor, embedded: Tensor, past: Tensor, attend: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Apply the layer to the next T positions; see `Convolution.continued`.

        `hidden` is the output (N, T, D) of the layer below, `embedded` is g, the embedded target
        inputs (N, T, D), and `attend` computes contexts (N, T, D) of queries (N, T, D).
        """
        hidden, past = self.gated.continued(hidden, past)
        return (hidden + attend(self.query(hidden) + embedded)) * _SCALE, past


class Convolutional(RowDecoder):
    """Stacks of gated convolutions, with attention to the encoder output in every decoder layer.

    The paper's linear maps between embeddings and layers are left out, because both have the same
    width. Weight normalization and the scaling of the encoder's gradients are left out, because the
    optimizer is adaptive. The encoder output (B, S, 2 D) contains keys z_j and values v_j. A value
    is the sum of z_j and the embedded source token, times sqrt(0.5).
    """

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        self.source_positions = nn.Embedding(config.max_length, config.width)
        self.target_positions = nn.Embedding(config.max_length, config.width)
        self.encoder = stack(GatedConvolution(config) for _ in range(config.num_encoder_layers))
        self.attention = DotAttention()
        self.decoder = stack(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        self._initialize()
        self._initialize_to_keep_variance()

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Encode (B, S) ids to (B, S, 2 D)."""
        embedded = self._embed(self.source_embedding, self.source_positions, source)
        hidden = embedded
        for layer in self.encoder:
            hidden = layer(hidden, source_mask)
        return torch.cat((hidden, (hidden + embedded) * _SCALE), dim=-1)

    def start(self, memory: Tensor, source_mask: Tensor) -> RowState:
        """Return the first state; its `rows` are the past inputs of each convolution."""
        pasts = [layer.gated.convolution.no_past(memory) for layer in self.decoder]
        return RowState.start(pasts, [memory, source_mask])

    def continued(self, ids: Tensor, state: RowState) -> Tensor:
        """Decode the next T positions: (N, T) → (N, T, D), outputs of the top layer."""
        positions, attend = self.target_positions, partial(state.attend, self.attention)
        embedded = self._embed(self.target_embedding, positions, ids, state.position)
        hidden = embedded
        for index, layer in enumerate(self.decoder):
            hidden, state.rows[index] = layer(hidden, embedded, state.rows[index], attend)
        return self.dropout(hidden)

    def _embed(
        self, embedding: nn.Embedding, positions: nn.Embedding, ids: Tensor, first: int = 0
    ) -> Tensor:
        """Embed ids (B, L), whose positions begin at `first`: (B, L, D) (section 3.1)."""
        return self.dropout(embedding(ids) + positions.weight[first : first + ids.size(1)])

    def _initialize_to_keep_variance(self) -> None:
        """Draw embeddings and convolutions so that activations keep their variance (section 3.5).

        A gated linear unit divides the variance by 4, and dropout divides it by the share kept.
        """
        for module in self.modules():
            if isinstance(module, Convolution):
                weight, kept = module.linear.weight, 1 - self.config.dropout
                nn.init.normal_(weight, std=math.sqrt(4 * kept / weight.size(1)))
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=_EMBEDDING_STD)
