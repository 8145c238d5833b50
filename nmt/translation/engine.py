"""Interface of the engines that search translations, and limits that they share."""

from collections.abc import Callable, Sequence
from typing import Protocol

from nmt.config import DecodingConfig
from nmt.search.hypothesis import Hypothesis
from nmt.search.request import Request
from nmt.tokenizer import Tokenizer

# Largest number of hypotheses decoded together: with 32,000 pieces their logits take 2 GB.
_MAX_ROWS = 16_384


class Engine(Protocol):
    """Searches translations of source ids with one model and one search configuration."""

    longest_source: int  # ids of a source, EOS included
    longest_target: int  # ids of a translation, EOS included

    def reason_to_reject(self, request: Request) -> str:
        """Return why a request cannot be fulfilled, or an empty string."""

    def search(
        self,
        sources: Sequence[Sequence[int]],
        progress: Callable[[int], None] | None = None,
        requests: Sequence[Request] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search translations; the engine chooses the batches.

        Args:
            sources: ids of each source without EOS, none of them empty or too long.
            progress: called with the number of sources just completed.
            requests: constraints on each translation, none of them rejected; None for none.

        Returns:
            For each source one to num_best hypotheses, best first; those of beam search have
            different texts.
        """


def longest_translation(
    config: DecodingConfig, max_length: int, source_length: int, request: Request | None = None
) -> int:
    """Return the longest translation of a source in tokens; all lengths include EOS.

    There is space for the constraints of the request and one more token.
    """
    longest = int(config.max_length_ratio * source_length) + config.max_length_offset
    longest = min(longest, config.max_length or longest)
    constrained = request.num_tokens if request else 0
    return max(1, min(max(longest, constrained + 1), max_length))


def length_batches(lengths: list[int], config: DecodingConfig) -> list[list[int]]:
    """Group the indices of sources of similar length.

    The longest come first, so that a batch that does not fit into memory fails at once.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches = []
    start = 0
    while start < len(order):
        size = min(config.batch_size, config.batch_tokens // lengths[order[start]])
        size = max(1, min(size, _MAX_ROWS // config.beam_size))
        batches.append(order[start : start + size])
        start += size
    return batches


def banned_ids(target: Tokenizer) -> tuple[int, ...]:
    """Return the tokens that never occur in a translation."""
    return target.pad_id, target.bos_id, target.unknown_id
