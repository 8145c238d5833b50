"""The sentences and attention pictures that trackers receive at each validation."""

from collections.abc import Sequence

from nmt.metrics.scores import sentence_chrf
from nmt.tracking.pictures import draw_attention
from nmt.tracking.tracker import Picture, Sentence
from nmt.trained_model import TrainedModel
from nmt.translation.attention import sentence_attention, short_sentences

_NUM_SENTENCES = 20
_NUM_PICTURES = 3
_MAX_PIECES = 40


class ValidationSamples:
    """Evenly spaced validation sentences, always the same, and pictures of up to three."""

    def __init__(
        self, model: TrainedModel, sources: Sequence[str], references: Sequence[str]
    ) -> None:
        self._model = model
        number = min(_NUM_SENTENCES, len(sources))
        self._indices = [len(sources) * i // number for i in range(number)]
        self._sources = [sources[index] for index in self._indices]
        self._references = [references[index] for index in self._indices]
        self._short = short_sentences(model, self._sources, self._references, _NUM_PICTURES)

    def sentences(self, hypotheses: Sequence[str]) -> list[Sentence]:
        """Select the sentences from the translations of the whole validation set."""
        chosen = [hypotheses[index] for index in self._indices]
        scores = sentence_chrf(chosen, self._references)
        rows = zip(self._sources, self._references, chosen, scores, strict=True)
        return [Sentence(*row) for row in rows]

    def pictures(self, hypotheses: Sequence[str]) -> list[Picture]:
        """Draw the cross-attention of the last layer, without a change of the random state."""
        pictures = []
        for index in self._short:
            source = self._sources[index]
            translation = self._shortened(hypotheses[self._indices[index]])
            found = sentence_attention(self._model, source, translation)
            weights = found.kinds["cross"][-1].mean(dim=0)  # (T, S)
            pictures.append(draw_attention(weights, found.target, found.source, source))
        return pictures

    def _shortened(self, text: str) -> str:
        """Cut a translation after 40 pieces: early in training, many do not end."""
        tokenizer = self._model.target_tokenizer
        return tokenizer.decode([ids[:_MAX_PIECES] for ids in tokenizer.encode([text])])[0]
