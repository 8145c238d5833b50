"""Check that the sides of a corpus are in the languages of its direction.

A sample of each side is identified in chunks of many sentences, because short texts, such as those
of user interfaces, are often taken for another language. The check stops only when it is sure:
languages that are often confused (bs, hr, sr; da, no; id, ms) count as one. Where fastText does not
know a language, or the text is too short for it, only scripts are compared, if the two languages
have different ones.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

import langcodes
import regex

from data_prep.languages import fasttext_codes, probabilities
from data_prep.names import is_same, language
from nmt.base.errors import UserError
from nmt.base.languages import script_of
from nmt.base.log import print_line

_CHUNK_LETTERS = 100
_MIN_CHUNKS = 5
_MIN_LETTERS = 50  # of each side, to compare scripts
_MAX_CHUNKS = 500

_MOST_ODD = 0.1
"""A larger share of pairs that look odd is worth a warning."""

_RELATED_DISTANCE = 14
"""Languages at most this far apart in CLDR, such as Indonesian and Malay, are often confused."""

# Shares of a sample, chosen so that text in the right languages never stops.
_NONE, _MOST, _NEARLY_ALL = 0.02, 0.5, 0.75

_EAST_ASIAN = {
    "ja": regex.compile(r"[\p{Script=Hiragana}\p{Script=Katakana}]"),
    "ko": regex.compile(r"\p{Script=Hangul}"),
    "zh": regex.compile(r"\p{Script=Han}"),
}
_SCRIPTS = {
    "Hans": r"\p{Script=Han}",
    "Hant": r"\p{Script=Han}",
    "Jpan": r"[\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Han}]",
    "Kore": r"[\p{Script=Hangul}\p{Script=Han}]",
}
_KANA_SHARE = 0.05
"""Japanese text has at least this share of kana among its letters; Chinese text has none."""


def check_direction(sides: Iterable[Iterable[str]], direction: str, name: str) -> bool:
    """Raise UserError if text is certainly not in the languages of a direction.

    Args:
        sides: a sample of the source and of the target sentences.
        direction: the codes of both languages, joined by a hyphen.
        name: what the text is, for the error message.

    Returns:
        Whether there was enough text to check.
    """
    codes = direction.split("-")
    texts = list(map(list, sides))
    _warn_of_odd_text(texts, name)
    samples = [list(_chunks(side)) for side in texts]
    is_enough = min(map(len, samples)) >= _MIN_CHUNKS
    labels = [_labels(code, False) for code in codes]
    if is_enough and all(labels):
        found = [_languages(chunks) for chunks in samples]
        problem = _swapped_or_equal(found, labels) or _other(found, codes)
    else:
        scripts = list(map(script_of, codes))
        found = [_scripts(side, scripts) for side in texts]
        labels = [{one for one in scripts if _is_written_in(code, one)} for code in codes]
        problem = _swapped_or_equal(found, labels)
    if problem:
        raise UserError(
            f"{name}: {problem}, but corpus.direction={direction}; correct the direction or the"
            " text (corpus.columns names the columns of a file), or set"
            " corpus.check_languages=false"
        )
    return is_enough


def report_little_text(name: str) -> None:
    """Print that a text was too short for `check_direction`."""
    print_line(f"{name}: too little text to identify its languages; only scripts are compared")


def _warn_of_odd_text(texts: list[list[str]], name: str) -> None:
    """Print a warning if many pairs have equal sides, or were split into subwords already."""
    pairs = list(zip(*texts, strict=False))
    equal = sum(source == target and any(map(str.isalpha, source)) for source, target in pairs)
    split = sum("@@ " in source or "@@ " in target for source, target in pairs)
    for number, problem in (
        (equal, "have two equal sides, from which a model learns to copy"),
        (split, "have @@, as text that is split into subwords; remove it (sed 's/@@ //g')"),
    ):
        if number > _MOST_ODD * len(pairs):
            print_line(f"warning: {name}: {100 * number / len(pairs):.0f} % of the pairs {problem}")


def _swapped_or_equal(found: list[dict[str, float]], labels: list[set[str]]) -> str:
    """Describe sides that are swapped, or both in one of the languages; "" if neither is sure."""
    if labels[0] & labels[1] or not all(labels):
        return ""
    shares = [[sum(side.get(code, 0) for code in wanted) for wanted in labels] for side in found]
    (source, source_as_target), (target_as_source, target) = shares
    if (
        min(source_as_target, target_as_source) >= _MOST
        and source <= _MOST * source_as_target
        and target <= _MOST * target_as_source
    ):
        return "source and target are swapped"
    if min(source, target_as_source) >= _NEARLY_ALL and target <= _NONE:
        return "both sides are in the source language"
    if min(target, source_as_target) >= _NEARLY_ALL and source <= _NONE:
        return "both sides are in the target language"
    return ""


def _other(found: list[dict[str, float]], codes: list[str]) -> str:
    for side, shares, code in zip(("source", "target"), found, codes, strict=True):
        top = max(shares, key=shares.__getitem__)
        all_of_top = sum(shares.get(one, 0) for one in _labels(top, True))
        own = sum(shares.get(one, 0) for one in _labels(code, True))
        if own <= _NONE and all_of_top >= _NEARLY_ALL:
            return f"the {side} text is in {language(top).display_name()} ({top})"
    return ""


@cache
def _labels(code: str, with_related: bool) -> set[str]:
    """Return fastText's codes of a language, and of those that are often confused with it."""
    if language(code) is None:
        return set()
    known = filter(language, fasttext_codes())
    return {one for one in known if _is_one(one, code, with_related)}


