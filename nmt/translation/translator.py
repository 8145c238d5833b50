"""Translation of texts: the one decoding path of validation, `translate` and `evaluate`."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nmt.config import DecodingConfig
from nmt.search.hypothesis import Hypothesis
from nmt.search.request import Request
from nmt.search.required import missing
from nmt.trained_model import TrainedModel
from nmt.translation.constraints import Constraints, to_request
from nmt.translation.engine import Engine
from nmt.translation.segments import Segment, Segmenter
from nmt.translation.torch_engine import TorchEngine


@dataclass(frozen=True)
class Translation:
    """One translation of one text.

    Attributes:
        text: plain text.
        score: score of the hypothesis; the sum over segments if the text was split.
        hypotheses: one per segment; none for an empty text.
    """

    text: str
    score: float
    hypotheses: list[Hypothesis]


class Translator:
    """Translates texts with a trained model.

    Args:
        model: the model, with its tokenizers and limits.
        config: search options; None takes those that the model was scored with.
        warn: called with a message for every text that is split or lacks a required phrase.
        engine: engine that searches; None is torch on the device of the model.
    """

    def __init__(
        self,
        model: TrainedModel,
        config: DecodingConfig | None = None,
        warn: Callable[[str], None] | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._model = model
        self.config = config or model.config.decoding
        self._warn = warn or (lambda _: None)
        self._engine = engine or TorchEngine(model, self.config)
        language = model.config.source_language
        max_ids = self._engine.longest_source - 1  # without EOS
        self._segmenter = Segmenter(model.source_tokenizer, language, max_ids)

    def translate(
        self,
        texts: Sequence[str],
        progress: Callable[[int], None] | None = None,
        lines: Sequence[int] | None = None,
        constraints: Sequence[Constraints] | None = None,
    ) -> list[list[Translation]]:
        """Translate texts; their order and the batch size do not change a translation.

        Args:
            texts: one sentence each; a blank text has an empty translation.
            progress: called with the number of segments just completed.
            lines: line number of each text in its file, for messages; None counts from 1.
            constraints: constraints on each translation; None means no constraints.

        Returns:
            For each text one to num_best translations, best first.

        Raises:
            UserError: constraints cannot be fulfilled.
        """
        lines = lines or range(1, len(texts) + 1)
        constraints = constraints or [Constraints()] * len(texts)
        segments = self._segmenter.segments(texts)
        num_segments = Counter(segment.text_index for segment in segments)
        for index, number in num_segments.items():
            if number > 1:
                is_constrained = constraints[index].prefix or constraints[index].required
                self._warn(
                    f"line {lines[index]}: more than the model's limit of"
                    f" {self._segmenter.max_ids} tokens; translated in {number} segments"
                    + (", without its prefix and required phrases" if is_constrained else "")
                )
        requests = None
        if any(each != Constraints() for each in constraints):
            requests = [
                self._request(constraints[index], is_whole=num_segments[index] == 1)
                for index in (segment.text_index for segment in segments)
            ]
        found = self._engine.search([segment.ids for segment in segments], progress, requests)
        for segment, request, hypotheses in zip(segments, requests or (), found, strict=False):
            if lacking := missing(hypotheses[0].ids, request.required):
                phrases = ", ".join(self._model.target_tokenizer.decode(lacking))
                line = lines[segment.text_index]
                self._warn(f"line {line}: required phrases not in the translation: {phrases}")
        return self._assemble(len(texts), segments, found)

    def check(self, constraints: Constraints) -> None:
        """Raise UserError if constraints cannot be fulfilled."""
        self._request(constraints)

    def _request(self, constraints: Constraints, is_whole: bool = True) -> Request:
        if not is_whole:
            constraints = Constraints(banned=constraints.banned)
        return to_request(constraints, self._model.target_tokenizer, self._engine)

    def _assemble(
        self, num_texts: int, segments: list[Segment], found: list[list[Hypothesis]]
    ) -> list[list[Translation]]:
        """Detokenise hypotheses and join those of the segments of a text, rank by rank."""
        translations: list[list[Translation]] = [[] for _ in range(num_texts)]
        # One call, because each takes a millisecond to start its threads.
        all_ids = [one.ids for hypotheses in found for one in hypotheses]
        texts = iter(self._model.target_tokenizer.decode(all_ids))
        for segment, hypotheses in zip(segments, found, strict=True):
            # Byte pieces can spell a line end, which would add a line to the output.
            new = [
                Translation(next(texts).replace("\n", " "), one.score, [one]) for one in hypotheses
            ]
            previous = translations[segment.text_index]
            translations[segment.text_index] = list(map(_joined, previous, new)) or new
        return [best or [Translation("", 0.0, [])] for best in translations]


def _joined(first: Translation, second: Translation) -> Translation:
    return Translation(
        f"{first.text} {second.text}".strip(),
        first.score + second.score,
        first.hypotheses + second.hypotheses,
    )
