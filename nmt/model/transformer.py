"""The encoder-decoder Transformer of "Attention Is All You Need" (Vaswani et al. 2017)."""

from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import ModelConfig, NormPlacement, Positions, StartEmbedding
from nmt.data.batch import Segments
from nmt.model.attention import MultiHeadAttention, added_mask, causal_mask, same_segment
from nmt.model.decoder_state import DecoderState, LayerCache, StepState
from nmt.model.encoder_decoder import EncoderDecoder, stack
from nmt.model.layers import DecoderLayer, EncoderLayer
from nmt.model.positions import AddedPositions, RotaryPositions


class Transformer(EncoderDecoder[DecoderState]):
    """Self-attention, cross-attention and feed-forward layers; see `EncoderDecoder`."""

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        is_rotary = config.positions is Positions.rotary
        rotary = RotaryPositions(config.max_length, config.head_key_width) if is_rotary else None
        self.source_positions = None if is_rotary else AddedPositions(config)
        self.target_positions = None if is_rotary else AddedPositions(config)
        self.encoder = stack(EncoderLayer(config, rotary) for _ in range(config.num_encoder_layers))
        self.decoder = stack(DecoderLayer(config, rotary) for _ in range(config.num_decoder_layers))
        # A post-norm layer ends with a norm; a pre-norm stack needs one after its last sum.
        is_pre_norm = config.norm is NormPlacement.pre
        self.encoder_norm = nn.LayerNorm(config.width) if is_pre_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.width) if is_pre_norm else nn.Identity()
        self._initialize()

    def forward(
        self,
        source: Tensor,
        source_mask: Tensor,
        target_input: Tensor,
        segments: Segments | None = None,
    ) -> Tensor:
        """Encode source ids (B, S), and decode target ids (B, T) to (B, T, D).

        In rows of packed pairs, which `segments` describes, each pair is computed as if alone.
        """
        memory = self.encode(source, source_mask, segments)
        return self.decode(target_input, memory, source_mask, segments)

    def encode(
        self, source: Tensor, source_mask: Tensor, segments: Segments | None = None
    ) -> Tensor:
        """Encode (B, S) ids to (B, S, D)."""
        mask = source_mask[:, None, None]  # (B, 1, 1, S)
        positions: int | Tensor = 0
        if segments is not None:
            mask = same_segment(segments.source, segments.source)  # (B, 1, S, S)
            positions = segments.source_positions
        scaled = self._scaled(self.source_embedding, source)
        hidden = self._with_positions(scaled, self.source_positions, positions)
        for layer in self.encoder:
            hidden = layer(hidden, mask, positions)
        return self.encoder_norm(hidden)

    def decode(
        self,
        target_input: Tensor,
        memory: Tensor,
        source_mask: Tensor,
        segments: Segments | None = None,
    ) -> Tensor:
        """Decode all target positions (B, T) at once to (B, T, D)."""
        cross_mask, self_mask = source_mask[:, None, None], None  # (B, 1, 1, S)
        positions: int | Tensor = 0
        if segments is not None:
            target, positions = segments.target, segments.target_positions
            # Padding attends to everything: a softmax of no scores is NaN.
            is_padding = (target == 0)[:, None, :, None]
            cross_mask = same_segment(target, segments.source) | is_padding  # (B, 1, T, S)
            is_causal = causal_mask(target.size(1), target.device)
            self_mask = same_segment(target, target) & is_causal  # (B, 1, T, T)
        hidden = self._embed_target(target_input, positions)
        for layer in self.decoder:
            hidden = layer(hidden, memory, cross_mask, self_mask, positions)
        return self.decoder_norm(hidden)

    def start(self, memory: Tensor, source_mask: Tensor) -> DecoderState:
        """Return the state before the first decoding step, with one row per sentence."""
        projected = [layer.cross_attention.project_memory(memory) for layer in self.decoder]
        layers = [LayerCache.empty(keys, values) for keys, values in projected]
        added = added_mask(source_mask[:, None, None], memory.dtype)
        return DecoderState.start(layers, added, self.config.attention_window)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Decode one target position of every row: tokens (N,) → logits (N, V)."""
        state.allocate()
        logits = self.next_logits(tokens, state)
        state.position += 1
        return logits, state

    def next_logits(self, tokens: Tensor, state: StepState) -> Tensor:
        """Decode one target position of every row: tokens (N,) → logits (N, V)."""
        hidden = self._embed_target(tokens[:, None], state.position)[:, 0]  # (N, D)
        for layer, cache in zip(self.decoder, state.layers, strict=True):
            hidden = layer.step(hidden, cache, state)
        return self.project(self.decoder_norm(hidden))

    def attention_maps(
        self, source: Tensor, source_mask: Tensor, target_input: Tensor
    ) -> dict[str, list[Tensor]]:
        """Compute the attention weights of every layer; see `EncoderDecoder`."""
        maps: dict[str, list[Tensor]] = {"encoder": [], "decoder": [], "cross": []}

        def record(
            name: str, layer: MultiHeadAttention, inputs: tuple[Any, ...], options: dict[str, Any]
        ) -> None:
            maps[name].append(layer.weights(*inputs, **options))

        network = self.with_own_hooks()  # its layers are not compiled
        with ExitStack() as hooks:
            for path, module in network.named_modules():
                if isinstance(module, MultiHeadAttention):
                    name = "cross" if path.endswith("cross_attention") else path.split(".")[0]
                    hook = partial(record, name)
                    hooks.enter_context(module.register_forward_pre_hook(hook, with_kwargs=True))
            network(source, source_mask, target_input)
        return maps

    def compile_layers(self, is_dynamic: bool) -> None:
        """Compile each layer at its first call, for its shapes, or for any if `is_dynamic`."""
        # torch compiles a layer again for each size of packed micro-batches, and of buckets for
        # example for lengths that are multiples of eight. After 64 versions of one kind of layer,
        # other shapes run uncompiled.
        torch._dynamo.config.recompile_limit = 64
        for layer in (*self.encoder, *self.decoder):
            layer.compile(dynamic=is_dynamic)

    def _embed_target(self, ids: Tensor, first: int | Tensor = 0) -> Tensor:
        """Embed target inputs (B, L) to (B, L, D).

        Their positions begin at `first`, or are given as a tensor (B, L). With model.start=zero,
        the embedding of position 0 is zero, before positions are added.
        """
        scaled = self._scaled(self.target_embedding, ids)
        if self.config.start is StartEmbedding.zero:
            if isinstance(first, Tensor):
                scaled = scaled.masked_fill((first == 0)[..., None], 0.0)
            elif first == 0:
                scaled = F.pad(scaled[:, 1:], (0, 0, 1, 0))
        return self._with_positions(scaled, self.target_positions, first)

    def _with_positions(
        self, scaled: Tensor, positions: AddedPositions | None, first: int | Tensor = 0
    ) -> Tensor:
        """Add `positions`, if any, from `first` on to embeddings (B, L, D); apply dropout."""
        if positions is not None:
            scaled = positions(scaled, first)
        return self.dropout(scaled)
