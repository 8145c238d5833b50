"""The engine of CTranslate2: the same weights, searched by its C++ code."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import ctranslate2
import torch

from nmt.config import ARRANGING_KEYS, DecodingConfig, to_plain
from nmt.decoding.ctranslate2_folder import converted, open_translator
from nmt.decoding.ctranslate2_spec import all_pieces
from nmt.decoding.engine import banned_ids, longest_translation, most_together
from nmt.decoding.hypothesis import Hypothesis, length_penalty, penalty_exponent
from nmt.decoding.task import Demand
from nmt.errors import UserError
from nmt.trained_model import TrainedModel

_KNOWN_KEYS = {
    *("beam_size", "length_penalty", "length_penalty_kind", "num_best", "no_repeat_ngram"),
    *("max_length_ratio", "max_length_offset", "max_length", "min_length"),
    *ARRANGING_KEYS,
}
"""Of `decoding.*`: what this engine searches by."""

_FEW = 4
"""Below the batch size over this, sentences of one length are too few for a batch of their own."""


@dataclass(frozen=True)
class _Asked:
    """A sentence, by its place among all: source and prefix ids, and the most tokens, EOS too."""

    place: int
    source: Sequence[int]
    prefix: Sequence[int]
    limit: int


@dataclass(frozen=True)
class _UnderWay:
    """A batch that CTranslate2 searches or has searched; log-probabilities of the prefixes."""

    batch: Sequence[_Asked]
    results: Sequence[Any]
    of_prefixes: Sequence[Callable[[], float]]

    def is_done(self) -> bool:
        """Whether all of it has been searched."""
        return all(result.done() for result in self.results)


class CTranslate2Engine:
    """Searches with CTranslate2, on as many threads as torch has.

    It stops searching a sentence when K hypotheses have ended, where `search` goes on as long as
    another one could still win. What it has found is ranked here, by our length penalty.

    Args:
        model: the model; of its weights nothing is used but for a conversion.
        config: the search.
        folder: the folder that the model was loaded from.
        compute_type: the arithmetic of its matrix products: float32, int8, … as CTranslate2 names
            them; the rest is computed in float32.

    Raises:
        UserError: this machine has no such arithmetic, the search asks for what it cannot do, or
            CTranslate2 cannot hold the model.
    """

    def __init__(
        self, model: TrainedModel, config: DecodingConfig, folder: Path, compute_type: str
    ) -> None:
        _check_searchable(config)
        device = model.device.type
        try:
            known = sorted(ctranslate2.get_supported_compute_types(device))
        except (RuntimeError, ValueError) as error:
            raise UserError(
                f"engine=ctranslate2: no use of {device} here ({error}); take device=cpu"
            ) from None
        if compute_type not in known:
            raise UserError(
                f"compute_type={compute_type}: CTranslate2 has no such arithmetic on this"
                f" {device}; take one of {', '.join(known)}"
            )
        # Workers of one thread each: they do not wait for each other at every small product.
        threads = (config.num_workers or torch.get_num_threads()) if device == "cpu" else 1
        with converted(model, folder) as place:
            self._translator = open_translator(
                place,
                device=device,
                device_index=model.device.index or 0,
                compute_type=compute_type,
                inter_threads=threads,
                intra_threads=1,
            )
        self._config = config
        self.longest_target = model.config.model.max_length
        self.longest_source = min(model.config.max_source_length, self.longest_target)
        self._source_pieces = all_pieces(model.source_tokenizer)
        target_pieces = all_pieces(model.target_tokenizer)
        self._target_pieces = target_pieces
        self._target_ids = {piece: index for index, piece in enumerate(target_pieces)}
        self._eos_id = model.target_tokenizer.eos_id
        self._banned = [[target_pieces[index]] for index in banned_ids(model.target_tokenizer)]

    def objection(self, demand: Demand) -> str:
        """Why a demand cannot be met; see `Engine`."""
        if demand.banned or demand.required:
            return "engine=ctranslate2 cannot require or ban a phrase; take engine=torch"
        return ""

    def search(
        self,
        sources: Sequence[Sequence[int]],
        progress: Callable[[int], None] | None = None,
        demands: Sequence[Demand] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search any number of sources; see `Engine`."""
        prefixes = [demand.prefix for demand in demands] if demands else [()] * len(sources)
        asked = [
            _Asked(place, ids, prefix, self._limit(ids, prefix))
            for place, (ids, prefix) in enumerate(zip(sources, prefixes, strict=True))
        ]
        found: list[list[Hypothesis]] = [[] for _ in sources]
        batches = self._batches(asked)
        for one, hypotheses in self._searched(batches):
            found[one.place] = hypotheses
            if progress:
                progress(1)
        # What went beyond its own limit is searched again, with its like.
        beyond: dict[int, list[_Asked]] = {}
        for batch in batches:
            for one in batch:
                is_beyond = any(len(best.ids) >= one.limit for best in found[one.place])
                if one.limit < batch[0].limit and is_beyond:
                    beyond.setdefault(one.limit, []).append(one)
        for one, hypotheses in self._searched(list(beyond.values())):
            found[one.place] = hypotheses
        return [hypotheses[: self._config.num_best] for hypotheses in found]

    def _limit(self, source: Sequence[int], prefix: Sequence[int]) -> int:
        """Most tokens of a translation, EOS included; beside a prefix there is room for one."""
        # EOS is a token too.
        limit = longest_translation(self._config, self.longest_target, len(source) + 1)
        return min(max(limit, len(prefix) + 1), self.longest_target)

    def _batches(self, asked: Sequence[_Asked]) -> list[list[_Asked]]:
        """The longest first; of one limit, or where those are few, with the next lower ones.

        CTranslate2 has one limit for a batch, its first sentence's: under a higher one than its own
        a sentence may have to be searched again, and in small batches each of them takes longer.
        """
        by_length = sorted(asked, key=lambda one: (-one.limit, -len(one.source)))
        batches: list[list[_Asked]] = []
        batch: list[_Asked] = []
        for _, alike in groupby(by_length, key=lambda one: one.limit):
            starts_anew = len(batch) * _FEW >= self._most_with(batch)
            for one in alike:
                if starts_anew or len(batch) >= self._most_with([*batch, one]):
                    batches.append(batch)
                    batch = []
                    starts_anew = False
                batch.append(one)
        return [*batches, batch] if batch else batches

    def _most_with(self, batch: Sequence[_Asked]) -> int:
        """How many sentences may be searched together where these are among them."""
        # Not always the first: a prefix, too, may make a limit high.
        longest = max((len(one.source) + 1 for one in batch), default=1)
        return most_together(self._config, longest)

    def _searched(
        self, batches: Sequence[Sequence[_Asked]]
    ) -> Iterator[tuple[_Asked, list[Hypothesis]]]:
        """All hypotheses that CTranslate2 tells of each, best first; a limit a batch, its first's.

        Batches are searched side by side; what is done is told while others are under way.
        """
        under_way: deque[_UnderWay] = deque()
        for batch in batches:
            under_way.append(self._begun(batch))  # waits while too many are
            while under_way and under_way[0].is_done():
                yield from self._ended(under_way.popleft())
        while under_way:
            yield from self._ended(under_way.popleft())

    def _begun(self, batch: Sequence[_Asked]) -> _UnderWay:
        config = self._config
        limit = batch[0].limit
        # Without a penalty the first one to end above all live ones wins, and it stops there.
        num_wanted = config.beam_size if penalty_exponent(config) else config.num_best
        source_pieces = [[self._source_pieces[index] for index in one.source] for one in batch]
        prefix_pieces = [[self._target_pieces[index] for index in one.prefix] for one in batch]
        results = self._translator.translate_batch(
            source_pieces,
            prefix_pieces if any(prefix_pieces) else None,
            max_batch_size=config.batch_size,
            asynchronous=True,  # so that progress can be told, and Ctrl-C is met between batches
            beam_size=config.beam_size,
            num_hypotheses=num_wanted,
            length_penalty=penalty_exponent(config),
            no_repeat_ngram_size=config.no_repeat_ngram,
            disable_unk=True,
            suppress_sequences=self._banned,
            return_end_token=True,
            return_scores=True,
            max_input_length=0,
            min_decoding_length=max(0, min(config.min_length, limit) - 1),  # without EOS
            max_decoding_length=limit,
        )
        return _UnderWay(batch, results, self._log_probs(source_pieces, prefix_pieces))

    def _ended(self, under_way: _UnderWay) -> Iterator[tuple[_Asked, list[Hypothesis]]]:
        parts = (under_way.batch, under_way.results, under_way.of_prefixes)
        for one, waiting, of_prefix in zip(*parts, strict=True):
            result = waiting.result()
            yield one, self._ranked(result.hypotheses, result.scores, of_prefix())

    def _log_probs(
        self, sources: list[list[str]], prefixes: list[list[str]]
    ) -> list[Callable[[], float]]:
        """Waits for the log-probability of each prefix, which is not in CTranslate2's scores."""
        if not any(prefixes):
            return [float] * len(sources)
        results = self._translator.score_batch(
            sources,
            prefixes,
            max_batch_size=self._config.batch_size,
            max_input_length=0,
            asynchronous=True,
        )
        return [
            partial(_sum_of_first, result, len(prefix))
            for result, prefix in zip(results, prefixes, strict=True)
        ]

    def _ranked(
        self, pieces: list[list[str]], scores: list[float], log_prob_of_prefix: float
    ) -> list[Hypothesis]:
        """Best first by our score; those that were cut off come last, as in `search`."""
        alpha = penalty_exponent(self._config)
        ended: list[Hypothesis] = []
        cut_off: list[Hypothesis] = []
        for tokens, score in zip(pieces, scores, strict=True):
            ids = [self._target_ids[token] for token in tokens]
            # Its score is the sum over n ** alpha, with EOS in n.
            log_prob = score * len(ids) ** alpha + log_prob_of_prefix
            has_ended = ids[-1] == self._eos_id
            hypothesis = Hypothesis(
                ids[:-1] if has_ended else ids,
                log_prob,
                log_prob / length_penalty(len(ids), self._config),
                [],
            )
            (ended if has_ended else cut_off).append(hypothesis)
        ended.sort(key=lambda one: -one.score)
        return ended + cut_off


def _sum_of_first(scoring: Any, count: int) -> float:
    return float(sum(scoring.result().log_probs[:count]))


def _check_searchable(config: DecodingConfig) -> None:
    """Refuse by name what would be passed over in silence."""
    usual = to_plain(type(config)())
    for key, value in to_plain(config).items():
        if key not in _KNOWN_KEYS and value != usual[key]:
            raise UserError(
                f"decoding.{key}={value}: engine=ctranslate2 has no such search; take engine=torch"
            )
