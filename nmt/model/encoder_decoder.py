"""Base of all architectures: embeddings, output projection and interface."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, Self, TypeVar

import torch
from torch import Tensor, nn

from nmt.base.errors import UserError
from nmt.config import ModelConfig, TiedEmbeddings
from nmt.model.cpu import Dropout, Linear
from nmt.search.search import SearchState

State = TypeVar("State", bound=SearchState)
Layer = TypeVar("Layer", bound=nn.Module)


def stack(layers: Iterable[Layer]) -> Sequence[Layer]:
    """Return `nn.ModuleList(layers)`, which type checkers see as a sequence of such layers."""
    return nn.ModuleList(layers)  # type: ignore[return-value]


class EncoderDecoder(nn.Module, ABC, Generic[State]):
    """Encoder and decoder with embeddings and an output projection, which may be tied.

    A subclass adds its layers and calls `_initialize` at the end of its constructor. In all
    methods, `source_mask` (B, S) is True at real tokens, and `memory` is the result of `encode`.
    `source_size` and `target_size` are the sizes of the vocabularies.

    Raises:
        UserError: `model.tied_embeddings` is three_way, but the vocabularies differ in size.
    """

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config = config
        # Number of decoder layers that attend to the encoder output.
        self.num_attention_layers = config.num_decoder_layers
        self.source_embedding = nn.Embedding(source_size, config.width)
        if config.tied_embeddings is TiedEmbeddings.three_way:
            if source_size != target_size:
                raise UserError(
                    "model.tied_embeddings=three_way needs one vocabulary for both languages, but"
                    f" they have {source_size:,} and {target_size:,} pieces"
                )
            self.target_embedding = self.source_embedding
        else:
            self.target_embedding = nn.Embedding(target_size, config.width)
        self.output_weight = self.target_embedding.weight  # (V, D)
        if config.tied_embeddings is TiedEmbeddings.none:
            self.output_weight = nn.Parameter(torch.empty(target_size, config.width))
        self.output_bias = nn.Parameter(torch.zeros(target_size)) if config.output_bias else None
        self.dropout = Dropout(config.dropout)
        # On the meta device, no random numbers are drawn for the weight, which is replaced below.
        self.projection = Linear(config.width, target_size, bias=False, device="meta")
        self.projection.weight = self.output_weight
        self.projection.register_parameter("bias", self.output_bias)

    @abstractmethod
    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Encode source ids (B, S) to the encoder output.

        Returns:
            (B, S, D), unless the architecture documents another shape.
        """

    @abstractmethod
    def decode(self, target_input: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Decode all target positions at once: (B, T) → (B, T, D), which `project` reads."""

    @abstractmethod
    def start(self, memory: Tensor, source_mask: Tensor) -> State:
        """Return the state before the first decoding step, with one row per sentence."""

    @abstractmethod
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Decode one target position of every row.

        Args:
            tokens: (N,) last token of each row, which this decoding step reads.
            state: state before this decoding step; it is changed in place.

        Returns:
            Logits (N, V) of the next token, and `state`.
        """

    @abstractmethod
    def attention_maps(
        self, source: Tensor, source_mask: Tensor, target_input: Tensor
    ) -> dict[str, list[Tensor]]:
        """Compute the attention weights of every layer that has attention.

        Returns:
            Lists with the weights of each layer: `cross`, (B, H, T, S); with self-attention also
            `encoder`, (B, H, S, S), and `decoder`, (B, H, T, T).

        Raises:
            UserError: the architecture has no attention.
        """

    @property
    def aligning_layer(self) -> int:
        """Index of the decoder layer whose cross-attention aligns target and source tokens.

        With up to three layers, this is the last one; with more, the last but one, which Garg et
        al. 2019 (section 4.1) found to be the best of a Transformer with six layers.
        """
        num_layers = self.num_attention_layers
        return num_layers - 1 if num_layers <= 3 else num_layers - 2

    def with_own_hooks(self) -> Self:
        """Return a copy with the same weights, whose hooks do not see calls by other threads."""
        shared = (*self.parameters(), *self.buffers())
        return copy.deepcopy(self, {id(tensor): tensor for tensor in shared})

    def compile_layers(self, is_dynamic: bool) -> None:
        """Compile each layer at its first call, for its shapes, or for any if `is_dynamic`.

        Raises:
            NotImplementedError: the architecture does not support compilation, and the
                configuration rejects `training.compile` for it.
        """
        raise NotImplementedError

    def project(self, hidden: Tensor) -> Tensor:
        """Compute logits: (…, D) → (…, V)."""
        return self.projection(hidden)

    def forward(self, source: Tensor, source_mask: Tensor, target_input: Tensor) -> Tensor:
        """Encode source ids (B, S), and decode target ids (B, T) to (B, T, D)."""
        return self.decode(target_input, self.encode(source, source_mask), source_mask)

    def _scaled(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        """Embed ids (B, L) to vectors (B, L, D) whose elements are of the order of 1.

        Embeddings are initialized with a standard deviation of D^-0.5, as the tied output
        projection needs, and multiplied by sqrt(D) (Vaswani et al. 2017, section 3.4).
        """
        return embedding(ids) * math.sqrt(self.config.width)

    def _initialize(self) -> None:
        """Draw the weights of embeddings and linear layers."""
        std = self.config.width**-0.5
        for module in self.modules():
            if isinstance(module, nn.Linear) and module is not self.projection:
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=std)
        if self.config.tied_embeddings is TiedEmbeddings.none:
            nn.init.normal_(self.output_weight, std=std)
