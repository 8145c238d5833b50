"""Translation of texts: the one decoding path of validation, `translate` and `evaluate`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from nmt.base.errors import UserError
from nmt.config import DecodingConfig
from nmt.search.hypothesis import Hypothesis
from nmt.search.request import Request
from nmt.search.required import missing
from nmt.trained_model import TrainedModel
from nmt.translation.engine import Engine
from nmt.translation.sentences import Segmenter
from nmt.translation.torch_engine import TorchEngine


@dataclass(frozen=True)
class Constraints:
    """Constraints on the translation of one text; none by default.

    Attributes:
        prefix: text that the translation begins with.
        required: phrases that must occur in it, in this spelling.
        banned: phrases that must not occur in it, in this spelling.
    """

    prefix: str = ""
    required: Sequence[str] = ()
    banned: Sequence[str] = ()


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
        self.config = config or model.config.decoding
        self._target = model.target_tokenizer
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
        """Translate texts; in float32, the result does not depend on their order or the batch size.

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
        requests = [Request()] * len(texts)
        for index, (some, wanted) in enumerate(zip(segments, constraints, strict=True)):
            is_split = len(some) > 1
            if is_split:
                is_ignored = wanted.prefix or wanted.required
                self._warn(
                    f"line {lines[index]}: more than the model's limit of"
                    f" {self._segmenter.max_ids} tokens; translated in {len(some)} segments"
                    + (", without its prefix and required phrases" if is_ignored else "")
                )
            if some and wanted != Constraints():
                applied = Constraints(banned=wanted.banned) if is_split else wanted
                requests[index] = self.check(applied)
        found = self._engine.search(
            [ids for some in segments for ids in some],
            progress,
            [request for request, some in zip(requests, segments, strict=True) for _ in some],
        )
        decoded = iter(self._decoded(found))
        translations = []
        for line, request, some in zip(lines, requests, segments, strict=True):
            parts = [next(decoded) for _ in some]
            for best, *_ in parts:
                if lacking := missing(best.hypotheses[0].ids, request.required):
                    phrases = ", ".join(self._target.decode(lacking))
                    self._warn(f"line {line}: required phrases not in the translation: {phrases}")
            # Join the best translations of all segments, then all second-best ones, and so on.
            joined = [reduce(_joined, rank) for rank in zip(*parts, strict=False)]
            translations.append(joined or [Translation("", 0.0, [])])
        return translations

    def check(self, constraints: Constraints) -> Request:
        """Convert constraints to ids; UserError if they cannot be fulfilled."""
        [prefix] = self._target.encode([constraints.prefix])
        banned = [ids for ids in self._target.encode(constraints.banned) if ids]
        phrases = list(dict.fromkeys(constraints.required))
        required = self._target.encode(phrases)
        for phrase, ids in zip(phrases, required, strict=True):
            if self._target.unknown_id in ids:
                raise UserError(
                    f'required phrase "{phrase}" has characters that are not in the vocabulary of'
                    " the model; remove it"
                )
            if len(missing(ids, banned)) < len(banned):
                raise UserError(
                    f'required phrase "{phrase}" contains a banned phrase; remove one of them'
                )
        request = Request(prefix, [ids for ids in required if ids], banned)
        self._engine.check(request)
        return request

    def _decoded(self, found: list[list[Hypothesis]]) -> list[list[Translation]]:
        # One call for all, because each call of the tokenizer starts its threads.
        texts = iter(self._target.decode([one.ids for best in found for one in best]))
        # Byte pieces may decode to a newline, which would add a line to the output.
        return [
            [Translation(next(texts).replace("\n", " "), one.score, [one]) for one in best]
            for best in found
        ]


def _joined(first: Translation, second: Translation) -> Translation:
    return Translation(
        f"{first.text} {second.text}".strip(),
        first.score + second.score,
        first.hypotheses + second.hypotheses,
    )
