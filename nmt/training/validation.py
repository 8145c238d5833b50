"""How good the model is on `valid`: loss and perplexity by teacher forcing, BLEU by search."""

import math
from dataclasses import dataclass

from nmt.config import DecodingConfig, ValidationMetric
from nmt.data.batch import Batch, collate
from nmt.data.corpus import PreparedCorpus
from nmt.decoding.translator import Translator
from nmt.errors import UserError
from nmt.evaluation.scores import bleu_score
from nmt.trained_model import TrainedModel, special_ids
from nmt.training.loss import token_loss

_PAIRS_PER_BATCH = 64


@dataclass(frozen=True)
class ValidationResult:
    """One validation.

    Attributes:
        loss: nats a target token, without label smoothing.
        bleu: sacrebleu's, 0 to 100.
    """

    loss: float
    bleu: float

    @property
    def perplexity(self) -> float:
        """exp(loss), a target token."""
        return math.exp(min(self.loss, 700.0))

    def rank(self, kind: ValidationMetric) -> tuple[float, float]:
        """What checkpoints are chosen by; higher is better.

        The loss breaks ties: early on, BLEU is 0.00 for good and bad alike.
        """
        return (self.bleu if kind is ValidationMetric.bleu else -self.loss, -self.loss)


def valid_text(corpus: PreparedCorpus) -> tuple[list[str], list[str]]:
    """Sources and references of `valid`.

    Raises:
        UserError: there are none.
    """
    sources, references = corpus.read_text("valid")
    if not sources:
        raise UserError(f"{corpus.text_path('valid', corpus.source_language)} is empty")
    return sources, references


class Validator:
    """Validates a model on a corpus's `valid`.

    Args:
        corpus: the prepared corpus.
        model: the model in training; it is read, never changed.
        decoding: the search, the same as after training.
    """

    def __init__(
        self, corpus: PreparedCorpus, model: TrainedModel, decoding: DecodingConfig
    ) -> None:
        self._model = model
        self._translator = Translator(model, decoding)
        self.sources, self.references = valid_text(corpus)
        self._batches = self._make_batches()

    def validate(self) -> ValidationResult:
        """Loss and BLEU of the model as it is now."""
        loss = token_loss(self._model.transformer, self._batches).mean
        translations = self._translator.translate(self.sources)
        hypotheses = [best[0].text for best in translations]
        return ValidationResult(loss, bleu_score(hypotheses, self.references).score)

    def _make_batches(self) -> list[Batch]:
        longest = self._model.config.model.max_length - 1
        pairs = zip(
            self._model.source_tokenizer.encode(self.sources),
            self._model.target_tokenizer.encode(self.references),
            strict=True,
        )
        # The loss is teacher-forced, so a pair longer than the model's positions is cut there.
        by_length = sorted(
            ((source[:longest], target[:longest]) for source, target in pairs),
            key=lambda pair: (len(pair[1]), len(pair[0])),
        )
        source_ids = special_ids(self._model.source_tokenizer)
        target_ids = special_ids(self._model.target_tokenizer)
        return [
            collate(by_length[start : start + _PAIRS_PER_BATCH], source_ids, target_ids)
            for start in range(0, len(by_length), _PAIRS_PER_BATCH)
        ]
