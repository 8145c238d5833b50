"""Terms: words of the training text that a baseline does not use, and the recall of these words.

In this module, a word is a run of four letters or more: E-Mail-Adresse has two, Mail and Adresse.
Case is ignored, and ß counts as ss.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import regex

DEFINITION = (
    "A term is a run of four letters or more; case is ignored, and ß counts as ss. It occurs at"
    " least five times in the target side of the training text and at least once in the references"
    " of valid, but never in the translations of valid by the baseline. Recall is the share of the"
    " occurrences of terms in the references of the test set that also occur in the translations."
)

_WORD = regex.compile(r"(?:\p{L}\p{M}*){4,}")
_MIN_OCCURRENCES = 5


@dataclass(frozen=True)
class TermRecall:
    """Recall of terms by a baseline and by a system on a test set, in percent.

    Both are 0 if the terms have no occurrences in the references.
    """

    words: list[str]
    occurrences: int
    baseline: float
    system: float

    def __str__(self) -> str:
        found = (
            f"words that the baseline missed on valid: {len(self.words):,}, with"
            f" {self.occurrences:,} occurrences in the references"
        )
        if not self.occurrences:
            return found
        return f"{found}; recall {self.system:.1f} %, baseline {self.baseline:.1f} %"


def find_terms(
    training: Mapping[str, int], references: Sequence[str], translations: Sequence[str]
) -> list[str]:
    """Find the terms; see `DEFINITION`.

    Args:
        training: numbers of the words of the target side of the training text.
        references: references of `valid`.
        translations: translations of `valid` by the baseline.
    """
    missed = _words("\n".join(references)).keys() - _words("\n".join(translations)).keys()
    counts: Counter[str] = Counter()
    for text, number in training.items() if missed else ():
        for word in _WORD.findall(text.casefold()):
            counts[word] += number
    return sorted(word for word in missed if counts[word] >= _MIN_OCCURRENCES)


def term_recall(
    terms: Iterable[str], references: Sequence[str], baseline: Sequence[str], system: Sequence[str]
) -> TermRecall:
    """Compute the recall of terms in the translations by a baseline and by a system.

    Occurrences are matched within each sentence, then summed.
    """
    words = set(terms)
    wanted = [
        Counter({word: count for word, count in _words(line).items() if word in words})
        for line in references
    ]
    occurrences = sum(each.total() for each in wanted)

    def recall(translations: Sequence[str]) -> float:
        pairs = zip(wanted, map(_words, translations), strict=True)
        return 100 * sum((each & found).total() for each, found in pairs) / max(1, occurrences)

    return TermRecall(sorted(words), occurrences, recall(baseline), recall(system))


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.casefold()))
