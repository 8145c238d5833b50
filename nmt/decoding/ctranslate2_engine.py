"""The engine of CTranslate2: the same weights, searched by its C++ code."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

import ctranslate2
import torch

from nmt.config import DecodingConfig
from nmt.decoding.ctranslate2_folder import converted
from nmt.decoding.ctranslate2_spec import all_pieces
from nmt.decoding.engine import banned_ids, longest_translation
from nmt.decoding.search import Hypothesis, length_penalty
from nmt.errors import UserError
from nmt.trained_model import TrainedModel

_KNOWN_KEYS = {
    *("beam_size", "length_penalty", "num_best", "max_length_ratio", "max_length_offset"),
    "batch_size",
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
        threads = torch.get_num_threads() if device == "cpu" else 1
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
        self._max_length = model.config.model.max_length
        self._source_pieces = all_pieces(model.source_tokenizer)
        target_pieces = all_pieces(model.target_tokenizer)
        self._target_ids = {piece: index for index, piece in enumerate(target_pieces)}
        self._eos_id = model.target_tokenizer.eos_id
        self._banned = [[target_pieces[index]] for index in banned_ids(model.target_tokenizer)]

    def search(
        self,
        sources: Sequence[Sequence[int]],
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search any number of sources; see `Engine`."""
        # EOS is a token too.
        limits = [
            longest_translation(self._config, self._max_length, len(ids) + 1) for ids in sources
        ]
        common = max(limits, default=0)
        found = self._searched(sources, common, progress)
        # One limit holds for a call: what went beyond its own is searched again, with its like.
        beyond: dict[int, list[int]] = {}
        for place, limit in enumerate(limits):
            if limit < common and any(len(one.ids) >= limit for one in found[place]):
                beyond.setdefault(limit, []).append(place)
        for limit, places in beyond.items():
            again = self._searched([sources[place] for place in places], limit)
            for place, hypotheses in zip(places, again, strict=True):
                found[place] = hypotheses
        return [hypotheses[: self._config.num_best] for hypotheses in found]

    def _searched(
        self,
        sources: Sequence[Sequence[int]],
        limit: int,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """All hypotheses of each source that CTranslate2 tells, best first."""
        if not sources:
            return []
        config = self._config
        # Without a penalty the first one to end above all live ones wins, and it stops there.
        num_wanted = config.beam_size if config.length_penalty else config.num_best
        results = self._translator.translate_batch(
            [[self._source_pieces[index] for index in ids] for ids in sources],
            max_batch_size=config.batch_size,
            asynchronous=True,  # so that progress can be told, and Ctrl-C is met between batches
            beam_size=config.beam_size,
            num_hypotheses=num_wanted,
            length_penalty=config.length_penalty,
            disable_unk=True,
            suppress_sequences=self._banned,
            return_end_token=True,
            return_scores=True,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=limit,
        )
        found = []
        for waiting in results:
            result = waiting.result()
            found.append(self._ranked(result.hypotheses, result.scores))
            if progress:
                progress(1)
        return found

    def _ranked(self, pieces: list[list[str]], scores: list[float]) -> list[Hypothesis]:
        """Best first by our score; those that were cut off come last, as in `search`."""
        alpha = self._config.length_penalty
        ended: list[Hypothesis] = []
        cut_off: list[Hypothesis] = []
        for tokens, score in zip(pieces, scores, strict=True):
            ids = [self._target_ids[token] for token in tokens]
            # Its score is the sum over n ** alpha, with EOS in n.
            log_prob = score * len(ids) ** alpha
            has_ended = ids[-1] == self._eos_id
            hypothesis = Hypothesis(
                ids[:-1] if has_ended else ids,
                log_prob,
                log_prob / length_penalty(len(ids), alpha),
                [],
            )
            (ended if has_ended else cut_off).append(hypothesis)
        ended.sort(key=lambda one: -one.score)
        return ended + cut_off


def _check_searchable(config: DecodingConfig) -> None:
    """Refuse by name what would be passed over in silence."""
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name not in _KNOWN_KEYS and value != field.default:
            raise UserError(
                f"decoding.{field.name}={value}: engine=ctranslate2 has no such search; take"
                " engine=torch"
            )
