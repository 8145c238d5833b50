"""Comparison of translations with those of a baseline.

A comparison has the significance of the differences, the recall of terms, and the sentences that
changed most.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from nmt.base.progress import progress_bar
from nmt.base.terms import WORD
from nmt.data.corpus import PreparedCorpus
from nmt.metrics.scores import sentence_chrf
from nmt.metrics.significance import Difference, compare
from nmt.metrics.terms import TermRecall, find_terms, term_recall
from nmt.run_folder import StoredTexts
from nmt.tokenizer import Tokenizer

_NUM_CHANGED = 5  # of the better sentences, and of the worse ones
_MAX_TARGETS = 1_000_000  # target sentences of training whose words are counted
_TARGETS_AT_A_TIME = 10_000  # target sentences that are decoded at once


@dataclass(frozen=True)
class Changed:
    """A sentence whose translations by system and baseline differ in chrF2++ (from 0 to 100).

    `line` counts from 1.
    """

    line: int
    source: str
    reference: str
    baseline: str
    translation: str
    chrf_baseline: float
    chrf: float


@dataclass(frozen=True)
class Comparison:
    """A system and its baseline on a test set.

    Attributes:
        baseline: name of the baseline.
        why: how it was chosen.
        differences: the differences from the baseline by metric.
        hypotheses: translations of the baseline.
        better: the sentences whose chrF2++ is highest above that of the baseline.
        worse: the sentences whose chrF2++ is farthest below that of the baseline.
        terms: the recall of terms; None if no terms are known.
    """

    baseline: str
    why: str
    differences: dict[str, Difference]
    hypotheses: list[str]
    better: list[Changed]
    worse: list[Changed]
    terms: TermRecall | None = None

    def to_json(self) -> dict[str, Any]:
        """Convert to the layout of `scores.json`."""
        return {
            "system": self.baseline,
            "why": self.why,
            **{key: asdict(difference) for key, difference in self.differences.items()},
            "better": [asdict(one) for one in self.better],
            "worse": [asdict(one) for one in self.worse],
            **({"terms": asdict(self.terms)} if self.terms else {}),
        }


def compared_texts(
    name: str, why: str, texts: StoredTexts, terms: Sequence[str] = ()
) -> Comparison:
    """Compare translations with those of a baseline, `texts.baseline`.

    Args:
        name: name of the baseline.
        why: how it was chosen.
        texts: the texts of the test set.
        terms: words whose recall is computed; see `terms_of`.
    """
    baseline, after, references = texts.baseline or [], texts.hypotheses, texts.references
    scores = (sentence_chrf(lines, *references) for lines in (baseline, after))
    columns = (texts.sources, references[0], baseline, after, *scores)
    rows = [Changed(line, *row) for line, row in enumerate(zip(*columns, strict=True), start=1)]
    rows.sort(key=lambda row: row.chrf_baseline - row.chrf)
    return Comparison(
        name,
        why,
        compare(baseline, after, *references, tokenizer=texts.tokenizer),
        baseline,
        [row for row in rows if row.chrf > row.chrf_baseline][:_NUM_CHANGED],
        [row for row in reversed(rows) if row.chrf < row.chrf_baseline][:_NUM_CHANGED],
        term_recall(terms, references[0], baseline, after) if terms else None,
    )


@cache
def terms_of(corpus: PreparedCorpus, translations: tuple[str, ...]) -> list[str]:
    """Find the terms of a corpus; `translations` are those of `valid` by the baseline.

    Return no terms if there are not as many translations as sentences.
    """
    _, references = corpus.read_text("valid")
    if len(translations) != len(references):
        return []
    return find_terms(target_words(corpus), references, translations)


@cache
def target_words(corpus: PreparedCorpus) -> Counter[str]:
    """Count the words of up to a million target sentences of training.

    Those of `corpus.sources` are left out.
    """
    pairs, tokenizer = corpus.train(), Tokenizer(corpus.target_tokenizer)
    num_own = corpus.manifest.get("sources", {}).get(corpus.name, len(pairs))
    num_targets = min(num_own, _MAX_TARGETS)
    counts: Counter[str] = Counter()
    with progress_bar("collecting words", num_targets) as advance:
        for first in range(0, num_targets, _TARGETS_AT_A_TIME):
            indices = range(first, min(num_targets, first + _TARGETS_AT_A_TIME))
            for line in tokenizer.decode([pairs.pair(index)[1].tolist() for index in indices]):
                counts.update(WORD.findall(line))
            advance(len(indices))
    return counts
