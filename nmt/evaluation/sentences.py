"""The part of a run's report about one test set: lengths, suspicious translations, examples.

Sentences are referred to by their indices.
"""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from operator import gt, lt
from typing import Any

import numpy as np

from nmt.base.languages import is_unspaced, split_words
from nmt.config import DEFAULT_TOKENIZER
from nmt.evaluation.charts import Series, bar_chart
from nmt.metrics.oddities import ODDITIES, find_oddities
from nmt.metrics.scores import Score, bleu_score, sentence_chrf
from nmt.run_folder import StoredTexts

_NUM_SENTENCES = 20
# Longer sentences are cut in the template, and their words are not compared.
_MAX_CHARACTERS = 600


def describe_test_set(texts: StoredTexts, baseline_name: str) -> dict[str, Any]:
    """Compute what the template shows of a test set."""

    def oddities(lines: Sequence[str]) -> dict[str, list[int]]:
        return find_oddities(texts.sources, texts.references[0], lines)

    chrf = sentence_chrf(texts.hypotheses, *texts.references)
    worst, best = worst_and_best(chrf, texts.sources, _NUM_SENTENCES)
    described: dict[str, Any] = {
        "texts": texts,
        "chrf": chrf,
        "worst": worst,
        "best": best,
        "oddities": oddities(texts.hypotheses),
        "reference_oddities": oddities(texts.references[0]),
        "definitions": ODDITIES,
        "compare_words": compare_words,
        "baseline": "",
    }
    systems = {"this run": texts.hypotheses}
    if (baseline := texts.baseline) is not None:
        systems[baseline_name] = baseline
        before = sentence_chrf(baseline, *texts.references)
        described |= {
            "baseline": baseline_name,
            "baseline_hypotheses": baseline,
            "baseline_chrf": before,
            "baseline_oddities": oddities(baseline),
            "changed": most_changed(before, chrf, _NUM_SENTENCES),
            "num_better": sum(map(gt, chrf, before)),
            "num_worse": sum(map(lt, chrf, before)),
        }
    return described | _bleu_by_length(texts, systems)


def _bleu_by_length(texts: StoredTexts, systems: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Compute the BLEU of each system by source length, as a chart and for a table."""
    bins = length_bins(texts.sources)
    bleu = {
        name: [
            bleu_of(indices, lines, *texts.references, tokenizer=texts.tokenizer)
            for indices in bins.values()
        ]
        for name, lines in systems.items()
    }
    series = [
        Series(name, colour, (), [one.score for one in found], [one.ci95 or 0 for one in found])
        for (name, found), colour in zip(bleu.items(), ("source", "baseline"), strict=False)
    ]
    unit = f"{length_unit(texts.sources)} of the source"
    chart = bar_chart(f"{texts.name}: BLEU by length", unit, list(bins), series)
    return {"length_unit": unit, "length_bins": bins, "length_bleu": bleu, "length_chart": chart}


def bleu_of(
    indices: Sequence[int],
    translations: Sequence[str],
    *references: Sequence[str],
    tokenizer: str = DEFAULT_TOKENIZER,
) -> Score:
    """Compute BLEU with its confidence interval on some of the sentences."""
    selected = [[lines[index] for index in indices] for lines in (translations, *references)]
    return bleu_score(*selected, tokenizer=tokenizer, with_interval=True)


def worst_and_best(
    scores: Sequence[float], sources: Sequence[str], number: int
) -> tuple[list[int], list[int]]:
    """Find the sentences with the lowest and with the highest scores.

    A source that occurs several times is listed once. At equal scores, longer sources are first.
    """
    first_index = {source: index for index, source in reversed(list(enumerate(sources)))}
    indices = sorted(first_index.values())
    worst = sorted(indices, key=lambda index: (scores[index], -len(sources[index])))
    best = sorted(indices, key=lambda index: (-scores[index], -len(sources[index])))
    return worst[:number], best[:number]


def most_changed(before: Sequence[float], after: Sequence[float], number: int) -> list[int]:
    """Find the sentences whose scores differ most, the largest difference first."""
    changes = [abs(new - old) for old, new in zip(before, after, strict=True)]
    order = sorted(range(len(changes)), key=lambda index: -changes[index])
    return [index for index in order[:number] if changes[index] > 0]


def length_unit(sources: Sequence[str]) -> str:
    """Return `words`, or `characters` if most sources are in a script without blanks."""
    return "characters" if 2 * sum(map(is_unspaced, sources)) > len(sources) else "words"


def length_bins(sources: Sequence[str], max_bins: int = 6) -> dict[str, list[int]]:
    """Divide the sentences by source length into bins of similar size.

    Returns:
        The sentences of each bin, by its range of lengths, such as `7–9`.
    """
    lengths = np.array([len(split_words(text)) for text in sources])
    # Sentences of equal length share a bin, so there may be fewer than `max_bins`.
    shares = np.arange(1, max_bins + 1) / max_bins
    longest = np.unique(np.quantile(lengths, shares, method="inverted_cdf"))
    bin_of = np.searchsorted(longest, lengths)
    bins = {}
    for number in range(len(longest)):
        (indices,) = np.nonzero(bin_of == number)
        low, high = lengths[indices].min(), lengths[indices].max()
        bins[f"{low}" if low == high else f"{low}–{high}"] = indices.tolist()
    return bins


def compare_words(text: str, other: str) -> list[tuple[str, bool]]:
    """Divide a text into parts; True marks a part that `difflib` does not align with `other`."""
    if max(len(text), len(other)) > _MAX_CHARACTERS:
        return [(text, False)]
    text = " ".join(text.split())
    words, ends = split_words(text), [0]
    for word in words:
        ends.append(text.index(word, ends[-1]) + len(word))
    matcher = SequenceMatcher(None, words, split_words(other), autojunk=False)
    return [
        (text[ends[start] : ends[end]].strip(), kind != "equal")
        for kind, start, end, *_ in matcher.get_opcodes()
        if start < end
    ]
