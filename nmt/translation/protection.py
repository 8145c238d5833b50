"""Protection of tags, addresses, placeholders and the like, which stay as they are.

A model can write a span only if it has learnt its characters. Else, and where it loses spans, the
text is translated without them, and they are inserted by the word alignment.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nmt.base.progress import Advance
from nmt.translation.alignment import Aligner
from nmt.translation.icu import Message
from nmt.translation.placement import insert_marks
from nmt.translation.request import Request, Translation
from nmt.translation.spans import (
    Mark,
    essence,
    has_text,
    numbers_with_units,
    protected_spans,
    without_spans,
)
from nmt.translation.translator import Translator


@dataclass
class SpanCounts:
    """Numbers of protected spans by outcome."""

    kept: int = 0
    inserted: int = 0
    untranslated: int = 0

    def __str__(self) -> str:
        """Return a summary in one line."""
        return (
            f"protected spans: {self.kept:,} kept by the model, {self.inserted:,} inserted by"
            f" alignment, {self.untranslated:,} in untranslated lines"
        )


@dataclass(frozen=True)
class _Attempt:
    """A text to translate instead of one with spans, and the spans to be inserted."""

    request: Request
    marks: Sequence[Mark] = ()


class Protection:
    """Translates texts so that they keep their protected spans, by an aligner."""

    def __init__(self, aligner: Aligner) -> None:
        self._aligner = aligner
        self.counts = SpanCounts()

    def translate(
        self,
        requests: Sequence[Request],
        translator: Translator,
        progress: Advance | None = None,
        counts: SpanCounts | None = None,
    ) -> list[list[Translation]]:
        """Translate texts; if a text has spans, its translations have the same ones and no others.

        There may be fewer than num_best translations where spans were lost. If no translation of a
        text keeps its spans, the translation is the text itself.

        Args:
            requests: the texts.
            translator: translates them.
            progress: called with the number of segments just completed.
            counts: where spans are counted; None for `self.counts`.
        """
        counts = counts or self.counts
        found = [[_untranslated(request.source)] for request in requests]
        attempts = [_attempts(request, translator) for request in requests]
        pending = list(range(len(requests)))
        while pending:
            tried = {i: one for i in pending if (one := next(attempts[i], None))}
            for source in (requests[i].source for i in pending if i not in tried):
                outcome = "untranslated" if has_text(source) else "kept"
                vars(counts)[outcome] += len(protected_spans(source))
            translated = self._translated(list(tried.values()), translator, progress)
            pending, progress = [], None
            for (index, attempt), some in zip(tried.items(), translated, strict=True):
                source = requests[index].source
                spans, wanted = protected_spans(source), essence(source)
                kept = [one for one in some if not spans or essence(one.text) == wanted]
                if not kept:
                    pending.append(index)
                    continue
                found[index] = kept
                inserted = sum(len(protected_spans(mark.text)) for mark in attempt.marks)
                counts.inserted += inserted
                counts.kept += len(spans) - inserted
        return found

    def _translated(
        self, attempts: Sequence[_Attempt], translator: Translator, progress: Advance | None
    ) -> list[list[Translation]]:
        """Translate texts and insert their marks; equal results of different ones are dropped."""
        found = translator.translate([attempt.request for attempt in attempts], progress)
        pairs = [
            (attempt.request.source, one.text)
            for attempt, some in zip(attempts, found, strict=True)
            for one in some
            if attempt.marks
        ]
        weights = iter(self._aligner.weights([s for s, _ in pairs], [t for _, t in pairs]))
        for index, (attempt, some) in enumerate(zip(attempts, found, strict=True)):
            if not attempt.marks:
                continue
            # Text with spans → the first translation without spans that gave it.
            bare: dict[str, str] = {}
            inserted = []
            source, required = attempt.request.source, attempt.request.required
            first = len(attempt.request.prefix.split())
            for one in some:
                text = insert_marks(source, one.text, attempt.marks, next(weights), first)
                lost = [phrase for phrase in required if phrase in one.text and phrase not in text]
                notes = (*one.notes, *map("a span is inside the required phrase {}".format, lost))
                if bare.setdefault(text, one.text) == one.text:
                    inserted.append(replace(one, text=text, notes=notes))
            found[index] = inserted
        return found


def _untranslated(text: str) -> Translation:
    reason = "no translation keeps its protected spans"
    if Message.parse(text).is_malformed:
        reason = "its plural or select is malformed; correct its braces"
    return Translation(text, 0.0, notes=(f"not translated, because {reason}",) * has_text(text))


def _attempts(request: Request, translator: Translator) -> Iterator[_Attempt]:
    """Yield what to translate, until a translation keeps all spans.

    These are the text as it is, if the model knows the characters of its spans; without spans but
    with numbers; with these required; and without all spans. There is no attempt if there are only
    spans, or a malformed plural or select.
    """
    text = request.source
    spans = protected_spans(text)
    if not spans:
        yield _Attempt(request)
    if not spans or not has_text(text) or Message.parse(text).is_malformed:
        return
    if knows := translator.can_write("".join(spans)):
        yield _Attempt(request)
    bare, marks = without_spans(text, with_numbers=False)
    if marks or not knows:
        yield _Attempt(replace(request, source=bare), marks)
    if numbers := numbers_with_units(text):
        if translator.can_require:
            required = replace(request, source=bare, terms=[*request.terms, *numbers])
            yield _Attempt(required, marks)
        bare, marks = without_spans(text)
        yield _Attempt(replace(request, source=bare), marks)
