"""Validation: loss and perplexity by teacher forcing, BLEU by beam search."""

import math
from dataclasses import dataclass
from itertools import chain

from nmt.base.errors import UserError, first_line, is_out_of_memory
from nmt.base.progress import Advance
from nmt.config import DecodingConfig, ValidationMetric
from nmt.data.corpus import PreparedCorpus
from nmt.metrics.scores import bleu_score
from nmt.trained_model import TrainedModel
from nmt.translation.forced import ForcedDecoder
from nmt.translation.translator import Translator


@dataclass(frozen=True)
class ValidationResult:
    """Result of a validation."""

    loss: float  # nats per target token, without label smoothing
    bleu: float  # from 0 to 100
    hypotheses: tuple[str, ...] = ()  # translation of each sentence

    @property
    def perplexity(self) -> float:
        """Perplexity per target token, exp(loss)."""
        return math.exp(min(self.loss, 700.0))

    def rank(self, metric: ValidationMetric) -> tuple[float, float]:
        """Return the sort key of checkpoints; higher is better.

        The loss breaks ties: early in training, the BLEU of all checkpoints is 0.
        """
        return (self.bleu if metric is ValidationMetric.bleu else -self.loss, -self.loss)


def valid_text(corpus: PreparedCorpus) -> tuple[list[str], list[str]]:
    """Return sources and references of the split `valid`; UserError if it is empty."""
    sources, references = corpus.read_text("valid")
    if not sources:
        raise UserError(f"{corpus.text_path('valid', corpus.source_language)} is empty")
    return sources, references


class Validator:
    """Validates a model on the split `valid` of a corpus, with the search of `decoding`."""

    def __init__(
        self,
        corpus: PreparedCorpus,
        model: TrainedModel,
        decoding: DecodingConfig,
        tokenizer: str,
    ) -> None:
        self._tokenizer = tokenizer  # of BLEU
        self._translator = Translator(model, decoding)
        self._forced_decoder = ForcedDecoder(model)
        self.sources, self.references = valid_text(corpus)
        longest = model.config.model.max_length - 1  # longer sentences are cut
        sources = [ids[:longest] for ids in model.source_tokenizer.encode(self.sources)]
        targets = [ids[:longest] for ids in model.target_tokenizer.encode(self.references)]
        self._pairs = list(zip(sources, targets, strict=True))

    def validate(self, progress: Advance | None = None) -> ValidationResult:
        """Compute loss and BLEU with the current weights.

        Args:
            progress: called with the number of sentences that were just translated.
        """
        try:
            log_probs = list(chain(*self._forced_decoder.token_log_probs(self._pairs)))
            translations = self._translator.translate(self.sources, progress)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise UserError(
                f"out of memory in validation: {first_line(error)}; lower decoding.batch_size or,"
                " on a CPU, set decoding.num_workers=1; in float32, neither changes a translation"
            ) from None
        hypotheses = tuple(best[0].text for best in translations)
        loss = -math.fsum(log_probs) / len(log_probs)
        bleu = bleu_score(hypotheses, self.references, tokenizer=self._tokenizer)
        return ValidationResult(loss, bleu.score, hypotheses)
