"""Every field of the configuration: its type, default, unit and checks.

YAML files in `conf/` are presets over these dataclasses and hold no default of their own. Modules
take the dataclass of their group, never a `DictConfig`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nmt.errors import UserError
from nmt.files import atomic_writer
from nmt.plain_yaml import read_plain_yaml


class CorpusSource(Enum):
    """Where sentence pairs come from."""

    phrasebook = "phrasebook"
    folder = "folder"
    hub = "hub"
    bible = "bible"


class TokenizerAlgorithm(Enum):
    """A sentencepiece model type."""

    bpe = "bpe"
    unigram = "unigram"


class Positions(Enum):
    """How a position enters the model."""

    sinusoidal = "sinusoidal"
    learned = "learned"
    rotary = "rotary"


class NormPlacement(Enum):
    """Layer normalisation after the residual sum (the paper) or before the sublayer."""

    post = "post"
    pre = "pre"


class Activation(Enum):
    """The non-linearity of the feed-forward sublayer."""

    relu = "relu"
    gelu = "gelu"


class TiedEmbeddings(Enum):
    """Which of source embedding, target embedding and output projection are one matrix.

    `three_way` is the paper's (section 3.4).
    """

    three_way = "three_way"
    target = "target"
    none = "none"


class OptimizerName(Enum):
    """An optimizer: two of torch, one of ours."""

    adam = "adam"
    adamw = "adamw"
    muon = "muon"


class ScheduleName(Enum):
    """The shape of the learning rate after warm-up."""

    inverse_square_root = "inverse_square_root"
    cosine = "cosine"
    warmup_stable_decay = "warmup_stable_decay"


class Precision(Enum):
    """The arithmetic of forward and backward; weights and updates stay in float32."""

    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"


class ValidationMetric(Enum):
    """What the best checkpoint and early stopping go by."""

    bleu = "bleu"
    loss = "loss"


class SearchMethod(Enum):
    """How translations are found: the best by a beam, or each drawn at random."""

    beam = "beam"
    sampling = "sampling"


class DecodingPrecision(Enum):
    """The arithmetic of decoding."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"
    int8 = "int8"


class LengthPenalty(Enum):
    """What a hypothesis's log-probability is divided by."""

    gnmt = "gnmt"
    average = "average"
    none = "none"


class TrackingBackend(Enum):
    """Where metrics go besides `metrics.jsonl`."""

    files = "files"
    wandb = "wandb"


ARRANGING_KEYS = frozenset({"batch_size", "batch_tokens", "refill", "num_workers", "compile"})
"""Of `decoding.*`: what only arranges the work, and in float32 never changes a translation."""

FREE_KEYS = (
    "run.",
    "tracking.",
    "training.num_processes",
    "training.num_threads",
    "training.num_hosts",
    "training.rendezvous",
    "training.max_restarts",
    "training.timeout",
    "training.log_every",
    *(f"decoding.{key}" for key in sorted(ARRANGING_KEYS)),
    "corpus.more_path",
    "corpus.path",  # the corpus itself is compared by its fingerprint
)
"""Keys that change where and how fast a run goes, but not what comes out of it: only roundings, as
more processes and threads add up in another order."""

AUTO = "auto"
"""Asks for a value that is found when the run begins."""

# What a stranger's configuration can ask for without a file that vouches for it is bounded.
_MOST_LAYERS = 200
_LARGEST_TABLE = 2**24
_MOST_HYPOTHESES = 10_000


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise UserError(message)


