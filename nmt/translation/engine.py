"""Base class of the engines, which search for translations."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import torch

from nmt.base.errors import UserError
from nmt.base.progress import Advance
from nmt.config import DecodingConfig
from nmt.search.hypothesis import Hypothesis
from nmt.search.request import Request
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel

BatchResults = Iterator[tuple[list[int], list[list[Hypothesis]]]]
"""For each batch, the indices of its requests, and the hypotheses of each request."""

LENGTH_KEYS = ("max_length_ratio", "max_length_offset", "max_length", "min_length")
"""Keys of `decoding` that limit the length of a translation."""

_MIN_SHARE = 8
"""Number of requests above which they are divided among all workers."""

MAX_ROWS = 16_384
"""Largest number of hypotheses decoded together: with 32,000 pieces their logits take 2 GB."""


class Engine(ABC):
    """Searches for translations of source ids with one model, or with several together.

    Attributes:
        longest_source: largest length of a source in tokens, EOS included.
        longest_target: largest length of a translation in tokens, EOS included.
        can_require: whether phrases can be required of a translation.
        note: program and arithmetic, for `scores.json`; empty for torch.
    """

    can_require = True
    note = ""

    def __init__(self, config: DecodingConfig, *models: TrainedModel) -> None:
        self._config = config
        self._model = models[0]
        self.longest_target = min(model.config.model.max_length for model in models)
        self.longest_source = min(model.config.max_source_length for model in models)

    @property
    def _num_workers(self) -> int:
        """Number of batches searched at the same time."""
        if self._model.device.type != "cpu":
            return 1
        return self._config.num_workers or torch.get_num_threads()

    @property
    def scoring(self) -> "Engine":
        """An engine with the same translations and, if there is one, with `token_log_probs`."""
        return self

    def check(self, request: Request) -> None:
        """Raise UserError if a request cannot be fulfilled."""
        longest = self.longest_target - 1
        if request.num_tokens > longest:
            raise UserError(
                f"prefix and required phrases have {request.num_tokens} tokens, but a translation"
                f" by this model has at most {longest} besides EOS; shorten them"
            )

    def longest_translation(self, source_length: int, request: Request) -> int:
        """Return the largest length of a translation of a source; both lengths include EOS.

        This length has space for the constraints and EOS, unless it would exceed `longest_target`.
        """
        config = self._config
        longest = int(config.max_length_ratio * source_length) + config.max_length_offset
        longest = min(longest, config.max_length or longest)
        return min(max(longest, request.num_tokens + 1), self.longest_target)

    def search(
        self,
        sources: Sequence[Sequence[int]],
        progress: Advance | None = None,
        requests: Sequence[Request] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search for translations; in float32, order and batch size do not change them.

        Args:
            sources: ids of each source without EOS, none of them empty or too long.
            progress: called with the number of sources just completed.
            requests: constraints on each translation, accepted by `check`; None for no constraints.

        Returns:
            For each source one to num_best hypotheses, best first; those of beam search have
            different texts.
        """
        requests = [
            replace(request, source=ids, max_length=self.longest_translation(len(ids) + 1, request))
            for ids, request in zip(sources, requests or [Request()] * len(sources), strict=True)
        ]
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for batch, hypotheses in self._search_batches(requests):
            for index, best in zip(batch, hypotheses, strict=True):
                found[index] = best
            if progress:
                progress(len(batch))
        return found

    @abstractmethod
    def _search_batches(self, requests: Sequence[Request]) -> BatchResults:
        """Search each request once, in batches that the engine chooses."""

    def _batches(
        self, requests: Sequence[Request], indices: Sequence[int] | None = None
    ) -> list[list[int]]:
        """Group the indices of requests, or these indices, with sources of similar length."""

        chosen = range(len(requests)) if indices is None else indices
        share = max(_MIN_SHARE, math.ceil(len(chosen) / self._num_workers))

        def size(length: int) -> int:
            config = self._config
            by_memory = min(config.batch_tokens // length, MAX_ROWS // config.beam_size)
            return max(1, min(config.batch_size, by_memory, share))

        lengths = [len(requests[index].source) + 1 for index in chosen]
        return [[chosen[index] for index in batch] for batch in length_batches(lengths, size)]


def length_batches(lengths: Sequence[int], size: Callable[[int], int]) -> list[list[int]]:
    """Group the indices of similar lengths; `size` maps the largest length to the size of a batch.

    The largest lengths come first, so that a batch that does not fit into memory fails at once.
    """
    order = iter(sorted(range(len(lengths)), key=lambda index: -lengths[index]))
    return [[first, *islice(order, size(lengths[first]) - 1)] for first in order]


def banned_ids(target: Tokenizer) -> tuple[int, ...]:
    """Return the tokens that never occur in a translation."""
    return target.pad_id, target.bos_id, target.unknown_id
