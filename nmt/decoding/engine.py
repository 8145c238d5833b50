"""What turns source ids into hypotheses; `Translator` works with any engine."""

from collections.abc import Callable, Sequence
from typing import Protocol

from nmt.config import DecodingConfig
from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.task import Demand
from nmt.tokenizer import Tokenizer


class Engine(Protocol):
    """Searches translations of source ids with one model and one search configuration."""

    @property
    def longest_source(self) -> int:
        """Most ids of a source, EOS included."""

    @property
    def longest_target(self) -> int:
        """Most ids of a translation, EOS included."""

    def objection(self, demand: Demand) -> str:
        """Why a demand cannot be met; empty where it can be."""

    def search(
        self,
        sources: Sequence[Sequence[int]],
        progress: Callable[[int], None] | None = None,
        demands: Sequence[Demand] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search any number of sources; the engine batches them as it likes.

        Args:
            sources: ids of each source without EOS, none of them empty or longer than the model
                allows.
            progress: called with the number of sources just done.
            demands: what the translation of each source has to have, and must not have; None asks
                nothing; none to which there is an objection.

        Returns:
            For each source, in the order given, up to num_best hypotheses, best first; at least
            one.
        """


def longest_translation(config: DecodingConfig, max_length: int, source_length: int) -> int:
    """Most tokens of a translation, EOS included; at least one.

    Args:
        config: the search.
        max_length: most tokens that the model has positions for.
        source_length: tokens of the source, EOS included.
    """
    longest = int(config.max_length_ratio * source_length) + config.max_length_offset
    return max(1, min(longest, config.max_length or longest, max_length))


def most_together(config: DecodingConfig, longest_source: int) -> int:
    """How many sources are searched together at most; at least one.

    Args:
        config: the search.
        longest_source: tokens of the longest of them, EOS included.
    """
    return max(1, min(config.batch_size, config.batch_tokens // longest_source))


def banned_ids(target: Tokenizer) -> tuple[int, ...]:
    """Tokens that never occur in a translation."""
    return target.pad_id, target.bos_id, target.unknown_id
