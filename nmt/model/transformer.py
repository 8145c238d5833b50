"""The encoder-decoder Transformer of "Attention Is All You Need" (Vaswani et al. 2017)."""

import math

import torch
from torch import Tensor, nn

from nmt.config import ModelConfig, NormPlacement, Positions, TiedEmbeddings
from nmt.model.attention import KeyValueCache, causal_mask
from nmt.model.decoder_state import DecoderState
from nmt.model.dropout import Dropout
from nmt.model.layers import DecoderLayer, EncoderLayer, LayerState
from nmt.model.linear import linear
from nmt.model.positions import LearnedPositions, RotaryRotation, SinusoidalPositions
from nmt.model.rows import RowGrid
from nmt.model.slots import SharedSlots


class Transformer(nn.Module):
    """Embeddings, encoder, decoder and output projection.

    Args:
        config: sizes and variants.
        source_vocabulary_size: V of the source.
        target_vocabulary_size: V of the target; the same when embeddings are tied three ways.
    """

    def __init__(
        self, config: ModelConfig, source_vocabulary_size: int, target_vocabulary_size: int
    ) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(source_vocabulary_size, config.width)
        if config.tied_embeddings is TiedEmbeddings.three_way:
            assert source_vocabulary_size == target_vocabulary_size
            self.target_embedding = self.source_embedding
        else:
            self.target_embedding = nn.Embedding(target_vocabulary_size, config.width)
        self.output_weight = self.target_embedding.weight
        if config.tied_embeddings is TiedEmbeddings.none:
            self.output_weight = nn.Parameter(torch.empty(target_vocabulary_size, config.width))
        self.source_positions = self._positions()
        self.target_positions = self._positions()
        self.dropout = Dropout(config.dropout)
        rotation = self._rotation()
        self.encoder = nn.ModuleList(
            EncoderLayer(config, rotation) for _ in range(config.num_encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(config, rotation) for _ in range(config.num_decoder_layers)
        )
        # Post-norm layers end in a norm already; a pre-norm stack needs one after its last sum.
        is_pre_norm = config.norm is NormPlacement.pre
        self.encoder_norm = nn.LayerNorm(config.width) if is_pre_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.width) if is_pre_norm else nn.Identity()
        self._initialise()

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Source ids (B, S) → memory (B, S, D); `source_mask` (B, S) is True at real tokens."""
        hidden = self._embed(self.source_embedding, self.source_positions, source, first=0)
        mask = _for_attention(source_mask)
        for layer in self.encoder:
            hidden = layer(hidden, mask)
        memory: Tensor = self.encoder_norm(hidden)
        return memory

    def decode(self, target_input: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Target ids (B, T) and memory (B, S, D) → hidden (B, T, D), every position at once."""
        hidden = self._embed(self.target_embedding, self.target_positions, target_input, first=0)
        mask = _for_attention(source_mask)
        for layer in self.decoder:
            hidden = layer(hidden, memory, mask)
        decoded: Tensor = self.decoder_norm(hidden)
        return decoded

    def project(self, hidden: Tensor) -> Tensor:
        """Hidden (…, D) → logits (…, V)."""
        return linear(hidden, self.output_weight)

    def forward(self, source: Tensor, source_mask: Tensor, target_input: Tensor) -> Tensor:
        """Hidden (B, T, D): `encode`, then `decode`; the loss projects what it needs of it."""
        return self.decode(target_input, self.encode(source, source_mask), source_mask)

    def parameters_by_use(self) -> list[nn.Parameter]:
        """All parameters, each once, in the order in which `forward` first needs them."""
        used = [
            *(self.source_embedding, self.source_positions, self.encoder, self.encoder_norm),
            *(self.target_embedding, self.target_positions, self.decoder, self.decoder_norm),
        ]
        by_use = [parameter for module in used for parameter in module.parameters()]
        return list(dict.fromkeys([*by_use, *self.parameters()]))  # left over: the output weight

    def compile_layers(self) -> None:
        """Have torch compile the layers when they are first called, for batches of any shape."""
        for layer in (*self.encoder, *self.decoder):
            layer.compile(dynamic=True)

    def start(
        self, memory: Tensor, source_mask: Tensor, keeps_coverage: bool = False
    ) -> DecoderState:
        """The state before the first step, with one row a sentence.

        Args:
            memory: (B, S, D).
            source_mask: (B, S), True at real tokens.
            keeps_coverage: whether the state sums up what each source token is attended to.
        """
        config, num_sentences = self.config, memory.size(0)
        keys_and_values = [
            layer.cross_attention.project_memory(memory, first=0) for layer in self._decoder_layers
        ]
        widths = (config.num_heads, config.head_key_width, config.head_value_width)
        slots = SharedSlots.none(num_sentences, memory.device)
        caches = [
            KeyValueCache(num_sentences, slots.capacity, *widths, like=memory) for _ in self.decoder
        ]
        return DecoderState(
            caches,
            slots,
            [keys for keys, _ in keys_and_values],
            [values for _, values in keys_and_values],
            _for_attention(source_mask),
            torch.arange(num_sentences, device=memory.device),
            RowGrid(num_sentences, 1, None),
            coverage=memory.new_zeros(memory.shape[:2], dtype=torch.float32)
            if keeps_coverage
            else None,
        )

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Decode one position: tokens (N,) → logits (N, V); the state is updated in place."""
        positions = state.positions
        places, cache_mask = state.take_slots()
        hidden = self._embed(
            self.target_embedding, self.target_positions, tokens[:, None], positions
        )  # (N, 1, D)
        for index, layer in enumerate(self._decoder_layers):
            hidden = layer.step(
                hidden,
                LayerState(
                    state.caches[index],
                    places,
                    cache_mask,
                    state.memory_keys[index],
                    state.memory_values[index],
                    state.memory_mask,
                    state.grid,
                    positions,
                    state.coverage if index == self.aligning_layer else None,
                ),
            )
        state.positions = positions + 1
        return self.project(self.decoder_norm(hidden[:, 0])), state

    def attention_maps(
        self, source: Tensor, source_mask: Tensor, target_input: Tensor
    ) -> dict[str, list[Tensor]]:
        """Attention weights of every layer, by the reference implementation.

        Returns:
            `encoder`: (B, H, S, S) a layer; `decoder`: (B, H, T, T); `cross`: (B, H, T, S).
        """
        maps: dict[str, list[Tensor]] = {"encoder": [], "decoder": [], "cross": []}
        source_attends = _for_attention(source_mask)
        hidden = self._embed(self.source_embedding, self.source_positions, source, first=0)
        for layer in self._encoder_layers:
            inside = _sublayer_input(layer.self_attention_residual, hidden)
            maps["encoder"].append(layer.self_attention.weights(inside, inside, source_attends))
            hidden = layer(hidden, source_attends)
        memory = self.encoder_norm(hidden)
        hidden = self._embed(self.target_embedding, self.target_positions, target_input, first=0)
        target_attends = causal_mask(target_input.size(1), target_input.device)
        for decoder_layer in self._decoder_layers:
            self_residual = decoder_layer.self_attention_residual
            inside = _sublayer_input(self_residual, hidden)
            attention = decoder_layer.self_attention
            maps["decoder"].append(attention.weights(inside, inside, target_attends))
            between = self_residual(hidden, lambda h, a=attention: a(h, h, is_causal=True))
            inside = _sublayer_input(decoder_layer.cross_attention_residual, between)
            cross = decoder_layer.cross_attention
            maps["cross"].append(cross.weights(inside, memory, source_attends))
            hidden = decoder_layer(hidden, memory, source_attends)
        return maps

    @property
    def aligning_layer(self) -> int:
        """The decoder layer whose attention to the source best tells which token comes from which.

        The last of up to three, else the last but one (Garg et al. 2019, section 4.1, found it the
        best of six).
        """
        num_layers = len(self.decoder)
        return num_layers - 1 if num_layers <= 3 else num_layers - 2

    @property
    def _encoder_layers(self) -> list[EncoderLayer]:
        return [layer for layer in self.encoder if isinstance(layer, EncoderLayer)]

    @property
    def _decoder_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]

    def _embed(
        self, embedding: nn.Embedding, positions: nn.Module, ids: Tensor, first: int | Tensor
    ) -> Tensor:
        # The factor sqrt(D) is the paper's (section 3.4): it brings embeddings, which start at
        # D ** -0.5 to suit the tied output projection, to the size of the positions.
        scaled = embedding(ids) * math.sqrt(self.config.width)  # (B, L, D)
        if not isinstance(positions, nn.Identity):
            scaled = positions(scaled, first)
        embedded: Tensor = self.dropout(scaled)
        return embedded

    def _positions(self) -> nn.Module:
        if self.config.positions is Positions.sinusoidal:
            return SinusoidalPositions(self.config.max_length, self.config.width)
        if self.config.positions is Positions.learned:
            return LearnedPositions(self.config.max_length, self.config.width)
        return nn.Identity()

    def _rotation(self) -> RotaryRotation | None:
        if self.config.positions is not Positions.rotary:
            return None
        return RotaryRotation(self.config.max_length, self.config.head_key_width)

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.width**-0.5)
        if self.config.tied_embeddings is TiedEmbeddings.none:
            nn.init.normal_(self.output_weight, std=self.config.width**-0.5)


def _for_attention(mask: Tensor) -> Tensor:
    return mask[:, None, None, :]  # (B, 1, 1, S)


def _sublayer_input(residual: nn.Module, hidden: Tensor) -> Tensor:
    normed: Tensor = residual.norm(hidden) if residual.is_pre_norm else hidden  # type: ignore[operator]
    return normed


def count_parameters(model: nn.Module) -> int:
    """Trainable numbers; a matrix tied to several places counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def planned_parameters(
    config: ModelConfig, source_vocabulary_size: int, target_vocabulary_size: int
) -> int:
    """What `count_parameters` of a model will be, before any memory is taken for it."""
    width, inner = config.width, config.feed_forward_width
    keys = config.num_heads * config.head_key_width
    values = config.num_heads * config.head_value_width
    # One more than a matrix's inputs: its bias.
    attention = 2 * (width + 1) * keys + (width + 1) * values + (values + 1) * width
    feed_forward = (width + 1) * inner + (inner + 1) * width
    norm = 2 * width
    count = config.num_encoder_layers * (attention + feed_forward + 2 * norm)
    count += config.num_decoder_layers * (2 * attention + feed_forward + 3 * norm)
    count += target_vocabulary_size * width
    if config.tied_embeddings is not TiedEmbeddings.three_way:
        count += source_vocabulary_size * width
    if config.tied_embeddings is TiedEmbeddings.none:
        count += target_vocabulary_size * width
    if config.positions is Positions.learned:
        count += 2 * config.max_length * width
    if config.norm is NormPlacement.pre:
        count += 2 * norm
    return count
