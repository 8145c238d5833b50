"""From sources to what is told of each: the translator and what stands around it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from nmt.decoding.alignment import Aligner, pharaoh
from nmt.decoding.documents import Document, put_together, taken_apart
from nmt.decoding.formats import Answer, Item
from nmt.decoding.protection import Translates
from nmt.decoding.task import Wish
from nmt.decoding.translator import Translation
from nmt.errors import UserError

Progress = Callable[[float], None]

Utilities = Callable[[Sequence[str]], list[float]]
"""How good each of several translations of one source is, held against all of them."""


class Pipeline:
    """Answers sources.

    Args:
        translator: what translates.
        aligner: what aligns, where alignments are asked for.
        language: of the sources, where they are documents to be split into sentences; else "".
        utilities: what orders the translations anew, where that is asked for.
        warn: told of what cannot be done.
        aligns_all: whether all translations of a source are aligned, or the best alone.
    """

    def __init__(
        self,
        translator: Translates,
        aligner: Aligner | None = None,
        utilities: Utilities | None = None,
        language: str = "",
        warn: Callable[[str], None] | None = None,
        aligns_all: bool = True,
    ) -> None:
        self._translator = translator
        self._aligner = aligner
        self._utilities = utilities
        self._language = language
        self._warn = warn
        self._num_aligned = None if aligns_all else 1

    def check(self, wish: Wish) -> None:
        """Refuse what cannot be met.

        Raises:
            UserError: why.
        """
        if wish == Wish():
            return
        if self._language:
            raise UserError(
                "prefix, required and banned are asked of one sentence; leave them out, or"
                " document=true"
            )
        self._translator.demand(wish)

    def answers(
        self, items: Sequence[Item], progress: Progress | None = None, first_line: int = 1
    ) -> list[Answer]:
        """One answer a source, in order.

        Args:
            items: one sentence each, or a document each.
            progress: called with the number of sources just done, by fractions for documents.
            first_line: number of the first one in its file, for warnings.

        Raises:
            UserError: a wish that cannot be met; `check` tells them beforehand.
        """
        sources = [item.source for item in items]
        wishes = [item.wish for item in items]
        lines = range(first_line, first_line + len(items))
        if not self._language:
            return self._of_sentences(sources, progress, lines, wishes)
        documents = [taken_apart(source, self._language) for source in sources]
        placed = [
            (line, sentence)
            for line, document in zip(lines, documents, strict=True)
            for sentence in document.sentences
        ]
        share = len(sources) / max(1, len(placed))
        found = iter(
            self._of_sentences(
                [sentence for _, sentence in placed],
                progress and (lambda count: progress(count * share)),
                [line for line, _ in placed],
            )
        )
        return [
            put_together(document, [next(found) for _ in document.sentences])
            if document.sentences
            else self._blank(document)
            for document in documents
        ]

    def _blank(self, document: Document) -> Answer:
        """The answer to a document without sentences: all that the others have, but of nothing."""
        answer = self._ordered(put_together(document, []).translations)
        return answer if self._aligner is None else replace(answer, alignments=[""])

    def _of_sentences(
        self,
        sources: Sequence[str],
        progress: Progress | None,
        lines: Sequence[int],
        wishes: Sequence[Wish] | None = None,
    ) -> list[Answer]:
        found = self._translator.translate(sources, progress, lines, wishes)
        answers = [self._ordered(translations) for translations in found]
        return answers if self._aligner is None else self._aligned(sources, answers, lines)

    def _ordered(self, translations: list[Translation]) -> Answer:
        if self._utilities is None:
            return Answer(translations)
        utilities = self._utilities([translation.text for translation in translations])
        # Stable: of equal ones that which search found better stays ahead.
        order = sorted(range(len(translations)), key=lambda place: -utilities[place])
        return Answer(
            [translations[place] for place in order], utilities=[utilities[p] for p in order]
        )

    def _aligned(
        self, sources: Sequence[str], answers: list[Answer], lines: Sequence[int]
    ) -> list[Answer]:
        assert self._aligner is not None
        pairs = [
            (source, translation.text)
            for source, answer in zip(sources, answers, strict=True)
            for translation in answer.translations[: self._num_aligned]
        ]
        links = iter(self._aligner.links([s for s, _ in pairs], [t for _, t in pairs]))
        aligned = []
        for line, answer in zip(lines, answers, strict=True):
            some = [next(links) for _ in answer.translations[: self._num_aligned]]
            if self._warn and None in some:
                self._warn(f"line {line}: too long for the model to be aligned as a whole")
            alignments = [None if each is None else pharaoh(each) for each in some]
            aligned.append(replace(answer, alignments=alignments))
        return aligned