def _require_between(config: Any, group: str, low: float, high: float, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        _require(
            low <= value <= high, f"{group}.{name}={value} is not between {low:,} and {high:,}"
        )


def is_language_code(text: str) -> bool:
    """Whether `text` can name a language, and be a part of a file's name."""
    return text.isalnum()


@dataclass(frozen=True)
class CleaningConfig:
    """Rules that reject a training pair; see `data_prep.clean`."""

    max_characters: int = 2000
    """Characters a side; a longer one is rejected."""
    max_words: int = 200
    """Whitespace-separated words a side; more are rejected."""
    max_length_ratio: float = 4.0
    """Longer side over shorter side, in characters; pairs whose longer side has fewer than 20 are
    exempt."""
    drop_copies: bool = True
    """Reject pairs whose two sides are the same text of three words or more."""
    drop_duplicates: bool = True
    """Keep only the first of equal pairs."""

    def __post_init__(self) -> None:
        _require(
            self.max_characters > 0 and self.max_words > 0,
            f"corpus.cleaning.max_characters={self.max_characters} and"
            f" corpus.cleaning.max_words={self.max_words} must be positive",
        )
        _require(
            self.max_length_ratio >= 1,
            f"corpus.cleaning.max_length_ratio={self.max_length_ratio} must be at least 1",
        )


@dataclass(frozen=True)
class CorpusConfig:
    """The sentence pairs."""

    name: str = "phrasebook"
    """Name of the corpus: its folder is `outputs/corpora/<name>-<fingerprint>`."""
    source: CorpusSource = CorpusSource.phrasebook
    """Where the pairs come from."""
    direction: str = "en-de"
    """Source and target language codes, joined by a hyphen."""
    path: str = ""
    """`folder`: the folder of `<split>.<language>` files. `hub`: a local folder of parquet files
    to read in place of the hub; empty means the hub itself."""
    hub_dataset: str = ""
    """`hub`: name of the data set, for example `wmt/wmt14`."""
    hub_subset: str = ""
    """`hub`: name of its subset (configuration), for example `de-en`; may be empty."""
    hub_revision: str = ""
    """`hub`: the commit of the data set; empty means its newest."""
    hub_column: str = "translation.{language}"
    """`hub`: where a row keeps the text of a language: a column, or `column.key` inside one."""
    hub_splits: dict[str, str] = field(default_factory=dict)
    """`hub`: our split name → the hub's split name; `train` and `valid` are special, every other
    one is a test set."""
    num_train: int = 60_000
    """`phrasebook`: training pairs to draw."""
    num_valid: int = 1_000
    """`phrasebook`: validation pairs to draw."""
    num_test: int = 2_000
    """`phrasebook`: test pairs to draw, besides held-out combinations and riddles."""
    seed: int = 1
    """`phrasebook`: seed of the draw."""
    max_train_pairs: int = 0
    """Use only the first so many training pairs of any source; 0 means all."""
    more_path: str = ""
    """A folder of further training pairs, `train.<language>` of both languages, such as
    back-translations; empty means none."""
    copies: int = 1
    """Times that each training pair of the source is seen in an epoch; those of more_path are seen
    once."""
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    """Rules that reject a training pair."""

    def __post_init__(self) -> None:
        codes = self.direction.split("-")
        _require(
            len(codes) == 2 and all(map(is_language_code, codes)) and codes[0] != codes[1],
            f"corpus.direction={self.direction} is not two different language codes joined by a"
            " hyphen, such as en-de",
        )
        _require(
            bool(self.name) and "/" not in self.name and not self.name.startswith("."),
            f"corpus.name={self.name!r} cannot name a folder",
        )
        for name in ("copies", "num_train", "num_valid"):
            _require(
                getattr(self, name) >= 1,
                f"corpus.{name}={getattr(self, name)} must be at least 1",
            )
        for name in ("num_test", "max_train_pairs"):
            _require(
                getattr(self, name) >= 0,
                f"corpus.{name}={getattr(self, name)} must not be negative",
            )
        _require(
            self.source is not CorpusSource.folder or bool(self.path),
            "corpus.path is empty: name the folder that holds <split>.<language> files",
        )

    @property
    def source_language(self) -> str:
        """Code of the language translated from."""
        return self.direction.split("-")[0]

    @property
    def target_language(self) -> str:
        """Code of the language translated into."""
        return self.direction.split("-")[1]


@dataclass(frozen=True)
class TokenizerConfig:
    """The subwords, learned by sentencepiece."""

    algorithm: TokenizerAlgorithm = TokenizerAlgorithm.bpe
    """The sentencepiece model type."""
    vocabulary_size: int = 8_000
    """Pieces in a vocabulary, special ones included."""
    joint: bool = True
    """One vocabulary for both languages; else one each."""
    character_coverage: float = 1.0
    """Share of the training text's characters that get a piece of their own."""
    byte_fallback: bool = True
    """Spell unknown characters as bytes, so that nothing is lost on the way back."""
    sample_sentences: int = 2_000_000
    """Sentences sampled from the cleaned text to learn from; 0 means all."""
    dropout: float = 0.0
    """Share of the merges that are left out, by chance, where training text is split: BPE-dropout
    (Provilkov et al. 2020, section 3). Each of `corpus.copies` is split in its own way."""

    def __post_init__(self) -> None:
        _require(
            0 < self.character_coverage <= 1,
            f"tokenizer.character_coverage={self.character_coverage} is not in (0, 1]",
        )
        _require(
            0 <= self.dropout < 1,
            f"tokenizer.dropout={self.dropout} must be at least 0 and below 1",
        )
        _require(
            self.dropout == 0 or self.algorithm is TokenizerAlgorithm.bpe,
            f"tokenizer.dropout={self.dropout} leaves out merges, which"
            f" algorithm={self.algorithm.value} has not; set tokenizer.dropout=0 or tokenizer=bpe",
        )


@dataclass(frozen=True)
class ModelConfig:
    """The Transformer, in the paper's notation; defaults are its base model (Table 3)."""

    width: int = 512
    """D, the paper's d_model."""
    num_encoder_layers: int = 6
    """Encoder layers, the paper's N."""
    num_decoder_layers: int = 6
    """Decoder layers, the paper's N."""
    num_heads: int = 8
    """H, the paper's h."""
    feed_forward_width: int = 2048
    """F, the paper's d_ff."""
    key_width: int = 0
    """Width of a head's queries and keys, the paper's d_k; 0 means width / num_heads."""
    value_width: int = 0
    """Width of a head's values, the paper's d_v; 0 means width / num_heads."""
    positions: Positions = Positions.sinusoidal
    """How a position enters the model."""
    norm: NormPlacement = NormPlacement.post
    """Where layer normalisation stands."""
    activation: Activation = Activation.relu
    """The non-linearity of the feed-forward sublayer."""
    tied_embeddings: TiedEmbeddings = TiedEmbeddings.three_way
    """Which embedding matrices are one; three_way needs a joint vocabulary."""
    max_length: int = 512
    """Longest sequence in tokens, EOS and BOS included."""
    dropout: float = 0.1
    """Rate on embeddings and on the output of each sublayer (section 5.4)."""
    attention_dropout: float = 0.0
    """Rate on the attention weights."""
    activation_dropout: float = 0.0
    """Rate after the feed-forward activation."""

    def __post_init__(self) -> None:
        for name in ("width", "num_heads", "feed_forward_width"):
            _require(
                getattr(self, name) > 0, f"model.{name}={getattr(self, name)} must be positive"
            )
        for name in ("key_width", "value_width"):
            _require(
                getattr(self, name) >= 0, f"model.{name}={getattr(self, name)} must not be negative"
            )
        layers = ("num_encoder_layers", "num_decoder_layers")
        _require_between(self, "model", 1, _MOST_LAYERS, *layers)
        if not (self.key_width and self.value_width):
            _require(
                self.width % self.num_heads == 0,
                f"model.width={self.width} is not divisible by model.num_heads={self.num_heads}",
            )
        _require(
            self.positions is not Positions.rotary or self.head_key_width % 2 == 0,
            f"model.positions=rotary needs an even key width, not {self.head_key_width}",
        )
        _require(
            self.positions is not Positions.sinusoidal or self.width % 2 == 0,
            f"model.positions=sinusoidal needs an even model.width, not {self.width}",
        )
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            rate = getattr(self, name)
            _require(0 <= rate < 1, f"model.{name}={rate} is not in [0, 1)")
        _require(self.max_length >= 16, f"model.max_length={self.max_length} is below 16")
        table_width = max(self.width, self.head_key_width)
        _require(
            self.max_length * table_width <= _LARGEST_TABLE,
            f"model.max_length={self.max_length} is too large for a width of {table_width}: a table"
            f" of positions has at most {_LARGEST_TABLE:,} values",
        )

    @property
    def head_key_width(self) -> int:
        """Width of one head's queries and keys."""
        return self.key_width or self.width // self.num_heads

    @property
    def head_value_width(self) -> int:
        """Width of one head's values."""
        return self.value_width or self.width // self.num_heads


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam as in the paper (section 5.3), AdamW, or Muon for the layers' matrices beside AdamW.

    The paper says nothing of clipping, which all of them do here unless `max_gradient_norm` is 0.
    """

    name: OptimizerName = OptimizerName.adam
    """The optimizer."""
    beta1: float = 0.9
    """Decay of the first moment."""
    beta2: float = 0.98
    """Decay of the second moment."""
    epsilon: float = 1e-9
    """Added to the denominator."""
    weight_decay: float = 0.0
    """Decoupled decay an update, times the learning rate; matrices only, and not with adam."""
    momentum: float = 0.95
    """Decay of Muon's momentum."""
    max_gradient_norm: float = 1.0
    """Clip the norm of the whole gradient to this; 0 means never."""

    def __post_init__(self) -> None:
        _require(
            self.weight_decay == 0 or self.name is not OptimizerName.adam,
            f"optimizer.weight_decay={self.weight_decay} needs optimizer.name=adamw or muon",
        )
        _require(
            self.momentum == OptimizerConfig.momentum or self.name is OptimizerName.muon,
            f"optimizer.momentum={self.momentum} needs optimizer.name=muon;"
            " that of adam is optimizer.beta1",
        )
        for name in ("beta1", "beta2", "momentum"):
            decay = getattr(self, name)
            _require(0 <= decay < 1, f"optimizer.{name}={decay} is not in [0, 1)")
        for name in ("epsilon", "weight_decay", "max_gradient_norm"):
            _require(
                getattr(self, name) >= 0,
                f"optimizer.{name}={getattr(self, name)} must not be negative",
            )


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate, a pure function of the update."""

    name: ScheduleName = ScheduleName.inverse_square_root
    """The shape after warm-up."""
    peak_learning_rate: float = 7e-4
    """The highest rate, at the end of warm-up. The paper's formula (equation 3) has its peak at
    (width * warmup_updates) ** -0.5, which is 7e-4 for base."""
    warmup_updates: int = 4_000
    """Updates of linear warm-up."""
    final_learning_rate: float = 0.0
    """`cosine`, `warmup_stable_decay`: the rate at training.max_updates."""
    decay_share: float = 0.4
    """`warmup_stable_decay`: over what share of training.max_updates, the last ones, it falls."""

    def __post_init__(self) -> None:
        _require(
            self.peak_learning_rate > 0,
            f"schedule.peak_learning_rate={self.peak_learning_rate} must be positive",
        )
        _require(
            self.warmup_updates >= 1,
            f"schedule.warmup_updates={self.warmup_updates} must be at least 1",
        )
        _require(
            0 < self.decay_share <= 1,
            f"schedule.decay_share={self.decay_share} is not above 0 and at most 1",
        )
        final = self.final_learning_rate
        _require(
            0 <= final <= self.peak_learning_rate,
            f"schedule.final_learning_rate={final} is not between 0 and"
            f" schedule.peak_learning_rate={self.peak_learning_rate}",
        )
        # A key that changes nothing is a wish that is not met.
        decays = self.name is ScheduleName.warmup_stable_decay
        _require(
            decays or self.decay_share == ScheduleConfig.decay_share,
            f"schedule.decay_share={self.decay_share} needs schedule.name=warmup_stable_decay",
        )
        _require(
            final == 0 or self.name is not ScheduleName.inverse_square_root,
            f"schedule.final_learning_rate={final} needs schedule.name=cosine or"
            " warmup_stable_decay",
        )


@dataclass(frozen=True)
class BatchingConfig:
    """How pairs become updates and micro-batches."""

    target_tokens_per_update: int = 25_000
    """Target tokens, EOS included and padding not, that one optimizer step learns from."""
    tokens_per_micro_batch: int | str = 4_096
    """Most padded tokens, of either side, in one forward-backward: this bounds the memory. `auto`
    is the largest number that fits in the memory there is, found when the run begins."""
    max_source_length: int = 256
    """Tokens, EOS included; longer pairs are left out of training and counted."""
    max_target_length: int = 256
    """Tokens, EOS included; longer pairs are left out of training and counted."""

    def __post_init__(self) -> None:
        tokens, longest = self.tokens_per_micro_batch, self.longest
        _require(
            isinstance(tokens, int) or tokens == AUTO,
            f"batching.tokens_per_micro_batch={tokens} is neither a number nor {AUTO}",
        )
        _require(
            self.is_auto or self.max_micro_batch_tokens >= longest,
            f"batching.tokens_per_micro_batch={tokens} cannot"
            f" hold one pair of {longest} tokens (batching.max_source_length,"
            " batching.max_target_length)",
        )
        _require(
            self.target_tokens_per_update > 0,
            f"batching.target_tokens_per_update={self.target_tokens_per_update} must be positive",
        )

    @property
    def longest(self) -> int:
        """Tokens of the longest sentence that may be trained on, of either side."""
        return max(self.max_source_length, self.max_target_length)

    @property
    def is_auto(self) -> bool:
        """Whether the size of micro-batches is still to be found."""
        return self.tokens_per_micro_batch == AUTO

    @property
    def max_micro_batch_tokens(self) -> int:
        """Most padded tokens, of either side, in a micro-batch; not while it is to be found."""
        assert isinstance(self.tokens_per_micro_batch, int)
        return self.tokens_per_micro_batch


@dataclass(frozen=True)
class TrainingConfig:
    """How long and by what to train."""

    seed: int = 1
    """Seed of the weights, the order of the data and dropout."""
    max_updates: int = 100_000
    """Optimizer steps."""
    max_minutes: float = 0.0
    """Stop at the first update after so many minutes of training, validation included; 0 means
    never. Counted over restarts."""
    label_smoothing: float = 0.1
    """The paper's epsilon_ls (section 5.4)."""
    r_drop: float = 0.0
    """alpha of R-Drop (Liang et al. 2021, section 2): each micro-batch goes through the model
    twice, and the two distributions are drawn together with this weight; 0 means once. It doubles
    the work of an update, and the training loss holds the divergence too."""
    precision: Precision = Precision.auto
    """Arithmetic of forward and backward; auto is bfloat16 on a GPU that has it, else float32."""
    compile: bool = False
    """Layers compiled by torch.compile, for GPUs, in a minute or more before the first update and
    again at the first validation. Chance and rounding are others than without it, and a continued
    run is not promised to be the same bit for bit."""
    validate_every: int = 1_000
    """Updates between validations; a checkpoint is written at each."""
    validation_metric: ValidationMetric = ValidationMetric.bleu
    """What the best checkpoint and early stopping go by."""
    patience: int = 0
    """Validations without a new best before training stops; 0 means never."""
    average_checkpoints: int = 5
    """How many last checkpoints are averaged into the trained model (section 6.1); 1 means the best
    checkpoint alone. The average is used only where it is better on validation."""
    log_every: int = 50
    """Updates between lines of progress and of metrics.jsonl."""
    max_gradient_spike: float = 10.0
    """An update is refused (its gradient is not followed) when the gradient's norm is above so many
    times its running mean; 0 means never. One that is no finite number is always refused."""
    max_refused_in_a_row: int = 20
    """Training stops with a diagnosis after so many refused updates in a row; 0 means never."""
    num_processes: int = 1
    """Processes on this host, one a GPU where there are GPUs."""
    num_threads: int = 0
    """CPU threads a process; 0 means the cores divided by the processes."""
    num_hosts: int = 1
    """Hosts that train together; the same command is given on each."""
    rendezvous: str = ""
    """`host:port` of one of the hosts, where they meet; needed when num_hosts is above 1. All of
    them have to reach it under this name or address."""
    rendezvous_timeout: float = 600.0
    """Seconds that a host waits for the others there: at the start, and when one was lost."""
    max_restarts: int = 0
    """How often all processes are started again, from the last checkpoint, when one has died."""
    timeout: float = 300.0
    """Seconds after which processes that wait for another one give up."""

    def __post_init__(self) -> None:
        positive = ("max_updates", "validate_every", "log_every", "num_processes", "num_hosts")
        for name in positive:
            _require(
                getattr(self, name) >= 1,
                f"training.{name}={getattr(self, name)} must be at least 1",
            )
        for name in (
            *("seed", "max_minutes", "patience", "num_threads", "max_restarts"),
            *("max_gradient_spike", "max_refused_in_a_row"),
        ):
            _require(
                getattr(self, name) >= 0,
                f"training.{name}={getattr(self, name)} must not be negative",
            )
        _require(self.timeout > 0, f"training.timeout={self.timeout} must be positive")
        _require(
            self.rendezvous_timeout >= 1,
            f"training.rendezvous_timeout={self.rendezvous_timeout} must be at least 1",
        )
        _require(
            self.num_hosts == 1 or bool(self.rendezvous),
            f"training.num_hosts={self.num_hosts} needs training.rendezvous=HOST:PORT",
        )
        host, port = self.meeting_place
        _require(
            not self.rendezvous or (bool(host) and 0 < port < 2**16),
            f"training.rendezvous={self.rendezvous} is not HOST:PORT",
        )
        _require(
            self.average_checkpoints >= 1,
            f"training.average_checkpoints={self.average_checkpoints} must be at least 1",
        )
        _require(
            0 <= self.label_smoothing < 1,
            f"training.label_smoothing={self.label_smoothing} is not in [0, 1)",
        )
        _require(
            0 <= self.r_drop < math.inf,
            f"training.r_drop={self.r_drop} must be a number from 0 on",
        )

    @property
    def num_passes(self) -> int:
        """How often each micro-batch goes through the model."""
        return 2 if self.r_drop else 1

    @property
    def meeting_place(self) -> tuple[str, int]:
        """Host and port of `rendezvous`; of one host alone, itself and any port (0)."""
        if not self.rendezvous:
            return "localhost", 0
        host, _, port = self.rendezvous.rpartition(":")
        return host.strip("[]"), int(port) if port.isdecimal() else 0


@dataclass(frozen=True)
class DecodingConfig:
    """Search: the same for validation, `translate` and `evaluate`."""

    beam_size: int = 4
    """K; 1 is greedy."""
    length_penalty: float = 0.6
    """alpha of ((5 + n) / 6) ** alpha (Wu et al. 2016, equation 14); n counts EOS."""
    length_penalty_kind: LengthPenalty = LengthPenalty.gnmt
    """`gnmt` with alpha as above; `average`: n itself; `none`: 1."""
    num_best: int = 1
    """Translations returned a sentence, best first."""
    max_length_ratio: float = 2.0
    """Longest translation: this times the source length, plus max_length_offset, in tokens. The
    shorter it is, the sooner search can prove that nothing better is to come."""
    max_length_offset: int = 10
    """See max_length_ratio; the paper has the source length + 50 (section 6.1)."""
    max_length: int = 0
    """Longest translation in tokens, EOS included, whatever the source; 0 sets no such limit."""
    min_length: int = 2
    """Shortest translation in tokens, EOS included: where none is long enough to be likely, the
    most probable one is often empty (Stahlberg and Byrne 2019); 0 allows that."""
    min_length_ratio: float = 0.0
    """Shortest translation: this times the source length, in tokens, if that is more."""
    patience: float = 0.0
    """A sentence is done when patience · K hypotheses have ended (Kasai et al. 2022), even if a
    better one might come; 0 waits until none can."""
    batch_size: int = 64
    """Sentences decoded together; in float32 it never changes a translation."""
    repetition_penalty: float = 1.0
    """What the log-probability of a token that the hypothesis has already is multiplied by
    (Keskar et al. 2019, section 4.1); 1 changes nothing."""
    no_repeat_ngram: int = 0
    """No n tokens in a row occur twice in a translation; 0 lets them."""
    coverage_penalty: float = 0.0
    """beta of Wu et al. 2016, equation 14: the score of a translation that has ended falls by it
    for source tokens that it has hardly attended to; 0 does not look."""
    method: SearchMethod = SearchMethod.beam
    """`beam`, or `sampling`: beam_size translations are drawn at random, each by itself."""
    temperature: float = 1.0
    """Of sampling: logits are divided by it; below 1 the probable becomes more so."""
    top_k: int = 0
    """Of sampling: draw from the k most probable tokens; 0 takes all."""
    top_p: float = 1.0
    """Of sampling: draw from the fewest tokens whose probabilities come to p (Holtzman et al.
    2020)."""
    epsilon: float = 0.0
    """Of sampling: draw from tokens at least this probable (Hewitt et al. 2022); the most probable
    one always is among them."""
    seed: int = 1
    """Of sampling: the same seed draws the same translations of a source, in any company."""
    diversity_groups: int = 1
    """Parts of the beam that are to differ (Vijayakumar et al. 2016); 1 is plain beam search."""
    diversity_strength: float = 0.5
    """Nats that a token loses in the choice for each hypothesis of earlier groups that takes it."""
    batch_tokens: int = 16384
    """Most source tokens decoded together, padding counted; a longer sentence goes alone."""
    refill: float = 0.0
    """New sentences enter a batch when this share of it is done; 0 waits for the whole batch."""
    precision: DecodingPrecision = DecodingPrecision.float32
    """`float32`; `bfloat16` or `float16`; `int8`: weights and products in 8 bits, on a CPU."""
    num_workers: int = 0
    """Threads that decode a batch each, on a CPU; 0 takes as many as torch has threads."""
    compile: bool = False
    """Layers compiled by torch.compile, which takes a minute at the start: for accelerators."""

    def __post_init__(self) -> None:
        _require_between(self, "decoding", 1, _MOST_HYPOTHESES, "beam_size", "batch_size")
        # Beyond, the penalty of a long translation is no number any more.
        _require_between(self, "decoding", -10, 10, "length_penalty")
        lengths = ("max_length_ratio", "max_length_offset", "max_length")
        least = ("min_length", "min_length_ratio")
        _require_between(self, "decoding", 0, 1_000_000, *lengths, *least)
        _require(
            self.max_length == 0 or self.min_length <= self.max_length,
            f"decoding.min_length={self.min_length} is above decoding.max_length={self.max_length}",
        )
        _require_between(self, "decoding", 0, 1_000, "patience", "diversity_strength")
        _require_between(self, "decoding", 1, 100, "repetition_penalty")
        _require_between(self, "decoding", 0, 1_000, "no_repeat_ngram", "coverage_penalty")
        _require_between(self, "decoding", 0.01, 100, "temperature")
        _require_between(self, "decoding", 0, 1_000_000, "top_k")
        _require_between(self, "decoding", 0, 1, "epsilon", "top_p")
        _require(self.top_p > 0, "decoding.top_p=0 leaves no token to draw; 1 takes all")
        _require_between(self, "decoding", 0, 2**63 - 1, "seed")
        _require(
            self.diversity_groups >= 1 and self.beam_size % self.diversity_groups == 0,
            f"decoding.diversity_groups={self.diversity_groups} does not divide"
            f" decoding.beam_size={self.beam_size}",
        )
        _require(
            self.method is SearchMethod.beam or self.diversity_groups == 1,
            "decoding.method=sampling needs decoding.diversity_groups=1: samples have no groups",
        )
        # A key that changes nothing is a wish that is not met. The class has the defaults.
        for key in ("temperature", "top_k", "top_p", "epsilon"):
            value = getattr(self, key)
            _require(
                self.method is SearchMethod.sampling or value == getattr(DecodingConfig, key),
                f"decoding.{key}={value} is of sampling: add decoding.method=sampling, or leave it"
                " out",
            )
        _require(
            self.diversity_groups > 1
            or self.diversity_strength == DecodingConfig.diversity_strength,
            f"decoding.diversity_strength={self.diversity_strength} parts groups: add for example"
            " decoding.diversity_groups=2, or leave it out",
        )
        _require_between(self, "decoding", 1, 1_000_000_000, "batch_tokens")
        _require_between(self, "decoding", 0, 1, "refill")
        _require_between(self, "decoding", 0, 1_024, "num_workers")
        _require(
            1 <= self.num_best <= self.beam_size,
            f"decoding.num_best={self.num_best} is not between 1 and"
            f" decoding.beam_size={self.beam_size}",
        )


def search_keys(config: DecodingConfig) -> dict[str, Any]:
    """What translations depend on, by its full key."""
    # In other precisions neighbours may change a translation.
    left_out = ARRANGING_KEYS if config.precision is DecodingPrecision.float32 else frozenset()
    values = to_plain(config).items()
    return {f"decoding.{key}": value for key, value in values if key not in left_out}


@dataclass(frozen=True)
class TrackingConfig:
    """Where metrics go; `metrics.jsonl` is always written."""

    backend: TrackingBackend = TrackingBackend.files
    """`wandb` also sends them there, or keeps them offline when nobody is logged in."""
    project: str = "nmt"
    """wandb project."""


@dataclass(frozen=True)
class RunConfig:
    """Where a run lives."""

    name: str = "run"
    """Folder of the run: `<outputs>/runs/<name>`; the same name continues the run."""
    outputs: str = "outputs"
    """Folder for everything made at run time."""
    folder: str = ""
    """The run's folder itself; empty means `<outputs>/runs/<name>`. Sweeps set it."""
    accept_changes: str = ""
    """Keys, separated by commas, that a continued run may change from here on."""
    dry_run: bool = False
    """Say what training would take in memory and time, and do nothing."""

    def __post_init__(self) -> None:
        _require(
            bool(self.name) and "/" not in self.name and not self.name.startswith("."),
            f"run.name={self.name!r} cannot name a folder",
        )


@dataclass(frozen=True)
class Config:
    """One experiment."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        _require(
            self.tokenizer.joint or self.model.tied_embeddings is not TiedEmbeddings.three_way,
            "model.tied_embeddings=three_way needs one vocabulary: set tokenizer.joint=true or"
            " model.tied_embeddings=target",
        )
        for name in ("max_source_length", "max_target_length"):
            _require(
                getattr(self.batching, name) <= self.model.max_length,
                f"batching.{name}={getattr(self.batching, name)} is above"
                f" model.max_length={self.model.max_length}",
            )
        schedule = self.schedule
        rises = schedule.warmup_updates / self.training.max_updates
        _require(
            schedule.name is not ScheduleName.warmup_stable_decay
            or rises + schedule.decay_share <= 1,
            f"schedule.warmup_updates={schedule.warmup_updates} and"
            f" schedule.decay_share={schedule.decay_share} are more than"
            f" training.max_updates={self.training.max_updates} together",
        )
        _require(
            schedule.name is not ScheduleName.cosine or rises < 1,
            f"schedule.warmup_updates={schedule.warmup_updates} must be below"
            f" training.max_updates={self.training.max_updates} for schedule.name=cosine",
        )
        model = self.model
        _require(
            not self.training.r_drop
            or any((model.dropout, model.attention_dropout, model.activation_dropout)),
            f"training.r_drop={self.training.r_drop} needs dropout: without it both passes are the"
            " same; set model.dropout, or training.r_drop=0",
        )

    @property
    def run_folder(self) -> Path:
        """The folder of the run."""
        return Path(self.run.folder or Path(self.run.outputs) / "runs" / self.run.name)

    @property
    def corpora_folder(self) -> Path:
        """The folder that holds all prepared corpora."""
        return Path(self.run.outputs) / "corpora"


def writable_schema(kind: type[Any]) -> DictConfig:
    """The structured schema of a dataclass, made writable again.

    OmegaConf marks nodes of frozen dataclasses read-only, which would refuse every preset;
    instances made from the schema are frozen all the same.
    """
    schema: DictConfig = OmegaConf.structured(kind)
    _clear_readonly(schema)
    return schema


def _clear_readonly(node: DictConfig) -> None:
    OmegaConf.set_readonly(node, None)
    for key in node:
        child = node._get_node(key)
        if isinstance(child, DictConfig):
            _clear_readonly(child)


def from_mapping(kind: type[Any], values: Mapping[str, Any] | DictConfig, origin: str) -> Any:
    """An instance of dataclass `kind` from plain values.

    Raises:
        UserError: an unknown key, a value of the wrong type, or values that do not fit together;
            the message starts with `origin`.
    """
    try:
        merged = OmegaConf.merge(writable_schema(kind), values)
        return OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        raise UserError(f"{origin}: {str(error).splitlines()[0]} (key {error.full_key})") from None
    except UserError as error:
        raise UserError(f"{origin}: {error}") from None


def to_plain(config: Any) -> dict[str, Any]:
    """A configuration dataclass as plain dictionaries, enums as their names."""
    plain = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def to_yaml(config: Any) -> str:
    """A configuration dataclass as YAML text."""
    return OmegaConf.to_yaml(OmegaConf.create(to_plain(config)))


def save_config(config: Any, path: Path) -> None:
    """Write a configuration dataclass as YAML, atomically."""
    with atomic_writer(path) as out:
        out.write(to_yaml(config))


def load_values(path: Path) -> DictConfig:
    """Read a YAML file as it is, before it is fitted to any dataclass.

    Raises:
        UserError: the file is missing, is not plain YAML, or holds no keys.
    """
    text = read_plain_yaml(path)
    try:
        values = OmegaConf.create(text)
    except Exception as error:  # PyYAML raises many kinds; all of them mean one thing here
        raise UserError(f"{path}: is not valid YAML: {error}") from None
    if not isinstance(values, DictConfig):
        raise UserError(f"{path}: holds no configuration")
    return values


# What keys were called in files of earlier versions: the group, its key, and the key today.
_FORMER_KEYS = (("batching", "target_tokens_per_micro_batch", "tokens_per_micro_batch"),)


def load_config(kind: type[Any], path: Path) -> Any:
    """Read a YAML file written by `save_config`, now or by an earlier version, into `kind`.

    Raises:
        UserError: the file is missing, is not YAML, or does not fit the dataclass.
    """
    values = load_values(path)
    for name, former, key in _FORMER_KEYS:
        group = values.get(name)
        if isinstance(group, DictConfig) and former in group:
            group[key] = group.pop(former)
    return from_mapping(kind, values, str(path))


def differing_keys(first: Any, second: Any) -> list[str]:
    """Dotted keys whose values differ between two configurations, each with both values."""
    return [
        f"{key}: {one} != {other}"
        for key, (one, other) in differing_values(to_plain(first), to_plain(second)).items()
    ]


def differing_values(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Dotted keys of two nested mappings whose values differ, each with both; or "absent"."""
    flat_first, flat_second = flattened(first), flattened(second)
    pairs = {
        key: (flat_first.get(key, "absent"), flat_second.get(key, "absent"))
        for key in sorted(flat_first.keys() | flat_second.keys())
    }
    return {key: (one, other) for key, (one, other) in pairs.items() if one != other}


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(flattened(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
