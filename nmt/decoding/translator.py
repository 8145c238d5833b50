"""Texts to translations: the one decode path of validation, `translate` and `evaluate`."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nmt.config import DecodingConfig
from nmt.decoding.engine import Engine
from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.required import missing
from nmt.decoding.sentences import sentence_spans
from nmt.decoding.task import Demand, Wish
from nmt.decoding.torch_engine import TorchEngine
from nmt.errors import UserError
from nmt.trained_model import TrainedModel


@dataclass(frozen=True)
class Translation:
    """One translation of one text.

    Attributes:
        text: plain text.
        score: the search's score; of a text translated in pieces, the sum over its pieces.
        hypotheses: what search found; one a piece, none for an empty text.
    """

    text: str
    score: float
    hypotheses: list[Hypothesis]


@dataclass(frozen=True)
class _Piece:
    """A part of a text that search takes at once: where it belongs, and its ids without EOS."""

    text_index: int
    ids: list[int]


class Translator:
    """Translates texts with a trained model.

    Args:
        model: the model, whose tokenizers and limits are used.
        config: the search.
        warn: told of every text that is translated in pieces.
        engine: what searches; None is torch, with the model on the device where it is.
    """

    def __init__(
        self,
        model: TrainedModel,
        config: DecodingConfig,
        warn: Callable[[str], None] | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._model = model
        self.config = config
        self._warn = warn
        self._engine = engine or TorchEngine(model, config)
        # One place is EOS's.
        self._max_ids = self._engine.longest_source - 1

    def translate(
        self,
        texts: Sequence[str],
        progress: Callable[[int], None] | None = None,
        lines: Sequence[int] | None = None,
        wishes: Sequence[Wish] | None = None,
    ) -> list[list[Translation]]:
        """Translate each text; the order, the neighbours and the batch size do not matter.

        Args:
            texts: one sentence each; an empty or blank one gives an empty translation.
            progress: called with the number of texts just done.
            lines: number of each text's line in its file, for warnings; None counts from 1.
            wishes: for each text, what is asked of its translation; None asks nothing.

        Returns:
            For each text up to num_best translations, best first; at least one.

        Raises:
            UserError: a wish that cannot be met.
        """
        lines = lines or range(1, len(texts) + 1)
        pieces = self._pieces(texts, lines)
        sources = [piece.ids for piece in pieces]
        if wishes is None or not any(wish != Wish() for wish in wishes):
            found = self._engine.search(sources, progress)
        else:
            demands = self._demands(pieces, wishes, lines)
            found = self._engine.search(sources, progress, demands)
            self._tell_missing(pieces, demands, found, lines)
        return self._assemble(len(texts), pieces, found)

    def _demands(
        self, pieces: list[_Piece], wishes: Sequence[Wish], lines: Sequence[int]
    ) -> list[Demand]:
        """What each piece's translation has to have; a text's prefix is its first piece's."""
        demands: list[Demand] = []
        num_pieces = Counter(piece.text_index for piece in pieces)
        before = -1
        for piece in pieces:
            index = piece.text_index
            line, wish = f"line {lines[index]}", wishes[index]
            if num_pieces[index] > 1 and wish.required:
                if self._warn and index != before:
                    self._warn(f"{line}: nothing is required of it, as it is cut into pieces")
                wish = replace(wish, required=())
            try:
                demand = self.demand(wish)
            except UserError as error:
                raise UserError(f"{line}: {error}") from None
            demands.append(replace(demand, prefix=()) if index == before else demand)
            before = index
        return demands

    def demand(self, wish: Wish) -> Demand:
        """What a wish asks of the ids.

        Raises:
            UserError: it cannot be met.
        """
        tokenizer = self._model.target_tokenizer
        [prefix] = tokenizer.encode([wish.prefix])
        banned = [ids for ids in tokenizer.encode(list(wish.banned)) if ids]
        phrases = list(dict.fromkeys(wish.required))
        required = tokenizer.encode(phrases)
        for phrase, ids in zip(phrases, required, strict=True):
            if tokenizer.unknown_id in ids:
                raise UserError(
                    f'"{phrase}" is required and has characters that the model\'s'
                    " vocabulary has not; leave it out"
                )
        demand = Demand(prefix, [ids for ids in required if ids], banned)
        room = self._engine.longest_target - 1
        if demand.length > room:
            raise UserError(
                f"prefix and required phrases have {demand.length} tokens, more than the model's"
                f" {room}; shorten them"
            )
        clash = next((p for p in demand.required if len(missing(p, banned)) < len(banned)), None)
        if clash is not None:
            [text] = tokenizer.decode([clash])
            raise UserError(f'"{text}" is required, and a part of it is banned')
        if objection := self._engine.objection(demand):
            raise UserError(objection)
        return demand

    def _tell_missing(
        self,
        pieces: list[_Piece],
        demands: list[Demand],
        found: list[list[Hypothesis]],
        lines: Sequence[int],
    ) -> None:
        for piece, demand, hypotheses in zip(pieces, demands, found, strict=True):
            lacking = missing(hypotheses[0].ids, demand.required)
            if lacking and self._warn:
                phrases = ", ".join(f'"{p}"' for p in self._model.target_tokenizer.decode(lacking))
                self._warn(f"line {lines[piece.text_index]}: required, and not there: {phrases}")

    def _pieces(self, texts: Sequence[str], lines: Sequence[int]) -> list[_Piece]:
        pieces: list[_Piece] = []
        encoded = self._model.source_tokenizer.encode(texts)
        for index, (text, ids) in enumerate(zip(texts, encoded, strict=True)):
            if not ids or not text.strip():
                continue
            if len(ids) <= self._max_ids:
                pieces.append(_Piece(index, ids))
                continue
            parts = self._split(text)
            if self._warn:
                self._warn(
                    f"line {lines[index]}: {len(ids)} tokens are more than the model's"
                    f" {self._max_ids}; translated in {len(parts)} pieces"
                )
            encoded_parts = self._model.source_tokenizer.encode(parts)
            pieces += [_Piece(index, part) for part in encoded_parts if part]
        return pieces

    def _split(self, text: str) -> list[str]:
        """Cut an over-long text after each sentence, and sentences that do not fit between words.

        Sentences are not joined up to the limit: a model trained on single sentences translates the
        first of several and drops the others.
        """
        parts: list[str] = []
        spans = sentence_spans(text, self._model.config.source_language)
        sentences = [text[begin:end] for begin, end in spans]
        for sentence, fits in zip(sentences, self._fit(sentences), strict=True):
            parts += [sentence] if fits else self._packed(sentence.split())
        while not all(fit := self._fit(parts)):
            parts = [
                half
                for part, fits in zip(parts, fit, strict=True)
                for half in ([part] if fits else _in_half(part))
            ]
        return parts

    def _packed(self, units: list[str]) -> list[str]:
        """Join neighbouring units while they fit together."""
        lengths = [len(ids) for ids in self._model.source_tokenizer.encode(units)]
        packed: list[str] = []
        room = 0
        for unit, length in zip(units, lengths, strict=True):
            if packed and length <= room:
                packed[-1] += f" {unit}"
                room -= length
            else:
                packed.append(unit)
                room = self._max_ids - length
        return packed

    def _fit(self, texts: list[str]) -> list[bool]:
        """Of each text whether it is left whole; all at once, for each call costs a millisecond."""
        encoded = self._model.source_tokenizer.encode(texts)
        # A single character, which may be spelled in many bytes, cannot be cut.
        return [
            len(text) == 1 or len(ids) <= self._max_ids
            for text, ids in zip(texts, encoded, strict=True)
        ]

    def _assemble(
        self, num_texts: int, pieces: list[_Piece], found: list[list[Hypothesis]]
    ) -> list[list[Translation]]:
        translations: list[list[Translation]] = [[] for _ in range(num_texts)]
        decode = self._model.target_tokenizer.decode
        # All in one call: each costs a millisecond, for threads of its own.
        texts = iter(decode([one.ids for hypotheses in found for one in hypotheses]))
        for piece, hypotheses in zip(pieces, found, strict=True):
            fresh = [
                Translation(next(texts), hypothesis.score, [hypothesis])
                for hypothesis in hypotheses
            ]
            before = translations[piece.text_index]
            translations[piece.text_index] = _joined(before, fresh) if before else fresh
        return [[_one_line(best) for best in some] or [_EMPTY] for some in translations]


_EMPTY = Translation("", 0.0, [])


def _one_line(translation: Translation) -> Translation:
    # Byte pieces can spell a line end, which would shift every line after it.
    if "\n" not in translation.text:
        return translation
    return replace(translation, text=translation.text.replace("\n", " "))


def _joined(before: list[Translation], after: list[Translation]) -> list[Translation]:
    """Rank by rank, the translation of a text's earlier pieces with that of the next one."""
    return [
        Translation(
            f"{first.text} {second.text}".strip(),
            first.score + second.score,
            first.hypotheses + second.hypotheses,
        )
        for first, second in zip(before, after, strict=False)
    ]


def _in_half(text: str) -> list[str]:
    middle = len(text) // 2
    return [text[:middle], text[middle:]]
