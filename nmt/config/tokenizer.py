"""Configuration group `tokenizer`: subwords."""

from enum import StrEnum

from nmt.config.fields import Symbol, checked_dataclass, option

TokenizerAlgorithm = StrEnum("TokenizerAlgorithm", "bpe unigram")


@checked_dataclass
class TokenizerConfig:
    """Subwords, learned by sentencepiece."""

    path: str = option("", free=True)
    """A sentencepiece model to use instead of learning one, or a folder with `tokenizer.model` or,
    for joint=false, `tokenizer.<language>.model`. Of the other keys of this group, only joint then
    has an effect."""
    algorithm: TokenizerAlgorithm = TokenizerAlgorithm.bpe
    """The sentencepiece model type."""
    vocabulary_size: int = option(8_000, ge=16, le=1_000_000)
    """Number of pieces in a vocabulary, including special ones."""
    joint: bool = True
    """One vocabulary for both languages; false learns one for each."""
    character_coverage: float = option(1.0, ge=0.98, le=1)
    """Share of the characters of the training text that get a piece of their own."""
    byte_fallback: bool = True
    """Encode unknown characters as bytes, so that decoding restores them."""
    split_digits: bool = False
    """Make each digit a piece of its own."""
    user_symbols: list[Symbol] = option([])
    """Texts that become one piece each, wherever they occur, such as `<name>`."""
    sample_sentences: int = option(2_000_000, ge=0, le=1_000_000_000)
    """Number of sentences, sampled from the cleaned text, to learn from; 0 uses all."""
