"""Comparison of a translation with its source: what was lost, added or changed.

The checks know no language. They compare what both sides must have in common: protected spans,
numbers, brackets, the kind of the last punctuation mark, and about the length.
"""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import regex

from nmt.base.errors import UserError
from nmt.translation.protection import protected_spans
from nmt.translation.request import Request, Translation
from nmt.translation.translator import Translator

_GROUP = r"[,.'’\u00a0\u202f ]"  # between thousands
_NUMBER = regex.compile(rf"\p{{Nd}}{{1,3}}(?:{_GROUP}\p{{Nd}}{{3}})+(?!\p{{Nd}})|\p{{Nd}}+")
_AS_WRITTEN = regex.compile(r"\p{Nd}[\p{Nd}.,]*\p{Nd}|\p{Nd}")
_QUESTION = "?？؟;՞⁇"
_END = regex.compile(r"[\p{Sentence_Terminal}…:;](?=[\p{Pi}\p{Pf}\p{Pe}\"'”’»\s]*$)")
_BRACKETS = "()[]"
# (length + 20) of the translation divided by that of the source. Between Chinese and English the
# usual quotient is up to 5.
_QUOTIENTS = 0.15, 7.0


def findings(source: str, translation: str) -> list[str]:
    """Return what is wrong with a translation, each as a phrase; an empty source is right."""
    found = [
        *_differences("", protected_spans(source), protected_spans(translation)),
        *_differences("number ", _numbers(source), _numbers(translation)),
    ]
    for bracket in _BRACKETS:
        counts = source.count(bracket), translation.count(bracket)
        if counts[0] != counts[1]:
            found.append(f"{counts[1]} instead of {counts[0]} of {bracket}")
    ends = _END.search(source), _END.search(translation)
    kinds = [end and ("question" if end[0] in _QUESTION else "other") for end in ends]
    if kinds[0] != kinds[1]:
        found.append(f"ends with {translation[-1:]!r}, the source with {source[-1:]!r}")
    quotient = (len(translation) + 20) / (len(source) + 20)
    if not _QUOTIENTS[0] < quotient < _QUOTIENTS[1] or bool(source.strip()) != bool(translation):
        found.append(f"{len(translation):,} characters for {len(source):,}")
    return found


def checked(
    requests: Sequence[Request], found: Sequence[list[Translation]], translator: Translator
) -> list[list[Translation]]:
    """Return translations with their findings; the best one is tried again if it lost a number.

    The second try has to contain the numbers, in any spelling of the separators; it is taken if
    less is wrong with it.
    """
    results = [
        [_with_findings(request, one) for one in some]
        for request, some in zip(requests, found, strict=True)
    ]
    wanted: dict[int, Request] = {}
    for index, (request, (best, *_)) in enumerate(zip(requests, results, strict=True)):
        lost = set(Counter(_numbers(request.source)) - Counter(_numbers(best.text)))
        terms = [
            _spellings(n)
            for n in _AS_WRITTEN.findall(request.source)
            if lost.intersection(_numbers(n))
        ]
        constrained = replace(request, terms=[*request.terms, *terms])
        if terms and _is_possible(translator, constrained):
            wanted[index] = constrained
    again = translator.translate(list(wanted.values())) if wanted else []
    for index, (best, *_) in zip(wanted, again, strict=True):
        second = _with_findings(requests[index], best)
        if len(second.findings) < len(results[index][0].findings):
            results[index][0] = second
    return results


def _with_findings(request: Request, one: Translation) -> Translation:
    return replace(one, findings=tuple(findings(request.source, one.text)))


def _is_possible(translator: Translator, request: Request) -> bool:
    try:
        translator.check(request)
    except UserError:  # the engine knows no constraints, or the sentence is too long for them
        return False
    return True


def _numbers(text: str) -> list[str]:
    """Return the numbers of a text without separators of thousands and zeros at the start.

    Decimals are numbers of their own, and so are the parts of a date, whose order may change.
    """
    found = (regex.sub(_GROUP, "", number) for number in _NUMBER.findall(text))
    # Not by int(), which takes quadratic time and rejects thousands of digits.
    digits = ("".join(str(unicodedata.digit(one)) for one in number) for number in found)
    return [number.lstrip("0") or "0" for number in digits]


def _spellings(number: str) -> tuple[str, ...]:
    """Return a number as it is, with points and commas exchanged, and with blanks."""
    exchanged = number.translate(str.maketrans(".,", ",."))
    spaced = exchanged.replace(".", "\u202f")
    return tuple(dict.fromkeys((number, exchanged, spaced, spaced.replace("\u202f", " "))))


def _differences(kind: str, source: Sequence[str], translation: Sequence[str]) -> list[str]:
    lost = Counter(source) - Counter(translation)
    added = Counter(translation) - Counter(source)
    return [
        *(f"{kind}{one} is lost" for one in lost.elements()),
        *(f"{kind}{one} is added" for one in added.elements()),
    ]
