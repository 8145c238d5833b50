"""The engine of CTranslate2: the same weights, searched by its C++ code."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

import ctranslate2
import torch

from nmt.config import ARRANGING_KEYS, DecodingConfig, LengthPenalty
from nmt.decoding.ctranslate2_folder import converted
from nmt.decoding.ctranslate2_spec import all_pieces
from nmt.decoding.engine import banned_ids, longest_translation
from nmt.decoding.hypothesis import Hypothesis, length_penalty
from nmt.decoding.task import Demand
from nmt.errors import UserError
from nmt.trained_model import TrainedModel

_KNOWN_KEYS = {
    *("beam_size", "length_penalty", "length_penalty_kind", "num_best", "no_repeat_ngram"),
    *("max_length_ratio", "max_length_offset", "max_length", "min_length"),
    *ARRANGING_KEYS,
}
"""Of `decoding.*`: what this engine searches by."""


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
            self._translator = ctranslate2.Translator(
                str(place),
                device,
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
        limits = [self._limit(ids, prefix) for ids, prefix in zip(sources, prefixes, strict=True)]
        common = max(limits, default=0)
        found = self._searched(sources, prefixes, common, progress)
        # One limit holds for a call: what went beyond its own is searched again, with its like.
        beyond: dict[int, list[int]] = {}
        for place, limit in enumerate(limits):
            if limit < common and any(len(one.ids) >= limit for one in found[place]):
                beyond.setdefault(limit, []).append(place)
        for limit, places in beyond.items():
            again = self._searched(
                [sources[place] for place in places], [prefixes[place] for place in places], limit
            )
            for place, hypotheses in zip(places, again, strict=True):
                found[place] = hypotheses
        return [hypotheses[: self._config.num_best] for hypotheses in found]

    def _limit(self, source: Sequence[int], prefix: Sequence[int]) -> int:
        """Most tokens of a translation, EOS included; beside a prefix there is room for one."""
        # EOS is a token too.
        limit = longest_translation(self._config, self.longest_target, len(source) + 1)
        return min(max(limit, len(prefix) + 1), self.longest_target)

    def _searched(
        self,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        limit: int,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """All hypotheses of each source that CTranslate2 tells, best first."""
        if not sources:
            return []
        config = self._config
        # Without a penalty the first one to end above all live ones wins, and it stops there.
        num_wanted = config.beam_size if _exponent(config) else config.num_best
        source_pieces = [[self._source_pieces[index] for index in ids] for ids in sources]
        prefix_pieces = [[self._target_pieces[index] for index in ids] for ids in prefixes]
        results = self._translator.translate_batch(
            source_pieces,
            prefix_pieces if any(prefixes) else None,
            max_batch_size=config.batch_size,
            asynchronous=True,  # so that progress can be told, and Ctrl-C is met between batches
            beam_size=config.beam_size,
            num_hypotheses=num_wanted,
            length_penalty=_exponent(config),
            no_repeat_ngram_size=config.no_repeat_ngram,
            disable_unk=True,
            suppress_sequences=self._banned,
            return_end_token=True,
            return_scores=True,
            max_input_length=0,
            min_decoding_length=max(0, min(config.min_length, limit) - 1),  # without EOS
            max_decoding_length=limit,
        )
        found = []
        of_prefixes = self._log_probs(source_pieces, prefix_pieces)
        for waiting, of_prefix in zip(results, of_prefixes, strict=True):
            result = waiting.result()
            found.append(self._ranked(result.hypotheses, result.scores, of_prefix))
            if progress:
                progress(1)
        return found

    def _log_probs(self, sources: list[list[str]], prefixes: list[list[str]]) -> list[float]:
        """The log-probability of each prefix, which is not in CTranslate2's scores."""
        if not any(prefixes):
            return [0.0] * len(sources)
        results = self._translator.score_batch(
            sources, prefixes, max_batch_size=self._config.batch_size, max_input_length=0
        )
        return [
            sum(result.log_probs[: len(prefix)])
            for result, prefix in zip(results, prefixes, strict=True)
        ]

    def _ranked(
        self, pieces: list[list[str]], scores: list[float], log_prob_of_prefix: float
    ) -> list[Hypothesis]:
        """Best first by our score; those that were cut off come last, as in `search`."""
        alpha = _exponent(self._config)
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


def _exponent(config: DecodingConfig) -> float:
    """What CTranslate2 raises the length to, to divide by it."""
    kinds = {LengthPenalty.none: 0.0, LengthPenalty.average: 1.0}
    return kinds.get(config.length_penalty_kind, config.length_penalty)


def _check_searchable(config: DecodingConfig) -> None:
    """Refuse by name what would be passed over in silence."""
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name not in _KNOWN_KEYS and value != field.default:
            raise UserError(
                f"decoding.{field.name}={value}: engine=ctranslate2 has no such search; take"
                " engine=torch"
            )
