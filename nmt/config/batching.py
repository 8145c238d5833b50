"""Configuration group `batching`: updates and micro-batches."""

from enum import StrEnum

from nmt.config.fields import MAX_TOKENS, checked_dataclass, option, require

Layout = StrEnum("Layout", "auto bucketed packed")


@checked_dataclass
class BatchingConfig:
    """How pairs are grouped into updates and micro-batches."""

    layout: Layout = Layout.auto
    """`bucketed`: an update consists of buckets of pairs of similar length, one pair per row;
    `packed`: of pairs of all lengths, side by side in rows of one length, which suits GPUs; `auto`:
    bucketed. It is stored with the run."""
    target_tokens_per_update: int = option(25_000, ge=1, le=1_000_000_000)
    """Approximate number of target tokens per update, including EOS and excluding padding."""
    tokens_per_micro_batch: int | str = 4_096
    """Maximum number of tokens, including padding, that a micro-batch has on each side; `auto`: as
    many as fit into memory."""
    max_source_length: int = option(256, ge=2, le=MAX_TOKENS)
    """Maximum source length in tokens, including EOS; longer pairs are left out of training."""
    max_target_length: int = option(256, ge=2, le=MAX_TOKENS)
    """Maximum target length in tokens, including EOS; longer pairs are left out of training."""

    def __post_init__(self) -> None:
        tokens = self.tokens_per_micro_batch
        require(
            self.is_auto or (isinstance(tokens, int) and tokens >= self.longest),
            f"batching.tokens_per_micro_batch={tokens} must be auto or at least {self.longest},"
            " the larger of batching.max_source_length and batching.max_target_length",
        )

    @property
    def longest(self) -> int:
        """Maximum number of tokens of a training sentence, on either side.

        Packed rows have this number of positions.
        """
        return max(self.max_source_length, self.max_target_length)

    @property
    def is_auto(self) -> bool:
        """Whether the micro-batch size is still to be determined."""
        return self.tokens_per_micro_batch == "auto"

    @property
    def max_micro_batch_tokens(self) -> int:
        """`tokens_per_micro_batch`, which must not be `auto`."""
        assert isinstance(self.tokens_per_micro_batch, int)
        return self.tokens_per_micro_batch
