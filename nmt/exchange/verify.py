"""Comparison of an exported model, run by the other program, with the model in torch."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from nmt.base.errors import UserError
from nmt.config import ARRANGING_KEYS, DecodingConfig, LengthPenalty
from nmt.exchange.interface import Runtime
from nmt.metrics.scores import bleu_score
from nmt.trained_model import TrainedModel
from nmt.translation.engine import LENGTH_KEYS
from nmt.translation.forced import ForcedDecoder, Pair
from nmt.translation.torch_engine import TorchEngine

_RANDOM_LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34)
_NUM_SCORED = 200


@dataclass(frozen=True)
class Text:
    """Aligned sentences for the comparison of translations; `name` describes their origin."""

    name: str
    sources: Sequence[str]
    references: Sequence[str]


@dataclass(frozen=True)
class Verification:
    """Result of a comparison.

    Attributes:
        largest_difference: of the log-probability of a token, in nats.
        num_scored: number of pairs whose tokens were compared.
        num_equal: number of greedy translations equal to those of torch; None without text.
        num_texts: number of sentences translated.
        bleu: BLEU of these translations by torch and by the other program.
    """

    largest_difference: float
    num_scored: int
    num_equal: int | None = None
    num_texts: int = 0
    bleu: tuple[float, float] = (math.nan, math.nan)

    def lines(self, text: Text | None) -> list[str]:
        """Describe the result in sentences; `text` is the text that was compared."""
        found = [
            f"log-probabilities of tokens differ from those of torch by at most"
            f" {self.largest_difference:.1e} nats in {self.num_scored} sentences"
        ]
        if text is not None:
            torch_bleu, bleu = self.bleu
            found += [
                f"{self.num_equal:,} of {self.num_texts:,} translations of {text.name} by greedy"
                " search are equal to those of torch",
                f"BLEU of these translations: {bleu:.2f}, by torch {torch_bleu:.2f}, a difference"
                f" of {bleu - torch_bleu:+.2f}",
            ]
        return found


def verify_all(
    runtimes: Sequence[Runtime],
    model: TrainedModel,
    text: Text | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Verification]:
    """Compare exported models with the one in torch; results of torch are computed only once.

    Args:
        runtimes: the exported models.
        model: the model in torch, on a CPU.
        text: sentences to translate by greedy search; without text, only random ids are scored.
        progress: called with the number of sentences just translated by torch.

    Returns:
        One result for each runtime, in their order.

    Raises:
        UserError: no line of the text can be compared, the numbers of tokens differ, or a
            log-probability differs by more than the tolerance of its runtime (see `Runtime`).
    """
    pairs = _random_pairs(model) if text is None else _fitting_pairs(model, text)[:_NUM_SCORED]
    if not pairs:
        raise UserError(
            "all lines of the text to compare are empty or too long for the model; use another text"
        )
    log_probs = ForcedDecoder(model).token_log_probs(pairs)
    sources, targets = ([list(pair[side]) for pair in pairs] for side in range(2))
    differences = [
        _largest_difference(log_probs, runtime.token_log_probs(sources, targets), runtime.tolerance)
        for runtime in runtimes
    ]
    if text is None:
        return [Verification(difference, len(pairs)) for difference in differences]
    engine = TorchEngine(model, greedy(model))
    ids = model.source_tokenizer.encode(list(text.sources))
    fitting = [i for i, sequence in enumerate(ids) if 0 < len(sequence) < engine.longest_source]
    found = engine.search([ids[i] for i in fitting], progress)
    expected = model.target_tokenizer.decode([best[0].ids for best in found])
    references = [text.references[i] for i in fitting]
    torch_bleu = bleu_score(expected, references).score
    verifications = []
    for runtime, difference in zip(runtimes, differences, strict=True):
        translations = runtime.translate([text.sources[i] for i in fitting])
        num_equal = sum(a == b for a, b in zip(expected, translations, strict=True))
        bleu = torch_bleu, bleu_score(translations, references).score
        verifications.append(Verification(difference, len(pairs), num_equal, len(fitting), bleu))
    return verifications


def verify(runtime: Runtime, model: TrainedModel, text: Text | None = None) -> Verification:
    """Compare one exported model with the one in torch; see `verify_all`."""
    return verify_all([runtime], model, text)[0]


def greedy(model: TrainedModel) -> DecodingConfig:
    """Return the settings of greedy search, with the length limits of the model's own search."""
    own = model.config.decoding
    kept = {key: getattr(own, key) for key in (*LENGTH_KEYS, *ARRANGING_KEYS)}
    return DecodingConfig(beam_size=1, length_penalty_kind=LengthPenalty.none, **kept)


def _random_pairs(model: TrainedModel) -> list[Pair]:
    """Return pairs of random ids, for a comparison without text."""
    generator = torch.Generator().manual_seed(1)
    limits = (model.config.max_source_length - 1, model.config.model.max_length - 1)
    orders, sides = (_RANDOM_LENGTHS, _RANDOM_LENGTHS[::-1]), []
    for tokenizer, limit, lengths in zip(model.tokenizers, limits, orders, strict=True):
        special = (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unknown_id)
        ordinary = [i for i in range(tokenizer.vocabulary_size) if i not in special]
        drawn = [
            torch.randint(len(ordinary), (min(length, limit),), generator=generator).tolist()
            for length in lengths
        ]
        sides.append([[ordinary[index] for index in ids] for ids in drawn])
    return list(zip(*sides, strict=True))


def _fitting_pairs(model: TrainedModel, text: Text) -> list[Pair]:
    """Return the ids of the pairs that fit the model and are empty on neither side."""
    fits = ForcedDecoder(model).fits
    sources = model.source_tokenizer.encode(list(text.sources))
    targets = model.target_tokenizer.encode(list(text.references))
    return [pair for pair in zip(sources, targets, strict=True) if all(pair) and fits(pair)]


def _largest_difference(
    reference: Sequence[list[float]], scored: Sequence[list[float]], tolerance: float
) -> float:
    """Return the largest difference of a token's log-probability, in nats; see `verify_all`."""
    expected = torch.tensor([value for values in reference for value in values])
    found = torch.tensor([value for values in scored for value in values])
    if found.shape != expected.shape:
        raise UserError(f"the exported model scored {len(found)} tokens instead of {len(expected)}")
    differences = (expected - found).abs()
    # Log-probabilities far below zero have larger rounding errors.
    if not (differences <= tolerance * expected.abs().clamp(min=1)).all():
        raise UserError(
            "log-probabilities of the exported model differ from those of torch by up to"
            f" {float(differences.max()):.2g} nats, more than the tolerance of {tolerance:g}"
        )
    return float(differences.max())
