"""Attention of the recurrent model: additive, dot product, scaled dot product or hard."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import AttentionKind, ModelConfig
from nmt.model.cpu import Linear


class MemoryAttention(nn.Module):
    """Attention with one head, whose values are the encoder output h_1 … h_S: c = sum_j a_j h_j.

    The weights are a = softmax(e). The kind determines the score e_j of a decoder state s and h_j:

    - additive: v^T tanh(W s + U h_j) (Bahdanau et al. 2015, section A.1.2).
    - dot: (W s)^T (U h_j), the general product of Luong et al. 2015 with a factored matrix.
    - scaled_dot: the score of `dot` divided by sqrt(d_k) (Vaswani et al. 2017, section 3.2.1).
    - hard: the additive score, but a is one at the largest score and zero elsewhere. The gradient
      is that of the softmax (straight-through, Bengio et al. 2013), which is biased. The context is
      one h_j, as in the hard attention of Xu et al. 2015, who sample j and estimate the gradient by
      REINFORCE.

    Args:
        config: D, d_k and the kind of attention.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.kind = config.attention
        key_width = config.key_width or config.width  # d_k
        self.query = Linear(config.width, key_width)  # W
        # A bias of U would have no effect: it would add the same number to all dot products of a
        # query. In the additive score, the bias of W does the same.
        self.key = Linear(config.width, key_width, bias=False)  # U
        if self.kind in (AttentionKind.additive, AttentionKind.hard):
            self.score = Linear(key_width, 1, bias=False)  # v

    def forward(
        self, states: Tensor, keys: Tensor, memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute the contexts (B, T, D) and the weights (B, T, S).

        Args:
            states: decoder states s, (B, T, D).
            keys: U h_j, (B, S, d_k).
            memory: encoder output (B, S, D).
            mask: (B, S), True at real tokens.
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
