"""The sentences and attention pictures that trackers receive at each validation."""

from collections.abc import Sequence

from nmt.metrics.scores import sentence_chrf
from nmt.tracking.pictures import draw_attention
from nmt.tracking.tracker import Picture, Table
from nmt.trained_model import TrainedModel
from nmt.translation.attention import sentence_attention, short_sentences

_NUM_SENTENCES = 20
_NUM_PICTURES = 3
_MAX_PIECES = 40


class ValidationSamples:
    """Up to 20 evenly spaced validation sentences, the same each time; up to three get pictures."""

    def __init__(
        self, model: TrainedModel, sources: Sequence[str], references: Sequence[str]
    ) -> None:
        self._model = model
        number = min(_NUM_SENTENCES, len(sources))
        self._indices = [len(sources) * i // number for i in range(number)]
        self._sources = [sources[index] for index in self._indices]
        self._references = [references[index] for index in self._indices]
        self._short = short_sentences(model, self._sources, self._references, _NUM_PICTURES)

    def record(self, hypotheses: Sequence[str]) -> dict[str, Table | Picture]:
        """Return a table of the sentences, and pictures of the attention of the current weights.

        `hypotheses` are those of the whole validation set. The random state does not change.
        """
        chosen = [hypotheses[index] for index in self._indices]
        scores = sentence_chrf(chosen, self._references)
        rows = zip(self._sources, self._references, chosen, scores, strict=True)
        columns = ["source", "reference", "translation", "chrF"]  # chrF is from 0 to 100
        record: dict[str, Table | Picture] = {
            "translations/sentences": Table(columns, list(map(list, rows)))
        }
        tokenizer = self._model.target_tokenizer
        for number, index in enumerate(self._short, start=1):
            # Early in training, many translations do not end, so they are cut.
            ids = tokenizer.encode([chosen[index]])[0][:_MAX_PIECES]
            source, translation = self._sources[index], tokenizer.decode([ids])[0]
            found = sentence_attention(self._model, source, translation)
            weights = found.kinds["cross"][-1].mean(dim=0)  # (T, S)
            picture = draw_attention(weights, found.target, found.source, source)
            record[f"translations/attention_{number}"] = picture
        return record
