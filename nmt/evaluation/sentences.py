"""Analysis of single translations: sentence-level chrF, length, and suspicious translations.

Pure functions of aligned lines. Sentences are referred to by their indices.
"""

import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nmt.metrics.scores import Score, bleu_score, check_aligned, metrics

SENTENCE_ENDS = ".!?…‥。！？｡．؟۔।॥։።"
_CLOSING = "\"'“”„»«›‹’‘)]}』」"

_REPEATED = re.compile(r"(?<!\S)(\S+(?: \S+){0,3})(?: \1){2}(?!\S)")
_NUM_LENGTH_BINS = 6


@dataclass(frozen=True)
class Oddity:
    """A kind of translation that is usually wrong, and the translations of this kind.

    The number of references of this kind shows how often it is correct.
    """

    name: str
    meaning: str
    indices: list[int]
    in_references: int


@dataclass(frozen=True)
class LengthBin:
    """Sentences with sources of similar length; the label is the range, such as `7–9`."""

    label: str
    indices: list[int]


def sentence_chrf(translations: Sequence[str], *references: Sequence[str]) -> list[float]:
    """Compute chrF2++ of each sentence, 0 to 100."""
    check_aligned(translations, *references)
    metric = metrics()["chrf"]
    return [
        float(metric.sentence_score(translation, list(alternatives)).score)
        for translation, *alternatives in zip(translations, *references, strict=True)
    ]


def worst_and_best(
    scores: Sequence[float], sources: Sequence[str], most: int
) -> tuple[list[int], list[int]]:
    """Find the sentences with the lowest and with the highest scores.

    A source that occurs several times is listed once. Of equal scores, the longer source is first.
    """
    first_index = {source: index for index, source in reversed(list(enumerate(sources)))}
    indices = sorted(first_index.values())
    worst = sorted(indices, key=lambda index: (scores[index], -len(sources[index])))
    best = sorted(indices, key=lambda index: (-scores[index], -len(sources[index])))
    return worst[:most], best[:most]


def most_changed(before: Sequence[float], after: Sequence[float], most: int) -> list[int]:
    """Find the sentences whose scores differ most, the largest difference first."""
    changes = [abs(new - old) for old, new in zip(before, after, strict=True)]
    order = sorted(range(len(changes)), key=lambda index: -changes[index])
    return [index for index in order[:most] if changes[index] > 0]


def is_copied(source: str, translation: str) -> bool:
    """Whether the translation equals its source."""
    return bool(source.strip()) and source.strip() == translation.strip()


def is_repetitive(translation: str) -> bool:
    """Whether a sequence of one to four words occurs three times in a row or more."""
    return _REPEATED.search(" ".join(translation.split())) is not None


def has_end(text: str) -> bool:
    """Whether a text ends with a sentence-final mark, ignoring quotes and brackets after it."""
    return text.rstrip().rstrip(_CLOSING).rstrip()[-1:] in tuple(SENTENCE_ENDS)


def is_truncated(translation: str, reference: str) -> bool:
    """Whether a translation has no sentence-final mark although its reference has one."""
    return bool(translation.strip()) and has_end(reference) and not has_end(translation)


# Name, definition and test of each kind, as a function of source, reference and translation.
_KINDS: tuple[tuple[str, str, Callable[[str, str, str], bool]], ...] = (
    (
        "copied",
        "the translation equals the source",
        lambda source, _, text: is_copied(source, text),
    ),
    (
        "empty",
        "the translation is empty or consists of white space",
        lambda _source, _, text: not text.strip(),
    ),
    (
        "repeated",
        "a sequence of one to four words occurs three times in a row or more",
        lambda _source, _, text: is_repetitive(text),
    ),
    (
        "truncated",
        f"the reference ends with a mark such as {' '.join(SENTENCE_ENDS[:4])} and the translation"
        " does not, for example because it reached the maximum length; quotes and brackets after"
        " the mark are ignored, and empty translations are not counted",
        lambda _, reference, text: is_truncated(text, reference),
    ),
)


def oddities(
    sources: Sequence[str], references: Sequence[str], translations: Sequence[str]
) -> list[Oddity]:
    """Find suspicious translations of each kind."""
    rows = list(zip(sources, references, translations, strict=True))
    return [
        Oddity(
            name,
            meaning,
            [index for index, row in enumerate(rows) if is_odd(*row)],
            sum(is_odd(source, reference, reference) for source, reference, _ in rows),
        )
        for name, meaning, is_odd in _KINDS
    ]


def length_unit(sources: Sequence[str]) -> str:
    """Return `words`, or `characters` if the language does not separate words by spaces."""
    words = [len(source.split()) for source in sources]
    characters = [len(source) for source in sources]
    is_spaced = not words or statistics.median(words) > 1 or statistics.median(characters) < 5
    return "words" if is_spaced else "characters"


def length_bins(sources: Sequence[str], most: int = _NUM_LENGTH_BINS) -> list[LengthBin]:
    """Divide the sentences by source length into bins of similar size."""
    counts_words = length_unit(sources) == "words"
    lengths = [len(source.split()) if counts_words else len(source) for source in sources]
    of_length: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        of_length.setdefault(length, []).append(index)
    bins: list[LengthBin] = []
    indices: list[int] = []
    shortest, num_binned = min(lengths, default=0), 0
    for length in sorted(of_length):
        if not indices:
            shortest = length
        indices += of_length[length]
        # Sentences of equal length share a bin, so a bin ends once its share is reached.
        if num_binned + len(indices) >= len(lengths) * (len(bins) + 1) / most:
            label = f"{length}" if shortest == length else f"{shortest}–{length}"
            bins.append(LengthBin(label, sorted(indices)))
            num_binned, indices = num_binned + len(indices), []
    return bins


def bleu_of(
    indices: Sequence[int], translations: Sequence[str], *references: Sequence[str]
) -> Score:
    """Compute BLEU with its interval on some of the sentences."""
    selected = [[lines[index] for index in indices] for lines in (translations, *references)]
    return bleu_score(*selected, with_interval=True)