def _is_one(known: str, code: str, with_related: bool) -> bool:
    first, second = language(known).language, language(code).language
    if is_same(first, second) or not with_related:
        return is_same(first, second)
    if script_of(known).startswith("Han") and script_of(code).startswith("Han"):
        return True
    # Serbian has two scripts; only with the Latin one it is close to Croatian.
    pairs = [(first, second), (first, f"{second}-Latn")]
    return min(langcodes.tag_distance(*each) for one in pairs for each in (one, one[::-1])) <= (
        _RELATED_DISTANCE
    )


def _chunks(texts: Iterable[str]) -> Iterator[str]:
    """Join texts to chunks of at least _CHUNK_LETTERS letters."""
    chunk, num_letters, num_chunks = [], 0, 0
    for text in texts:
        chunk.append(text)
        num_letters += sum(map(str.isalpha, text))
        if num_letters >= _CHUNK_LETTERS:
            yield " ".join(chunk)
            chunk, num_letters, num_chunks = [], 0, num_chunks + 1
            if num_chunks == _MAX_CHUNKS:
                return


def _languages(chunks: list[str]) -> dict[str, float]:
    """Return the mean probability of each language."""
    total: Counter[str] = Counter()
    for chunk in chunks:
        total.update(_east_asian(chunk) or probabilities(chunk))
    return {code: value / len(chunks) for code, value in total.items()}


def _east_asian(chunk: str) -> dict[str, float]:
    """Identify Chinese, Japanese and Korean by their scripts: fastText confuses them at times."""
    num_letters = sum(map(str.isalpha, chunk))
    shares = {code: len(known.findall(chunk)) / num_letters for code, known in _EAST_ASIAN.items()}
    if sum(shares.values()) < _MOST:
        return {}
    code = "ja" if shares["ja"] >= _KANA_SHARE else max(shares, key=shares.__getitem__)
    return {code: 1.0}


def _scripts(texts: list[str], scripts: list[str]) -> dict[str, float]:
    """Return the share of the letters in each script; empty if there are too few letters."""
    text = "".join(filter(str.isalpha, "".join(texts)))
    if len(text) < _MIN_LETTERS:
        return {}
    patterns = {script: _SCRIPTS.get(script, rf"\p{{Script={script}}}") for script in scripts}
    return {
        script: len(regex.findall(pattern, text)) / len(text)
        for script, pattern in patterns.items()
        if script
    }


def _is_written_in(code: str, script: str) -> bool:
    """Return whether a language has a script: its default one, or another that CLDR lists."""
    known = language(code)
    if not known or known.script or script == script_of(code):
        return bool(script) and script == script_of(code)
    return bool(langcodes.Language.make(known.language, script=script).writing_population())
