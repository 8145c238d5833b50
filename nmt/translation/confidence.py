"""Confidence: how probably the words of a translation are right, and what chrF it may have.

Both are functions of log-probabilities, fitted on the validation set by forced decoding of its
translations. A word counts as right if the reference has it, each occurrence once.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from nmt.base.files import file_inside, read_record
from nmt.base.languages import has_word_blanks
from nmt.base.layout import CONFIDENCE_FILE
from nmt.metrics.calibration import (
    Calibration,
    calibration_error,
    isotonic,
    rank_correlation,
    reliability,
)
from nmt.metrics.scores import sentence_chrf
from nmt.search.hypothesis import Hypothesis
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel
from nmt.translation.forced import score_pairs
from nmt.translation.request import Translation

Texts = Sequence[str]


@dataclass(frozen=True)
class Confidence:
    """Calibrated confidence of a model.

    Attributes:
        words: from the mean log-probability of the pieces of a word to the probability that it is
            right.
        sentences: from the mean log-probability of all tokens to chrF.
    """

    words: Calibration
    sentences: Calibration

    def of(self, translation: Translation, tokenizer: Tokenizer, language: str) -> Translation:
        """Return a translation with its confidence; without one if it has no log-probabilities.

        `tokenizer` and `language` are those of the target side.
        """
        hypotheses = translation.hypotheses
        log_probs = [one for each in hypotheses for one in each.token_log_probs]
        if not log_probs:
            return translation
        words = [score for each in hypotheses for _, score in _words(each, tokenizer, language)]
        [chrf] = self.sentences([fmean(log_probs)])
        probabilities = self.words(words) if words else []
        confidence = fmean(probabilities) if probabilities else None
        return replace(
            translation, confidence=confidence, word_confidence=probabilities, expected_chrf=chrf
        )

    @classmethod
    def fit(
        cls, model: TrainedModel, sources: Texts, translations: Texts, references: Texts
    ) -> "Confidence | None":
        """Fit on the translations of a validation set; None if there is nothing to fit on."""
        words, sentences = _observed(model, sources, translations, references)
        if not words or not sentences:
            return None
        return cls(isotonic(*zip(*words, strict=True)), isotonic(*zip(*sentences, strict=True)))

    def quality(
        self, model: TrainedModel, sources: Texts, translations: Texts, references: Texts
    ) -> dict[str, Any]:
        """Return how good the confidence is on the translations of a test set.

        `reliability` is that of the words, see `nmt.metrics.calibration`.
        """
        words, sentences = _observed(model, sources, translations, references)
        if not words or not sentences:
            return {}
        scores, outcomes = zip(*words, strict=True)
        means, chrf = zip(*sentences, strict=True)
        table = reliability(self.words(scores), outcomes)
        return {
            "reliability": table,
            "calibration_error": calibration_error(table),
            "rank_correlation": rank_correlation(self.sentences(means), chrf),
        }

    def to_json(self) -> dict[str, Any]:
        """Convert to the layout of `confidence.json`."""
        return asdict(self)


def confidence_of(folder: Path, model: TrainedModel) -> Callable[[Translation], Translation] | None:
    """Return what gives the translations of the model in a folder their confidence, if known.

    Raises:
        UserError: the file is damaged.
    """
    if not (folder / CONFIDENCE_FILE).exists():
        return None
    path = file_inside(folder, CONFIDENCE_FILE)
    stored = read_record(path, Confidence, "remove it; translations then have no confidence")
    language = model.config.target_language
    return lambda one: stored.of(one, model.target_tokenizer, language)


_Observations = list[tuple[float, float]]


def _observed(
    model: TrainedModel, sources: Texts, translations: Texts, references: Texts
) -> tuple[_Observations, _Observations]:
    """Return score and outcome of each word, and mean log-probability and chrF of each sentence."""
    pairs = list(zip(sources, translations, strict=True))
    tokenizer, language = model.target_tokenizer, model.config.target_language
    words: _Observations = []
    sentences: _Observations = []
    found = score_pairs(model, pairs, model.config.decoding)
    expected = tokenizer.encode(references)
    chrf = sentence_chrf(translations, references)
    for hypothesis, ids, score in zip(found, expected, chrf, strict=True):
        if hypothesis is None:
            continue
        sentences.append((fmean(hypothesis.token_log_probs), score))
        left = Counter(map("".join, _grouped(tokenizer.pieces(ids), language)))
        for word, log_prob in _words(hypothesis, tokenizer, language):
            words.append((log_prob, float(left[word] > 0)))
            left[word] -= 1
    return words, sentences


def _grouped(pieces: Sequence[str], language: str) -> list[list[str]]:
    """Divide pieces by words; a language without blanks between words has words of one piece."""
    has_blanks = has_word_blanks(language)
    words: list[list[str]] = []
    for piece in pieces:
        if words and has_blanks and not piece.startswith("▁"):
            words[-1].append(piece)
        else:
            words.append([piece])
    return words


def _words(hypothesis: Hypothesis, tokenizer: Tokenizer, language: str) -> list[tuple[str, float]]:
    """Return the words of a hypothesis with the mean log-probability of their pieces."""
    log_probs = iter(hypothesis.token_log_probs)  # that of EOS is left over
    words = _grouped(tokenizer.pieces(hypothesis.ids), language)
    return [("".join(word), fmean(islice(log_probs, len(word)))) for word in words]
