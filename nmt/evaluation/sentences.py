"""What single translations are like: how near to the reference, how long, and what is odd in them.

Pure functions over aligned lines; the run's report shows what they find.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.evaluation.scores import Score, bleu_with_interval, check_aligned, metrics

SENTENCE_ENDS = ".!?…‥。！？｡．؟۔।॥։።"
_CLOSING = "\"'“”„»«›‹’‘)]}』」"

_MOST_WORDS_REPEATED = 4
_TIMES_REPEATED = 3
_NUM_LENGTH_BINS = 6


@dataclass(frozen=True)
class Oddity:
    """A kind of translation that is seldom right.

    Attributes:
        name: in one word.
        meaning: what counts as one.
        places: numbers of the sentences, from 0.
        in_references: how many of the first references are so, too: such a one may be right. None
            where it is the references that tell.
    """

    name: str
    meaning: str
    places: list[int]
    in_references: int | None


@dataclass(frozen=True)
class LengthBin:
    """Sentences whose sources are of like length.

    Attributes:
        shortest: length of the shortest source.
        longest: of the longest.
        places: numbers of the sentences, from 0.
    """

    shortest: int
    longest: int
    places: list[int]

    @property
    def label(self) -> str:
        """`7–9`."""
        return (
            f"{self.shortest}–{self.longest}" if self.shortest < self.longest else f"{self.longest}"
        )


def sentence_chrf(translations: Sequence[str], *references: Sequence[str]) -> list[float]:
    """chrF2++ of each sentence, 0 to 100."""
    check_aligned(translations, *references)
    metric = metrics()["chrf"]
    return [
        float(metric.sentence_score(translation, list(sides)).score)
        for translation, *sides in zip(translations, *references, strict=True)
    ]


def worst_and_best(
    scores: Sequence[float], sources: Sequence[str], most: int
) -> tuple[list[int], list[int]]:
    """Places of the sentences with the lowest and with the highest scores, each from the outside.

    Of equal scores the longer source comes first, and equal sources are given once. No sentence is
    in both lists unless there are fewer than twice as many as asked for.
    """
    first_of = {source: place for place, source in reversed(list(enumerate(sources)))}
    places = sorted(first_of.values())
    worst = sorted(places, key=lambda place: (scores[place], -len(sources[place])))
    best = sorted(places, key=lambda place: (-scores[place], -len(sources[place])))
    return worst[:most], best[:most]


def most_changed(before: Sequence[float], after: Sequence[float], most: int) -> list[int]:
    """Places of the sentences whose scores differ most, the largest difference first."""
    changes = [abs(new - old) for old, new in zip(before, after, strict=True)]
    order = sorted(range(len(changes)), key=lambda place: -changes[place])
    return [place for place in order[:most] if changes[place] > 0]


def is_copied(source: str, translation: str) -> bool:
    """Whether the translation is its source."""
    return bool(source.strip()) and source.strip() == translation.strip()


def is_repetitive(translation: str) -> bool:
    """Whether some one to four words stand there three times in a row or more."""
    words = translation.split()
    for size in range(1, _MOST_WORDS_REPEATED + 1):
        run = 0  # places in a row at which a word is the one `size` places before it
        for place in range(size, len(words)):
            run = run + 1 if words[place] == words[place - size] else 0
            if run >= size * (_TIMES_REPEATED - 1):
                return True
    return False


def has_end(text: str) -> bool:
    """Whether a text ends as sentences do, quotes and brackets apart."""
    return text.rstrip().rstrip(_CLOSING).rstrip()[-1:] in tuple(SENTENCE_ENDS)


def is_truncated(translation: str, reference: str) -> bool:
    """Whether the mark that ends the reference's sentence is missing in a translation."""
    return bool(translation.strip()) and has_end(reference) and not has_end(translation)


def oddities(
    sources: Sequence[str], references: Sequence[str], translations: Sequence[str]
) -> list[Oddity]:
    """What is odd in the translations, kind by kind."""
    rows = list(zip(sources, references, translations, strict=True))

    def places(found: Sequence[bool]) -> list[int]:
        return [place for place, is_odd in enumerate(found) if is_odd]

    return [
        Oddity(
            "copied",
            "the translation is the source, character by character",
            places([is_copied(source, ours) for source, _, ours in rows]),
            sum(is_copied(source, reference) for source, reference, _ in rows),
        ),
        Oddity(
            "empty",
            "the translation has no character but white space",
            places([not ours.strip() for *_, ours in rows]),
            sum(not reference.strip() for _, reference, _ in rows),
        ),
        Oddity(
            "repeated",
            "some one to four words stand in it three times in a row or more",
            places([is_repetitive(ours) for *_, ours in rows]),
            sum(is_repetitive(reference) for _, reference, _ in rows),
        ),
        Oddity(
            "truncated",
            f"the reference ends in a mark such as {' '.join(SENTENCE_ENDS[:4])} and the"
            " translation in none, as where search met its limit of length; quotes and brackets"
            " behind the mark do not matter, and empty translations are not counted",
            places([is_truncated(ours, reference) for _, reference, ours in rows]),
            None,
        ),
    ]


def length_unit(sources: Sequence[str]) -> str:
    """What lengths are counted in: words, or characters where the language has no spaces."""
    words = [len(source.split()) for source in sources]
    characters = [len(source) for source in sources]
    is_spaced = not words or statistics.median(words) > 1 or statistics.median(characters) < 5
    return "words" if is_spaced else "characters"


def length_bins(sources: Sequence[str], most: int = _NUM_LENGTH_BINS) -> list[LengthBin]:
    """All sentences by the length of their sources, in bins of about the same number each."""
    in_words = length_unit(sources) == "words"
    lengths = [len(source.split()) if in_words else len(source) for source in sources]
    of_length: dict[int, list[int]] = {}
    for place, length in enumerate(lengths):
        of_length.setdefault(length, []).append(place)
    bins: list[LengthBin] = []
    places: list[int] = []
    shortest, seen = min(lengths, default=0), 0
    for length in sorted(of_length):
        if not places:
            shortest = length
        places += of_length[length]
        # A length is never split, so a bin ends where its share is reached.
        if seen + len(places) >= len(lengths) * (len(bins) + 1) / most:
            bins.append(LengthBin(shortest, length, sorted(places)))
            seen, places = seen + len(places), []
    return bins


def bleu_of(
    places: Sequence[int], translations: Sequence[str], *references: Sequence[str]
) -> Score:
    """BLEU with its interval over some of the sentences."""
    chosen = [translations[place] for place in places]
    return bleu_with_interval(chosen, *[[side[place] for place in places] for side in references])
