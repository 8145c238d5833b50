"""Configuration group `tokenizer`: subwords."""

from dataclasses import dataclass
from enum import StrEnum

from nmt.config.fields import bounded, check_fields

TokenizerAlgorithm = StrEnum("TokenizerAlgorithm", "bpe unigram")


@dataclass(frozen=True)
class TokenizerConfig:
    """Subwords, learned by sentencepiece."""

    algorithm: TokenizerAlgorithm = TokenizerAlgorithm.bpe
    """The sentencepiece model type."""
    vocabulary_size: int = bounded(8_000, 16, 1_000_000)
    """Number of pieces in a vocabulary, including special ones."""
    joint: bool = True
    """One vocabulary for both languages; false learns one for each."""
    character_coverage: float = bounded(1.0, 0.98, 1)
    """Share of the characters of the training text that get a piece of their own."""
    byte_fallback: bool = True
    """Encode unknown characters as bytes, so that decoding restores them."""
    sample_sentences: int = bounded(2_000_000, 0, 1_000_000_000)
    """Number of sentences, sampled from the cleaned text, to learn from; 0 uses all."""
    dropout: float = bounded(0.0, 0, below=1, used_with=("algorithm", TokenizerAlgorithm.bpe))
    """Probability of skipping a merge in each copy of a training pair (Provilkov et al. 2020)."""

    def __post_init__(self) -> None:
        check_fields(self, "tokenizer.")
