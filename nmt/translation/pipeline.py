"""Translation followed by optional reranking, alignment and reassembly of documents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nmt.base.errors import UserError
from nmt.translation.alignment import Aligner
from nmt.translation.documents import Document
from nmt.translation.formats import Answer, Item
from nmt.translation.protection import ProtectingTranslator, protected_spans
from nmt.translation.translator import Constraints, Translation, Translator

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Pipeline:
    """Answers sources with translations, alignments and utilities.

    Attributes:
        translator: translates.
        aligner: aligns; None for no alignments.
        utilities: returns the expected utility of each of the given translations of a source; the
            translations are then sorted by utility. None keeps the order of the search.
        language: source language of documents to be split into sentences; empty if each source is
            one sentence.
        warn: called with a message for every source of which a translation cannot be aligned.
        aligns_all: align all translations of a source, not only the best.
    """

    translator: Translator | ProtectingTranslator
    aligner: Aligner | None = None
    utilities: Callable[[Sequence[str]], list[float]] | None = None
    language: str = ""
    warn: Callable[[str], None] = lambda _: None
    aligns_all: bool = True

    def check(self, item: Item) -> None:
        """Raise UserError if the constraints of an item cannot be fulfilled."""
        constraints = item.constraints
        if constraints == Constraints():
            return
        if isinstance(self.translator, ProtectingTranslator) and protected_spans(item.source):
            raise UserError(
                "prefix, required and banned do not apply to text with protected spans; remove them"
                " or protect=true"
            )
        if self.language:
            raise UserError(
                "prefix, required and banned apply to one sentence; remove them or document=true"
            )
        self.translator.check(constraints)

    def answers(
        self, items: Sequence[Item], progress: Progress | None = None, first_line: int = 1
    ) -> list[Answer]:
        """Return one answer per item.

        Args:
            items: one sentence or one document each.
            progress: called with about the number of items just completed; fractions for documents.
            first_line: line number of the first item in its file, for messages.

        Raises:
            UserError: constraints cannot be fulfilled. Constraints on documents, which `check`
                rejects, are ignored here.
        """
        lines = range(first_line, first_line + len(items))
        if not self.language:
            constraints = [item.constraints for item in items]
            sources = [item.source for item in items]
            return self._answer_sentences(sources, progress, lines, constraints)
        documents = [Document.split(item.source, self.language) for item in items]
        rows = [(s, n) for n, one in zip(lines, documents, strict=True) for s in one.sentences]
        share = len(items) / max(1, len(rows))
        advance = progress and (lambda count: progress(count * share))
        found = iter(self._answer_sentences([s for s, _ in rows], advance, [n for _, n in rows]))
        return [one.join([next(found) for _ in one.sentences]) for one in documents]

    def _answer_sentences(
        self,
        sources: Sequence[str],
        progress: Progress | None,
        lines: Sequence[int],
        constraints: Sequence[Constraints] | None = None,
    ) -> list[Answer]:
        found = self.translator.translate(sources, progress, lines, constraints)
        answers = [self._rerank(translations) for translations in found]
        return self._align(self.aligner, sources, answers, lines) if self.aligner else answers

    def _rerank(self, translations: list[Translation]) -> Answer:
        if self.utilities is None:
            return Answer(translations)
        utilities = self.utilities([translation.text for translation in translations])
        # Stable sort: of equal utilities the one with the better score stays first.
        order = sorted(range(len(translations)), key=lambda index: -utilities[index])
        return Answer([translations[i] for i in order], utilities=[utilities[i] for i in order])

    def _align(
        self, aligner: Aligner, sources: Sequence[str], answers: list[Answer], lines: Sequence[int]
    ) -> list[Answer]:
        texts = [
            [one.text for one in answer.translations[: None if self.aligns_all else 1]]
            for answer in answers
        ]
        pairs = [(s, text) for s, some in zip(sources, texts, strict=True) for text in some]
        links = iter(aligner.links([s for s, _ in pairs], [text for _, text in pairs]))
        aligned = []
        for line, answer, some in zip(lines, answers, texts, strict=True):
            found = [next(links) for _ in some]
            if None in found:
                reason = "the line or a translation is too long for the model"
                self.warn(f"line {line}: not all translations are aligned: {reason}")
            aligned.append(replace(answer, alignments=found))
        return aligned
