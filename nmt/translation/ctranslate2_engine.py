"""Engine that searches with the C++ library CTranslate2 and the weights of a trained model."""

import math
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ctranslate2
import torch

from nmt.base.errors import UserError, is_out_of_memory
from nmt.config import ARRANGING_KEYS, DecodingConfig, to_plain
from nmt.search.hypothesis import Hypothesis, NBest, length_penalty, penalty_exponent
from nmt.search.request import Ids, Request
from nmt.trained_model import TrainedModel
from nmt.translation.engine import LENGTH_KEYS, BatchResults, Engine, banned_ids

_SUPPORTED_KEYS = {
    *("beam_size", "length_penalty", "length_penalty_kind", "num_best", "patience"),
    *LENGTH_KEYS,
    *ARRANGING_KEYS,
    "copy_untranslatable",  # no matter of the search
}
# Patience without `decoding.patience`: 1 changes up to 3 % of translations, 2 and 4 up to 0.1 %.
_PATIENCE = 2


class CTranslate2Engine(Engine):
    """Searches with CTranslate2, one batch per thread.

    The search for a sentence stops when 2 · K hypotheses have finished, or as `decoding.patience`
    says; `beam_search` continues while a live hypothesis can become one of the best. Hypotheses are
    ranked by our own `length_penalty`.

    Args:
        model: the model, for its tokenizers and limits.
        config: search options.
        folder: the model as converted by `nmt.exchange.ctranslate2`.
        compute_type: arithmetic of matrix products, as CTranslate2 names it: float32, int8, …

    Raises:
        UserError: CTranslate2 does not support the arithmetic on this machine or a search option.
    """

    can_require = False

    def __init__(
        self, model: TrainedModel, config: DecodingConfig, folder: Path, compute_type: str
    ) -> None:
        _check_supported(config)
        super().__init__(config, model)
        self._compute_type = compute_type
        self.note = f"ctranslate2 {compute_type}"
        try:
            self._translator = open_translator(
                folder,
                device=model.device.type,
                device_index=model.device.index or 0,
                compute_type=compute_type,
                # Several threads of a worker would wait for each other after each small product.
                inter_threads=self._num_workers,
                intra_threads=1,
            )
        except (RuntimeError, ValueError) as error:
            raise self._failure(error) from None
        self._target = model.target_tokenizer
        self._source_pieces = model.source_tokenizer.all_pieces()
        self._target_pieces = self._target.all_pieces()
        self._target_ids = {piece: index for index, piece in enumerate(self._target_pieces)}

    def _failure(self, error: Exception) -> UserError:
        return UserError(
            f"compute_type={self._compute_type}, device={self._model.device.type}: {error}; use"
            " compute_type=float32 and device=cpu"
        )

    def check(self, request: Request) -> None:
        """Raise UserError if a request has constraints."""
        if request.num_tokens or request.banned:
            raise UserError(
                "engine=ctranslate2 supports no prefix, required or banned; use engine=torch"
            )

    def _search_batches(self, requests: Sequence[Request]) -> BatchResults:
        # CTranslate2 has one length limit per batch, here the highest limit of its sentences.
        # Sentences that reach a lower limit of their own are searched again, grouped by limit.
        again: dict[int, list[int]] = defaultdict(list)

        def search(batches: list[list[int]]) -> BatchResults:
            sources = [[requests[index].source for index in batch] for batch in batches]
            limits = [requests[batch[0]].max_length for batch in batches]
            # If this loop is interrupted, `map` cancels the batches that have not begun.
            found = pool.map(self._translate, sources, limits)
            for batch, limit, results in zip(batches, limits, found, strict=True):
                complete = {}
                for index, result in zip(batch, results, strict=True):
                    own_limit = requests[index].max_length
                    if own_limit < limit and own_limit <= max(map(len, result.hypotheses)):
                        again[own_limit].append(index)
                    else:
                        complete[index] = self._rank(result)
                yield list(complete), list(complete.values())

        with ThreadPoolExecutor(self._num_workers) as pool:
            yield from search(self._batches(requests))
            yield from search(list(again.values()))

    def _translate(self, sources: list[Ids], limit: int) -> list[Any]:
        config = self._config
        exponent = penalty_exponent(config)
        num_finished = math.ceil((config.patience or _PATIENCE) * config.beam_size)
        if config.beam_size == 1 or not (exponent or config.num_best > 1):
            # Without a penalty, CTranslate2 then stops when the best hypothesis has finished.
            num_finished = 1
        try:
            return self._translator.translate_batch(
                [[self._source_pieces[i] for i in ids] for ids in sources],
                max_batch_size=config.batch_size,
                beam_size=config.beam_size,
                patience=num_finished / config.beam_size,
                num_hypotheses=num_finished,
                length_penalty=exponent,
                disable_unk=True,
                suppress_sequences=[[self._target_pieces[i]] for i in banned_ids(self._target)],
                return_end_token=True,
                return_scores=True,
                max_input_length=0,
                min_decoding_length=max(0, min(config.min_length, limit) - 1),  # without EOS
                max_decoding_length=limit,
            )
        except RuntimeError as error:  # for example, the first call finds no CUDA library
            if is_out_of_memory(error):
                raise
            raise self._failure(error) from None

    def _rank(self, result: Any) -> list[Hypothesis]:
        """Rank hypotheses by our score, cut-off ones last; of equal texts, keep the best one."""
        exponent = penalty_exponent(self._config)
        best = NBest(self._config.num_best, lambda ids: self._target.decode([ids])[0])
        pairs = list(zip(result.hypotheses, result.scores, strict=True))
        eos = self._target_pieces[self._target.eos_id]
        for pieces, score in sorted(pairs, key=lambda pair: pair[0][-1] != eos):
            ids = [self._target_ids[piece] for piece in pieces]
            # CTranslate2's score is log_prob / n ** alpha, where n counts EOS.
            log_prob = score * len(ids) ** exponent
            our_score = log_prob / length_penalty(len(ids), self._config)
            if pieces[-1] == eos:
                best.add_finished(Hypothesis(ids[:-1], log_prob, our_score, []))
            else:
                best.add_cut_off(Hypothesis(ids, log_prob, our_score, []))
        return best.hypotheses


def _check_supported(config: DecodingConfig) -> None:
    """Reject search options that CTranslate2 would ignore."""
    defaults = to_plain(type(config)())
    for key, value in to_plain(config).items():
        if key not in _SUPPORTED_KEYS and value != defaults[key]:
            raise UserError(
                f"decoding.{key}={value}: engine=ctranslate2 does not support it; use engine=torch"
            )


def open_translator(folder: Path, **options: Any) -> ctranslate2.Translator:
    """Load a converted model, and keep the number of threads of torch."""
    num_threads = torch.get_num_threads()
    translator = ctranslate2.Translator(str(folder), **options)
    # CTranslate2 changes the number of OpenMP threads, which torch uses too.
    torch.set_num_threads(num_threads)
    return translator
