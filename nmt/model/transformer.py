"""The encoder-decoder Transformer of "Attention Is All You Need" (Vaswani et al. 2017)."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.base.errors import UserError
from nmt.config import ModelConfig, NormPlacement, Positions, StartEmbedding, TiedEmbeddings
from nmt.model.attention import MultiHeadAttention
from nmt.model.cpu import Dropout, Linear
from nmt.model.decoder_state import DecoderState, LayerCache
from nmt.model.layers import DecoderLayer, EncoderLayer
from nmt.model.positions import AddedPositions, RotaryPositions


class Transformer(nn.Module):
    """Embeddings, encoder, decoder and output projection.

    Args:
        config: sizes and variants.
        source_vocabulary_size: V of the source.
        target_vocabulary_size: V of the target; the same with three-way tied embeddings.

    Raises:
        UserError: embeddings are tied three ways, but the vocabularies differ in size.
    """

    def __init__(
        self, config: ModelConfig, source_vocabulary_size: int, target_vocabulary_size: int
    ) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(source_vocabulary_size, config.width)
        if config.tied_embeddings is TiedEmbeddings.three_way:
            if source_vocabulary_size != target_vocabulary_size:
                raise UserError(
                    "model.tied_embeddings=three_way needs one vocabulary for both languages, but"
                    f" they have {source_vocabulary_size:,} and {target_vocabulary_size:,} pieces"
                )
            self.target_embedding = self.source_embedding
        else:
            self.target_embedding = nn.Embedding(target_vocabulary_size, config.width)
        self.output_weight = self.target_embedding.weight  # (V, D)
        if config.tied_embeddings is TiedEmbeddings.none:
            self.output_weight = nn.Parameter(torch.empty(target_vocabulary_size, config.width))
        bias = nn.Parameter(torch.zeros(target_vocabulary_size)) if config.output_bias else None
        self.output_bias = bias  # (V,)
        is_rotary = config.positions is Positions.rotary
        rotary = RotaryPositions(config.max_length, config.head_key_width) if is_rotary else None
        self.source_positions = None if is_rotary else AddedPositions(config)
        self.target_positions = None if is_rotary else AddedPositions(config)
        self.dropout = Dropout(config.dropout)
        self.encoder: Sequence[EncoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            EncoderLayer(config, rotary) for _ in range(config.num_encoder_layers)
        )
        self.decoder: Sequence[DecoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            DecoderLayer(config, rotary) for _ in range(config.num_decoder_layers)
        )
        # A post-norm layer ends with a norm; a pre-norm stack needs one after its last sum.
        is_pre_norm = config.norm is NormPlacement.pre
        self.encoder_norm = nn.LayerNorm(config.width) if is_pre_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.width) if is_pre_norm else nn.Identity()
        self._initialize()
        # On the meta device, so that it draws no random numbers for a weight that is replaced.
        self.projection = Linear(config.width, target_vocabulary_size, bias=False, device="meta")
        self.projection.weight = self.output_weight
        self.projection.register_parameter("bias", self.output_bias)

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Encode source ids.

        Args:
            source: (B, S).
            source_mask: (B, S), True at real tokens.

        Returns:
            Encoder output (B, S, D).
        """
        hidden = self._embed(self.source_embedding, self.source_positions, source)
        for layer in self.encoder:
            hidden = layer(hidden, _per_head(source_mask))
        return self.encoder_norm(hidden)

    def decode(self, target_input: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Decode all target positions at once.

        Args:
            target_input: (B, T).
            memory: encoder output (B, S, D).
            source_mask: (B, S), True at real tokens.

        Returns:
            (B, T, D), which `project` turns into logits.
        """
        hidden = self._embed_target(target_input)
        for layer in self.decoder:
            hidden = layer(hidden, memory, _per_head(source_mask))
        return self.decoder_norm(hidden)

    def project(self, hidden: Tensor) -> Tensor:
        """Compute logits: (…, D) → (…, V)."""
        return self.projection(hidden)

    def forward(self, source: Tensor, source_mask: Tensor, target_input: Tensor) -> Tensor:
        """Encode (B, S) source ids and decode (B, T) target ids to (B, T, D); see the parts."""
        return self.decode(target_input, self.encode(source, source_mask), source_mask)

    def start(self, memory: Tensor, source_mask: Tensor) -> DecoderState:
        """Return the state before the first decoding step, with one row per sentence.

        Args:
            memory: encoder output (B, S, D).
            source_mask: (B, S), True at real tokens.
        """
        projected = [layer.cross_attention.project_memory(memory) for layer in self.decoder]
        layers = [LayerCache.empty(keys, values) for keys, values in projected]
        return DecoderState.start(layers, _per_head(source_mask))

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Decode one target position of every row.

        Args:
            tokens: (N,) previous token of each row.
            state: state after that token's predecessor; it is changed in place.

        Returns:
            Logits (N, V) of the next token, and `state`.
        """
        state.allocate()
        hidden = self._embed_target(tokens[:, None], state.position)  # (N, 1, D)
        for layer, cache in zip(self.decoder, state.layers, strict=True):
            hidden = layer.step(hidden, cache, state)
        state.position += 1
        return self.project(self.decoder_norm(hidden[:, 0])), state

    def attention_maps(
        self, source: Tensor, source_mask: Tensor, target_input: Tensor
    ) -> dict[str, list[Tensor]]:
        """Compute the attention weights of every layer.

        Returns:
            `encoder`: (B, H, S, S) per layer; `decoder`: (B, H, T, T); `cross`: (B, H, T, S).
        """
        maps: dict[str, list[Tensor]] = {"encoder": [], "decoder": [], "cross": []}

        def record(
            name: str, layer: MultiHeadAttention, inputs: tuple[Tensor], options: dict[str, Any]
        ) -> None:
            maps[name].append(layer.weights(*inputs, **options))

        with ExitStack() as hooks:
            for path, module in self.named_modules():
                if isinstance(module, MultiHeadAttention):
                    name = "cross" if path.endswith("cross_attention") else path.split(".")[0]
                    hook = partial(record, name)
                    hooks.enter_context(module.register_forward_pre_hook(hook, with_kwargs=True))
            self(source, source_mask, target_input)
        return maps

    @property
    def aligning_layer(self) -> int:
        """Index of the decoder layer whose cross-attention aligns target and source tokens best.

        The last of up to three layers, else the last but one, which Garg et al. 2019 (section 4.1)
        found to be the best of six.
        """
        num_layers = len(self.decoder)
        return num_layers - 1 if num_layers <= 3 else num_layers - 2

    def compile_layers(self) -> None:
        """Compile each layer at its first call, for batches of any shape."""
        for layer in (*self.encoder, *self.decoder):
            layer.compile(dynamic=True)

    def _embed(
        self,
        embedding: nn.Embedding,
        positions: AddedPositions | None,
        ids: Tensor,
        first: int = 0,
        start: StartEmbedding = StartEmbedding.learned,
    ) -> Tensor:
        """Embed ids (B, L) at positions first, first + 1, …: (B, L, D)."""
        # Section 3.4 multiplies by sqrt(D): embeddings are initialized with a standard deviation of
        # D^-0.5, as the tied output projection needs, and positions are of the order of 1.
        scaled = embedding(ids) * math.sqrt(self.config.width)  # (B, L, D)
        if start is StartEmbedding.zero and first == 0:
            scaled = F.pad(scaled[:, 1:], (0, 0, 1, 0))
        if positions is not None:
            scaled = positions(scaled, first)
        return self.dropout(scaled)

    def _embed_target(self, ids: Tensor, first: int = 0) -> Tensor:
        """Embed target inputs (B, L) at positions first, first + 1, …: (B, L, D)."""
        embedding, positions = self.target_embedding, self.target_positions
        return self._embed(embedding, positions, ids, first, self.config.start)

    def _initialize(self) -> None:
        std = self.config.width**-0.5
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=std)
        if self.config.tied_embeddings is TiedEmbeddings.none:
            nn.init.normal_(self.output_weight, std=std)


def _per_head(mask: Tensor) -> Tensor:
    return mask[:, None, None, :]  # (B, 1, 1, S)


def meta_transformer(config: ModelConfig, *vocabulary_sizes: int) -> Transformer:
    """Return a model without memory for its weights, for the sizes of the source and the target."""
    with torch.device("meta"):
        return Transformer(config, *vocabulary_sizes)


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters; a tied matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters())
