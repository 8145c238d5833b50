"""Decoding in fixed shapes: B sentences of K rows, with tensors that never move.

Every sentence is computed in the same shapes, whatever the other sentences of its batch are. On a
GPU, a decoding step can be captured as a CUDA graph, because it never waits for the device.

The row k of a sentence that decodes position p stores keys and values in the slot p · K + k of the
sentence. Slots are never copied; see `nmt.search.captured`.
"""

from itertools import chain

import torch
from torch import Tensor

from nmt.model.attention import added_mask
from nmt.model.decoder_state import LayerCache, StepState
from nmt.model.transformer import Transformer
from nmt.search.rows import RowGrid


class FixedDecoder:
    """A Transformer without experts and attention windows, with its keys and values.

    Args:
        network: the model in evaluation mode.
        num_sentences: the largest B.
        beam_size: K.
        longest_source: the largest length of a source, padding included.
        longest_target: the largest T of `step`.
    """

    def __init__(
        self,
        network: Transformer,
        num_sentences: int,
        beam_size: int,
        longest_source: int,
        longest_target: int,
    ) -> None:
        self.network = network
        config, weight = network.config, network.output_weight
        heads = config.num_heads
        self._head_widths = config.head_key_width, config.head_value_width
        self._numbers = torch.arange(max(beam_size, longest_target), device=weight.device)
        self._sentences = torch.arange(num_sentences, device=weight.device)
        # For each layer, the keys and values of all slots, and of the encoder output.
        slots = num_sentences, longest_target * beam_size, heads
        self._slots = [
            [weight.new_zeros(*slots, width) for width in self._head_widths]
            for _ in network.decoder
        ]
        memory = num_sentences * heads * longest_source
        self._memory = [
            [weight.new_zeros(memory * width) for width in self._head_widths]
            for _ in network.decoder
        ]

    def encode(self, source: Tensor, source_mask: Tensor) -> None:
        """Encode sources (B, S), and store their keys and values for cross-attention.

        The mask of each source is True at one token or more.
        """
        memory = self.network.encode(source, source_mask)
        for index, layer in enumerate(self.network.decoder):
            computed = layer.cross_attention.project_memory(memory)
            for stored, part in zip(self._memory_of(index, source_mask), computed, strict=True):
                stored.copy_(part)

    def clear(self) -> None:
        """Remove NaN from the slots: a masked slot is multiplied by zero, and NaN stays NaN."""
        for part in chain(*self._slots):
            part.zero_()

    def step(
        self, tokens: Tensor, ancestors: Tensor, position: Tensor, source_mask: Tensor
    ) -> Tensor:
        """Decode one target position of every row.

        Args:
            tokens: (B·K,) last token of each row.
            ancestors: (B, K, T) the row whose slot each row reads at each position.
            position: (1,) target position of the tokens, below T.
            source_mask: (B, S) mask of the sources that were encoded last.

        Returns:
            Logits (B·K, V) of the next tokens.
        """
        num_sentences, beam_size, _ = ancestors.shape
        dtype = self.network.output_weight.dtype
        layers = [
            LayerCache(*(part[:num_sentences] for part in parts), *self._memory_of(i, source_mask))
            for i, parts in enumerate(self._slots)
        ]
        first_slots = self._sentences[:num_sentences, None] * self._slots[0][0].size(1)  # (B, 1)
        state = StepState(
            layers,
            source_mask=added_mask(source_mask[:, None, None], dtype),
            grid=RowGrid(num_sentences, beam_size, None),
            written=(first_slots + position * beam_size + self._numbers[:beam_size]).flatten(),
            mask=added_mask(self._attended(ancestors, position)[:, None], dtype),
            position=position,
        )
        return self.network.next_logits(tokens, state)

    def _attended(self, ancestors: Tensor, position: Tensor) -> Tensor:
        """Return the mask (B, K, T·K) of the slots to which each row attends."""
        beam_size, length = ancestors.shape[1:]
        is_read = self._numbers[:length] <= position  # (T,)
        is_ancestor = ancestors[..., None] == self._numbers[:beam_size]  # (B, K, T, K)
        return (is_ancestor & is_read[:, None]).flatten(2)

    def _memory_of(self, layer: int, source_mask: Tensor) -> list[Tensor]:
        """Return the keys and values (B, H, S, E) of a layer for sources of these shapes."""
        (size, length), heads = source_mask.shape, self.network.config.num_heads
        return [
            part[: size * heads * length * width].view(size, heads, length, width)
            for part, width in zip(self._memory[layer], self._head_widths, strict=True)
        ]
