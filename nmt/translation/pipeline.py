"""Pipeline from requests to translations: split, translate, restore, rank, align, join."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nmt.base.errors import UserError
from nmt.base.progress import Advance
from nmt.translation.alignment import Aligner
from nmt.translation.checks import checked
from nmt.translation.documents import Document
from nmt.translation.icu import Message
from nmt.translation.protection import Protection, SpanCounts
from nmt.translation.request import Request, Translation
from nmt.translation.spans import without_spans
from nmt.translation.translator import Translator


@dataclass(frozen=True)
class Pipeline:
    """Translates requests, with what else was asked for.

    Attributes:
        translator: translates.
        language: source language of documents to be split into sentences; empty if each source is
            one sentence.
        protection: keeps protected spans; None for none.
        utilities: returns the expected utility of each of the given translations of a source; the
            translations are then sorted by utility. None keeps the order of the search.
        aligner: aligns; None for no alignments.
        aligns_all: align all translations of a source, not only the best.
        checks: compare translations with their sources.
        confidence: returns a translation with its confidence; None for no confidence.
    """

    translator: Translator
    language: str = ""
    protection: Protection | None = None
    utilities: Callable[[Sequence[str]], list[float]] | None = None
    aligner: Aligner | None = None
    aligns_all: bool = True
    checks: bool = False
    confidence: Callable[[Translation], Translation] | None = None

    def check(self, request: Request) -> None:
        """Raise UserError if the constraints of a request cannot be fulfilled."""
        if not request.is_constrained:
            return
        phrases = [request.prefix, *request.required, *request.banned]
        spans = [mark.text for one in phrases for mark in without_spans(one, with_numbers=False)[1]]
        if self.protection and spans:
            raise UserError(
                f"prefix, required and banned cannot have protected spans such as {spans[0]}; leave"
                " it out, as it is kept anyway, or remove protect=true"
            )
        if self.language or (self.protection and Message.parse(request.source).arguments):
            raise UserError(
                "prefix, required and banned apply to one sentence, not to documents and not to the"
                " texts of plurals and selects; remove them, document=true or protect=true"
            )
        self.translator.check(request)

    def translate(
        self, requests: Sequence[Request], progress: Advance | None = None
    ) -> list[list[Translation]]:
        """Translate sentences or documents.

        Args:
            requests: one sentence or one document each. Constraints on documents, which `check`
                rejects, are ignored.
            progress: called with about the number of requests just completed; fractions for
                documents.

        Returns:
            For each request one or more translations, best first.

        Raises:
            UserError: constraints cannot be fulfilled.
        """
        if not self.protection:
            return self._translate_texts(requests, progress)
        messages = [Message.parse(request.source) for request in requests]
        texts = [
            replace(request, source=text)
            for request, message in zip(requests, messages, strict=True)
            for text in message.texts
        ]
        found = iter(self._translate_texts(texts, _shared(progress, len(requests), len(texts))))
        return [message.joined([next(found) for _ in message.texts]) for message in messages]

    def _translate_texts(
        self, requests: Sequence[Request], progress: Advance | None
    ) -> list[list[Translation]]:
        if not self.language:
            return self._translate_sentences(requests, progress)
        documents = [Document.split(request.source, self.language) for request in requests]
        sentences = [Request(text) for document in documents for text in document.sentences]
        advance = _shared(progress, len(requests), len(sentences))
        found = iter(self._translate_sentences(sentences, advance))
        blank = self.translator.blank
        return [one.join([next(found) for _ in one.sentences], blank) for one in documents]

    def _translate_sentences(
        self, requests: Sequence[Request], progress: Advance | None
    ) -> list[list[Translation]]:
        sources = [request.source for request in requests]
        found = self._protected(requests, progress, None)
        if self.checks:
            # Spans are not counted twice.
            again = partial(self._protected, progress=None, counts=SpanCounts())
            found = checked(requests, found, again)
        if self.confidence:
            found = [list(map(self.confidence, some)) for some in found]
        if self.utilities:
            found = [_ranked(translations, self.utilities) for translations in found]
        if glossary := self.translator.glossary:
            found = list(map(glossary.reported, sources, found))
        return self._aligned(self.aligner, sources, found) if self.aligner else found

    def _protected(
        self, requests: Sequence[Request], progress: Advance | None, counts: SpanCounts | None
    ) -> list[list[Translation]]:
        if self.protection:
            return self.protection.translate(requests, self.translator, progress, counts)
        return self.translator.translate(requests, progress)

    def _aligned(
        self, aligner: Aligner, sources: Sequence[str], found: Sequence[Sequence[Translation]]
    ) -> list[list[Translation]]:
        num_aligned = None if self.aligns_all else 1
        pairs = [
            (source, one.text)
            for source, translations in zip(sources, found, strict=True)
            for one in translations[:num_aligned]
        ]
        links = iter(aligner.links([source for source, _ in pairs], [text for _, text in pairs]))
        aligned = []
        for translations in found:
            some = [replace(one, alignment=next(links)) for one in translations[:num_aligned]]
            aligned.append([*map(_with_note, some), *translations[len(some) :]])
        return aligned


def _shared(progress: Advance | None, num_requests: int, num_parts: int) -> Advance | None:
    """Return what advances the progress of requests by their share for a number of parts."""
    share = num_requests / max(1, num_parts)
    return progress and (lambda count: progress(count * share))


def _ranked(
    translations: Sequence[Translation], utilities: Callable[[Sequence[str]], list[float]]
) -> list[Translation]:
    """Sort translations by their utility; of equal ones, that with the better score stays first."""
    values = utilities([one.text for one in translations])
    pairs = sorted(zip(values, translations, strict=True), key=lambda pair: -pair[0])
    return [replace(one, utility=value) for value, one in pairs]


def _with_note(one: Translation) -> Translation:
    if one.alignment is not None:
        return one
    reason = "the line or a translation is too long for the model"
    return replace(one, notes=(*one.notes, f"not all translations are aligned: {reason}"))
