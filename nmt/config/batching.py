"""Configuration group `batching`: updates and micro-batches."""

from dataclasses import dataclass

from nmt.config.fields import MAX_TOKENS, bounded, check_fields, require


@dataclass(frozen=True)
class BatchingConfig:
    """How pairs are grouped into updates and micro-batches."""

    target_tokens_per_update: int = bounded(25_000, 1, 1_000_000_000)
    """Number of target tokens, including EOS and excluding padding, per optimizer step."""
    tokens_per_micro_batch: int | str = bounded(4_096, 1, 1_000_000_000)
    """Maximum number of padded tokens, on either side, per pass; auto: what fits into memory."""
    max_source_length: int = bounded(256, 2, MAX_TOKENS)
    """Maximum source length in tokens, including EOS; longer pairs are left out of training."""
    max_target_length: int = bounded(256, 2, MAX_TOKENS)
    """Maximum target length in tokens, including EOS; longer pairs are left out of training."""

    def __post_init__(self) -> None:
        check_fields(self, "batching.")
        tokens, key = self.tokens_per_micro_batch, "batching.tokens_per_micro_batch"
        require(
            isinstance(tokens, int) or self.is_auto,
            f"{key}={tokens} is neither an integer nor auto",
        )
        require(
            self.is_auto or self.max_micro_batch_tokens >= self.longest,
            f"{key}={tokens} is below the longest pair of {self.longest} tokens: raise it, or lower"
            " batching.max_source_length and batching.max_target_length",
        )

    @property
    def longest(self) -> int:
        """Maximum number of tokens of a training sentence, on either side."""
        return max(self.max_source_length, self.max_target_length)

    @property
    def is_auto(self) -> bool:
        """Whether the micro-batch size is still to be determined."""
        return self.tokens_per_micro_batch == "auto"

    @property
    def max_micro_batch_tokens(self) -> int:
        """Maximum number of padded tokens, on either side, of a micro-batch; not while `auto`."""
        assert isinstance(self.tokens_per_micro_batch, int)
        return self.tokens_per_micro_batch
