"""Configuration group `decoding`: search."""

from enum import StrEnum
from typing import Any

from nmt.config.fields import (
    MAX_SEED,
    MAX_TOKENS,
    checked_dataclass,
    extra,
    free_keys,
    leaf_fields,
    option,
    require,
)
from nmt.config.files import to_plain

SearchMethod = StrEnum("SearchMethod", "beam sampling")
DecodingPrecision = StrEnum("DecodingPrecision", "float32 bfloat16 float16")
LengthPenalty = StrEnum("LengthPenalty", "gnmt average none")
FixedShapes = StrEnum("FixedShapes", "auto always never")

_MAX_BEAM = 1_024
_SMALLEST_TREE = 4  # (NP XX )NP EOS
_SAMPLING = ("method", SearchMethod.sampling)


@checked_dataclass
class DecodingConfig:
    """Settings of the search in validation, `translate` and `evaluate`."""

    beam_size: int = option(4, ge=1, le=_MAX_BEAM)
    """K, the number of hypotheses per sentence; 1 is greedy search."""
    length_penalty: float = option(0.6, ge=-10, le=10)
    """alpha of the penalty ((5 + n) / 6) ** alpha of n tokens with EOS (Wu et al. 2016, eq. 14)."""
    length_penalty_kind: LengthPenalty = LengthPenalty.gnmt
    """Divisor of the log-probability: `gnmt` as in length_penalty, `average` is n, `none` is 1."""
    num_best: int = option(1, ge=1, le=_MAX_BEAM)
    """Number of translations per sentence, best first."""
    max_length_ratio: float = option(2.0, ge=0, le=MAX_TOKENS)
    """Maximum translation length: max_length_ratio · source length + max_length_offset tokens."""
    max_length_offset: int = option(10, ge=0, le=MAX_TOKENS)
    """See max_length_ratio; the paper's maximum is the source length + 50 (section 6.1)."""
    max_length: int = option(0, ge=0, le=MAX_TOKENS)
    """Maximum translation length in tokens, including EOS, for any source; 0 means no limit."""
    min_length: int = option(2, ge=0, le=MAX_TOKENS)
    """Minimum translation length in tokens, including EOS. Below 2, translations may be empty, and
    the empty one is often the most probable (Stahlberg and Byrne 2019)."""
    copy_untranslatable: bool = True
    """Copy a text without letters, such as numbers, emoji or a URL, instead of translating it."""
    trees: bool = False
    """Allow only linearised trees over the words of the source, such as `(S (NP XX )NP XX )S`."""
    patience: float = option(0.0, ge=0, le=1_000)
    """Stop the search for a sentence after patience · K finished hypotheses (Kasai et al. 2022); 0:
    when its result can no longer change."""
    batch_size: int = option(64, ge=1, le=10_000, free=True)
    """Maximum number of sentences decoded together; in float32, it never changes a translation."""
    method: SearchMethod = SearchMethod.beam
    """`beam`, or `sampling`: beam_size translations are sampled independently."""
    temperature: float = option(1.0, ge=0.01, le=100, used_with=_SAMPLING)
    """`sampling`: divisor of the logits; below 1 favours probable tokens."""
    top_k: int = option(0, ge=0, le=1_000_000, used_with=_SAMPLING)
    """`sampling`: sample from the k most probable tokens; 0 means all."""
    top_p: float = option(1.0, gt=0, le=1, used_with=_SAMPLING)
    """`sampling`: sample from the fewest tokens whose probabilities sum to p or more (Holtzman et
    al. 2020)."""
    seed: int = option(1, ge=0, le=MAX_SEED, used_with=_SAMPLING)
    """`sampling`: seed; the samples of a sentence do not depend on the other sentences."""
    batch_tokens: int = option(16384, ge=1, le=1_000_000_000, free=True)
    """Maximum number of source tokens, including padding, decoded together; a longer sentence is
    decoded alone."""
    precision: DecodingPrecision = DecodingPrecision.float32
    """Arithmetic of the torch engine; int8 needs `engine=ctranslate2 compute_type=int8`."""
    fixed_shapes: FixedShapes = option(FixedShapes.auto, free=True)
    """Plain beam search by the torch engine in batches of fixed shapes, as CUDA graphs on a GPU:
    `auto` is `never`. In float32, it never changes a translation."""
    num_workers: int = option(0, ge=0, le=1_024, free=True)
    """On a CPU, number of batches decoded at the same time; 0: the number of torch threads."""

    def __post_init__(self) -> None:
        require(
            self.max_length == 0 or self.min_length <= self.max_length,
            f"decoding.min_length={self.min_length} is above decoding.max_length={self.max_length}",
        )
        require(
            not self.trees or self.min_length <= _SMALLEST_TREE,
            f"decoding.min_length={self.min_length} is above {_SMALLEST_TREE}, the number of tokens"
            " of the smallest tree (decoding.trees=true); lower it",
        )
        require(
            self.num_best <= self.beam_size,
            f"decoding.num_best={self.num_best} is above decoding.beam_size={self.beam_size}",
        )


ARRANGING_KEYS = frozenset(free_keys(DecodingConfig))
"""Keys of `decoding` that in float32 never change a translation."""

SAMPLING_KEYS = frozenset(
    key
    for key, field in leaf_fields(DecodingConfig).items()
    if extra(field, "used_with") == _SAMPLING
)
"""Keys of `decoding` that have an effect in sampling only."""


def search_keys(config: DecodingConfig) -> dict[str, Any]:
    """Return the settings that translations depend on: plain values by full keys."""
    # In lower precision, the other sentences of a batch may change a translation.
    left_out = ARRANGING_KEYS if config.precision is DecodingPrecision.float32 else ()
    values = to_plain(config).items()
    return {f"decoding.{name}": value for name, value in values if name not in left_out}
