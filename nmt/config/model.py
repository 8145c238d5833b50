"""Configuration group `model`: the Transformer, or an architecture that it is compared with."""

from enum import StrEnum

from nmt.config.fields import MAX_TOKENS, checked_dataclass, option, require

Architecture = StrEnum("Architecture", "transformer recurrent convolutional bytenet")
Positions = StrEnum("Positions", "sinusoidal learned rotary")
NormPlacement = StrEnum("NormPlacement", "post pre")
Activation = StrEnum("Activation", "relu gelu silu")
StartEmbedding = StrEnum("StartEmbedding", "learned zero")
Timescales = StrEnum("Timescales", "paper marian")
AttentionKind = StrEnum("AttentionKind", "additive dot scaled_dot hard")
TiedEmbeddings = StrEnum("TiedEmbeddings", "three_way target none")

_MAX_WIDTH = 65_536
_TRANSFORMER = ("architecture", Architecture.transformer)
_RECURRENT = ("architecture", Architecture.recurrent)
_CONVOLUTIONS = ("architecture", Architecture.convolutional, Architecture.bytenet)
_MAX_TABLE = 2**24  # values; limits the memory that a model folder of unknown origin can take
_MAX_EXPERTS = 2**14  # in all layers; each is a module, which takes memory even without weights


@checked_dataclass
class ModelConfig:
    """Sizes and variants; the defaults are the paper's base model (Table 3)."""

    architecture: Architecture = Architecture.transformer
    """Kind of encoder and decoder."""
    width: int = option(512, ge=1, le=_MAX_WIDTH)
    """Width of the model (D), the paper's d_model."""
    num_encoder_layers: int = option(6, ge=1, le=200)
    """Number of encoder layers, the paper's N; at least 2 in a recurrent model."""
    num_decoder_layers: int = option(6, ge=1, le=200)
    """Number of decoder layers, the paper's N; at least 2 in a recurrent model."""
    num_heads: int = option(8, ge=1, le=1_024, used_with=_TRANSFORMER)
    """Number of heads (H), the paper's h."""
    feed_forward_width: int = option(2048, ge=1, le=4 * _MAX_WIDTH, used_with=_TRANSFORMER)
    """Width inside the feed-forward sublayer (F), the paper's d_ff."""
    num_experts: int = option(1, ge=1, le=1_024, used_with=_TRANSFORMER)
    """Number of feed-forward networks per sublayer; each token uses two of them. 1 is the paper's
    single network."""
    kernel_width: int = option(3, ge=1, le=64, used_with=_CONVOLUTIONS)
    """Number of positions that a convolution reads."""
    attention: AttentionKind = option(AttentionKind.additive, used_with=_RECURRENT)
    """How a decoder state is compared with the encoder output: `additive` (Bahdanau), `dot` or
    `scaled_dot`; `hard` attends only to the position with the largest additive score."""
    key_width: int = option(0, ge=0, le=_MAX_WIDTH, used_with=(*_TRANSFORMER, *_RECURRENT[1:]))
    """Width of the queries and keys of a head, the paper's d_k; 0 means width / num_heads. In a
    recurrent model, which has one head, 0 means width."""
    value_width: int = option(0, ge=0, le=_MAX_WIDTH, used_with=_TRANSFORMER)
    """Width of the values of a head, the paper's d_v; 0 means width / num_heads."""
    positions: Positions = option(Positions.sinusoidal, used_with=_TRANSFORMER)
    """Encoding of token positions."""
    timescales: Timescales = option(Timescales.paper, used_with=_TRANSFORMER)
    """Wavelengths of positions=sinusoidal: the paper's, which stay below 10,000 · 2π, or Marian's,
    which reach it."""
    norm: NormPlacement = option(NormPlacement.post, used_with=_TRANSFORMER)
    """Layer normalisation after the residual sum (as in the paper) or before the sublayer."""
    activation: Activation = option(Activation.relu, used_with=_TRANSFORMER)
    """Non-linearity of the feed-forward sublayer."""
    tied_embeddings: TiedEmbeddings = TiedEmbeddings.three_way
    """`three_way`: source embedding, target embedding and output projection share their weights
    (section 3.4); `target`: only the last two do; `none`: none do."""
    output_bias: bool = False
    """Whether the output projection adds a bias, as in models of Marian; the paper's does not."""
    start: StartEmbedding = option(StartEmbedding.learned, used_with=_TRANSFORMER)
    """First input of the decoder: the embedding of BOS (`learned`), or `zero` as in Marian."""
    max_length: int = option(512, ge=16, le=MAX_TOKENS)
    """Maximum length of a source or target in tokens, including EOS."""
    attention_window: int = option(0, ge=0, le=MAX_TOKENS, used_with=_TRANSFORMER)
    """Number of positions to which a position attends in self-attention, the paper's r (section 4);
    0 means all."""
    dropout: float = option(0.1, ge=0, lt=1)
    """Dropout on embeddings and on the output of each sublayer (section 5.4)."""
    attention_dropout: float = option(0.0, ge=0, lt=1, used_with=_TRANSFORMER)
    """Dropout on the attention weights."""
    activation_dropout: float = option(0.0, ge=0, lt=1, used_with=_TRANSFORMER)
    """Dropout after the feed-forward activation."""

    def __post_init__(self) -> None:
        if self.architecture is Architecture.transformer:
            self._check_transformer()
        if self.architecture is Architecture.recurrent:
            for name in ("num_encoder_layers", "num_decoder_layers"):
                number = getattr(self, name)
                message = f"model.{name}={number} is below 2, which a recurrent model needs"
                require(number >= 2, message)
        require(
            self.architecture is not Architecture.bytenet or self.width % 2 == 0,
            f"model.architecture=bytenet needs an even model.width, not {self.width}",
        )
        num_layers = self.num_encoder_layers + self.num_decoder_layers
        require(
            self.num_experts * num_layers <= _MAX_EXPERTS,
            f"model.num_experts={self.num_experts} is too large for {num_layers} layers: a model"
            f" has at most {_MAX_EXPERTS:,} experts",
        )
        has_table = self.architecture in (Architecture.transformer, Architecture.convolutional)
        is_rotary = self.positions is Positions.rotary
        table_width = self.head_key_width if is_rotary else self.width
        require(
            not has_table or self.max_length * table_width <= _MAX_TABLE,
            f"model.max_length={self.max_length} is too large for a width of {table_width}: a table"
            f" of positions has at most {_MAX_TABLE:,} values",
        )

    def _check_transformer(self) -> None:
        """Raise UserError if sizes and variants of a Transformer do not fit together."""
        if not (self.key_width and self.value_width):
            require(
                self.width % self.num_heads == 0,
                f"model.width={self.width} is not divisible by model.num_heads={self.num_heads}",
            )
        require(
            self.positions is not Positions.rotary or self.head_key_width % 2 == 0,
            f"model.positions=rotary needs an even key width, not {self.head_key_width}",
        )
        require(
            self.positions is not Positions.sinusoidal or self.width % 2 == 0,
            f"model.positions=sinusoidal needs an even model.width, not {self.width}",
        )
        require(
            self.attention_window < self.max_length,
            f"model.attention_window={self.attention_window} must be below"
            f" model.max_length={self.max_length}; lower it, or leave it out",
        )

    @property
    def head_key_width(self) -> int:
        """Width of the queries and keys of one head."""
        return self.key_width or self.width // self.num_heads

    @property
    def head_value_width(self) -> int:
        """Width of the values of one head."""
        return self.value_width or self.width // self.num_heads
