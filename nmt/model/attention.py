"""Multi-head attention (Vaswani et al. 2017, section 3.2) and its key-value cache."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model.dropout import Dropout
from nmt.model.linear import Linear
from nmt.model.positions import RotaryRotation

# On recent GPUs torch likes cuDNN best, which makes a plan for each new shape, in tens of
# milliseconds and more; batches have all shapes.
torch.backends.cuda.enable_cudnn_sdp(False)


def reference_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: Dropout | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(Q K^T / sqrt(d_k)) V, the paper's equation 1, step by step.

    For reading, for the tests, for attention maps and, on CPUs, for attention with dropout; else
    training and decoding compute the same by `scaled_dot_product_attention`.

    Args:
        query: (B, H, T, d_k).
        key: (B, H, S, d_k).
        value: (B, H, S, d_v).
        mask: broadcastable to (B, H, T, S), True where a query may attend.
        dropout: of the weights that values are summed by.

    Returns:
        The (B, H, T, d_v) output and the (B, H, T, S) weights, each row of which sums to one.
    """
    similarity = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, T, S)
    if mask is not None:
        similarity = similarity.masked_fill(~mask, -torch.inf)
    weights = similarity.softmax(dim=-1)
    kept = weights if dropout is None else dropout(weights)
    return kept @ value, weights


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """(T, T) mask: position t may attend to positions 0 … t (section 3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


class KeyValueCache:
    """Keys and values of the target tokens of B sentences, in M slots a sentence.

    The hypotheses of a sentence share its slots, so that nothing is put in order when they change
    places: `nmt.model.slots` knows whose token stands where.

    Args:
        num_sentences: B.
        num_slots: M.
        num_heads: H.
        key_width: d_k.
        value_width: d_v.
        like: a tensor of the type and on the device to use.

    Attributes:
        keys: (B, M, H, d_k).
        values: (B, M, H, d_v).
    """

    def __init__(
        self,
        num_sentences: int,
        num_slots: int,
        num_heads: int,
        key_width: int,
        value_width: int,
        like: Tensor,
    ) -> None:
        # Zeros: slots that nobody may attend to are read too, and must be numbers.
        self.keys = like.new_zeros(num_sentences, num_slots, num_heads, key_width)
        self.values = like.new_zeros(num_sentences, num_slots, num_heads, value_width)

    def put(self, places: Tensor, key: Tensor, value: Tensor) -> None:
        """Fill the places (N,) among all B·M slots with (N, H, 1, d_k) and (N, H, 1, d_v)."""
        for slots, vectors in ((self.keys, key), (self.values, value)):
            slots.flatten(0, 1).index_copy_(0, places, vectors[:, :, 0])

    def first(self, num_slots: int) -> tuple[Tensor, Tensor]:
        """Keys (B, H, M', d_k) and values (B, H, M', d_v) of the first M' slots."""
        return (
            self.keys[:, :num_slots].transpose(1, 2),
            self.values[:, :num_slots].transpose(1, 2),
        )

    def resize(self, num_slots: int) -> None:
        """Add slots to each sentence, or forget the last ones."""
        missing = num_slots - self.keys.size(1)
        if missing:
            self.keys = F.pad(self.keys, (0, 0, 0, 0, 0, missing))
            self.values = F.pad(self.values, (0, 0, 0, 0, 0, missing))

    def keep(self, sentences: Tensor) -> None:
        """Keep sentences (B',)."""
        self.keys = self.keys.index_select(0, sentences)
        self.values = self.values.index_select(0, sentences)

    def add_sentences(self, count: int) -> None:
        """Put sentences behind the present ones."""
        self.keys = F.pad(self.keys, (0, 0, 0, 0, 0, 0, 0, count))
        self.values = F.pad(self.values, (0, 0, 0, 0, 0, 0, 0, count))


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O (section 3.2.2).

    Args:
        width: D.
        num_heads: H.
        key_width: d_k of one head.
        value_width: d_v of one head.
        dropout: rate on the attention weights.
        rotation: turns queries and keys by their position; None leaves them.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        key_width: int,
        value_width: int,
        dropout: float,
        rotation: RotaryRotation | None = None,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.widths = (num_heads * key_width, num_heads * key_width, num_heads * value_width)
        self.dropout = Dropout(dropout)
        self.rotation = rotation
        self.query = Linear(width, num_heads * key_width)  # W^Q of all heads side by side
        self.key = Linear(width, num_heads * key_width)  # W^K
        self.value = Linear(width, num_heads * value_width)  # W^V
        self.output = Linear(num_heads * value_width, width)  # W^O

    def forward(
        self, queries: Tensor, memory: Tensor, mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """Let each of (B, T, D) queries attend to (B, S, D) memory.

        Args:
            queries: what attends.
            memory: what is attended to; `queries` itself in self-attention.
            mask: broadcastable to (B, H, T, S), True where a query may attend.
            is_causal: position t attends to 0 … t only; not together with `mask`.

        Returns:
            (B, T, D).
        """
        if queries is memory:
            query, key, value = self.project_itself(queries, first=0)
        else:
            query = self.project_query(queries, first=0)
            key, value = self.project_memory(memory, first=0)
        attended: Tensor = self.output(self.mix(query, key, value, mask, is_causal))
        return attended

    def weights(self, queries: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        """The (B, H, T, S) attention weights of `forward`, by the reference implementation."""
        query = self.project_query(queries, first=0)
        key, value = self.project_memory(memory, first=0)
        return reference_attention(query, key, value, mask)[1]

    def project_query(self, queries: Tensor, first: int | Tensor) -> Tensor:
        """(B, T, D) → (B, H, T, d_k) for positions first, first + 1, …; `first` may be (B,)."""
        heads = self.split_heads(self.query(queries))
        return heads if self.rotation is None else self.rotation(heads, first)

    def project_memory(self, memory: Tensor, first: int | Tensor) -> tuple[Tensor, Tensor]:
        """(B, S, D) → keys (B, H, S, d_k) and values (B, H, S, d_v)."""
        key = self.split_heads(self.key(memory))
        if self.rotation is not None:
            key = self.rotation(key, first)
        return key, self.split_heads(self.value(memory))

    def project_itself(self, hidden: Tensor, first: int | Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, L, D) → queries, keys and values of what attends to itself."""
        return self.project_query(hidden, first), *self.project_memory(hidden, first)

    def mix(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Attention over heads, side by side, before W^O: (B, H, T, d_k) → (B, T, H · d_v)."""
        rate = self.dropout.rate if self.training else 0.0
        if rate and query.device.type == "cpu" and query.dtype is torch.float32:
            # torch's own goes step by step there, too, and by its slow dropout.
            if is_causal:
                mask = causal_mask(query.size(2))
            heads, _ = reference_attention(query, key, value, mask, self.dropout)
            return heads.transpose(1, 2).flatten(2)
        heads = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=rate,
            is_causal=is_causal,
        )  # (B, H, T, d_v)
        return heads.transpose(1, 2).flatten(2)

    def split_heads(self, projected: Tensor) -> Tensor:
        """(B, L, H · E) → (B, H, L, E)."""
        batch_size, length, _ = projected.shape
        return projected.view(batch_size, length, self.num_heads, -1).transpose(
            1, 2
        )  # (B, H, L, E)
