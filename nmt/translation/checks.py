"""Comparison of a translation with its source: what was lost, added or changed.

The checks know no language. They compare what both sides must have in common: protected spans,
numbers and their units, brackets, the kind of the last punctuation mark, and about the length.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from unicodedata import normalize

from nmt.base.languages import closing_marks, sentence_marks
from nmt.translation.icu import Message
from nmt.translation.numbers import AS_WRITTEN, numbers, spellings, split_dates
from nmt.translation.request import Request, Translation
from nmt.translation.spans import amounts, essence, without_spans

_QUESTION = "?？؟;՞⁇"
_BRACKETS = "()[]{}<>"
_USUAL = str.maketrans("【】〔〕", "[][]")
# (length + 20) of the translation divided by that of the source. Between Chinese and English the
# usual quotient is up to 5.
_QUOTIENTS = 0.15, 7.0


def findings(source: str, translation: str) -> list[str]:
    """Return what is wrong with a translation, each as a phrase; an empty source is right."""
    messages = [Message.parse(text) for text in (source, translation)]
    texts = [message.plain for message in messages]
    essences = [essence(text, with_numbers=False) for text in texts]
    found = [
        *_differences("", *(message.kept for message in messages)),
        *_differences("", *(list(spans.elements()) for spans, _ in essences)),
        *_differences_of_numbers(source, translation),
        *_differences("", *_changed_units(source, translation)),
    ]
    if messages[0].is_malformed:
        found.append("the plural or select of the source is malformed")
    if essences[1][1] < essences[0][1]:
        found.append(f"{essences[1][1]} instead of {essences[0][1]} pairs of tags around words")
    bare = [without_spans(text)[0] for text in texts]
    # One character after the other: the time for a run of combining marks is quadratic.
    brackets = [Counter(normalize("NFKC", one).translate(_USUAL) for one in text) for text in bare]
    found += [
        f"{brackets[1][one]} instead of {brackets[0][one]} of {one}"
        for one in _BRACKETS
        if brackets[0][one] != brackets[1][one]
    ]
    ends = [_end().search(text) for text in bare]
    kinds = [end and ("question" if end[0] in _QUESTION else "other") for end in ends]
    if kinds[0] != kinds[1]:
        found.append(f"ends with {bare[1][-1:]!r}, the source with {bare[0][-1:]!r}")
    quotient = (len(translation) + 20) / (len(source) + 20)
    if not _QUOTIENTS[0] < quotient < _QUOTIENTS[1] or bool(source.strip()) != bool(translation):
        found.append(f"{len(translation):,} characters for {len(source):,}")
    return found


def checked(
    requests: Sequence[Request],
    found: Sequence[list[Translation]],
    translate: Callable[[Sequence[Request]], list[list[Translation]]],
) -> list[list[Translation]]:
    """Return translations with their findings; the best one is tried again if it lost a number.

    The second try has to contain the numbers, in any spelling of the separators; it is taken if
    less is wrong with it, and if it is not just the source.

    Args:
        requests: what was asked for.
        found: the translations of each request.
        translate: translates again.
    """
    pairs = zip(requests, found, strict=True)
    results = [[_with_findings(request, one) for one in some] for request, some in pairs]
    wanted: dict[int, Request] = {}
    for index, (request, (best, *_)) in enumerate(zip(requests, results, strict=True)):
        lost = set(Counter(numbers(request.source)) - Counter(numbers(best.text)))
        written = AS_WRITTEN.findall(request.source)
        if terms := [spellings(one) for one in written if lost.intersection(numbers(one))]:
            wanted[index] = replace(request, terms=[*request.terms, *terms])
    again = translate(list(wanted.values())) if wanted else []
    for index, (best, *_) in zip(wanted, again, strict=True):
        second = _with_findings(requests[index], best)
        is_better = len(second.findings) < len(results[index][0].findings)
        if is_better and second.text != requests[index].source:
            results[index][0] = second
    return results


@cache
def _end() -> re.Pattern[str]:
    """Match the mark at the end of a text, with the quotes and brackets after it."""
    marks, closing = re.escape(sentence_marks()), re.escape(closing_marks())
    return re.compile(rf"[{marks}…:;](?=[{closing}‘«\s]*\Z)")


def _with_findings(request: Request, one: Translation) -> Translation:
    return replace(one, findings=tuple(findings(request.source, one.text)))


def _differences_of_numbers(source: str, translation: str) -> list[str]:
    """Compare dates and numbers; the month of a date may be a word on one side."""
    dates, rests = zip(*map(split_dates, (source, translation)), strict=True)
    counts = [Counter(numbers(rest)) for rest in rests]
    found = []
    for side, outcome in enumerate(("lost", "added")):
        for key, date in dates[side].items():
            if key in dates[1 - side]:
                continue
            others = counts[1 - side] - counts[side]
            parts = [one for one in numbers(date) if others[one]]
            if len(parts) > 1:
                counts[1 - side] -= Counter(parts)
            else:
                found.append(f"date {date} is {outcome}")
    return [*found, *_differences("number ", *(list(one.elements()) for one in counts))]


def _changed_units(source: str, translation: str) -> list[list[str]]:
    """Return the amounts on each side whose number has another unit on the other side.

    A unit may be a word on one side.
    """
    sides = [{one[:2]: one[2] for one in amounts(text)} for text in (source, translation)]
    changed = [sides[i].keys() - sides[1 - i].keys() for i in (0, 1)]
    both = set.intersection(*({number for number, _ in keys} for keys in changed))
    return [
        [text for key, text in side.items() if key in keys and key[0] in both]
        for side, keys in zip(sides, changed, strict=True)
    ]


def _differences(kind: str, source: Sequence[str], translation: Sequence[str]) -> list[str]:
    lost = Counter(source) - Counter(translation)
    added = Counter(translation) - Counter(source)
    return [
        *(f"{kind}{one} is lost" for one in lost.elements()),
        *(f"{kind}{one} is added" for one in added.elements()),
    ]
