"""The part of a run's report about one test set: lengths, suspicious translations, examples."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from nmt.evaluation.charts import Series, bar_chart
from nmt.evaluation.run_data import Training, TranslatedSet
from nmt.evaluation.sentences import (
    bleu_of,
    length_bins,
    length_unit,
    most_changed,
    oddities,
    sentence_chrf,
    worst_and_best,
)
from nmt.metrics.scores import Score

_NUM_SENTENCES = 20
_NUM_EXAMPLES = 5
# Longer sentences are cut in the template, and their words are not compared.
_MAX_CHARACTERS = 600


def describe_test_set(test_set: TranslatedSet, baseline: Training | None) -> dict[str, Any]:
    """Compute what the template shows of a test set."""
    chrf = sentence_chrf(test_set.translations, *test_set.references)
    before = None
    if test_set.baseline is not None:
        before = sentence_chrf(test_set.baseline, *test_set.references)
    name = baseline.name if baseline and before is not None else ""

    def examples(indices: Sequence[int]) -> list[dict[str, Any]]:
        return [_example(test_set, index, chrf, before) for index in indices]

    worst, best = worst_and_best(chrf, test_set.sources, _NUM_SENTENCES)
    described: dict[str, Any] = {
        "name": test_set.name,
        "num_sentences": len(test_set.sources),
        "baseline": name,
        "worst": examples(worst),
        "best": examples(best),
        "changed": [],
        **_lengths(test_set, name),
    }
    found = oddities(test_set.sources, test_set.references[0], test_set.translations)
    theirs = oddities(
        test_set.sources, test_set.references[0], test_set.baseline or test_set.translations
    )
    described["oddities"] = [
        (oddity, len(other.indices), examples(oddity.indices[:_NUM_EXAMPLES]))
        for oddity, other in zip(found, theirs, strict=True)
    ]
    if before is not None:
        pairs = list(zip(before, chrf, strict=True))
        described["changed"] = examples(most_changed(before, chrf, _NUM_SENTENCES))
        described["num_better"] = sum(new > old for old, new in pairs)
        described["num_worse"] = sum(new < old for old, new in pairs)
    return described


def compare_words(text: str, other: str) -> list[tuple[str, bool]]:
    """Divide a text into parts, and mark those whose words the other text lacks."""
    if max(len(text), len(other)) > _MAX_CHARACTERS:
        return [(text, False)]
    words, others = text.split(), other.split()
    matcher = SequenceMatcher(None, words, others, autojunk=False)
    return [
        (" ".join(words[start:end]), kind != "equal")
        for kind, start, end, *_ in matcher.get_opcodes()
        if start < end
    ]


def _example(
    test_set: TranslatedSet, index: int, chrf: Sequence[float], before: Sequence[float] | None
) -> dict[str, Any]:
    """Describe a sentence by its line number, chrF and labelled texts.

    A text is a list of parts; parts that differ between translation and baseline are marked.
    """
    texts = [("source", [(test_set.sources[index], False)])]
    for number, lines in enumerate(test_set.references, start=1):
        label = f"reference {number}" if number > 1 else "reference"
        texts.append((label, [(lines[index], False)]))
    ours = test_set.translations[index]
    theirs = ours if test_set.baseline is None else test_set.baseline[index]
    texts.append(("translation", compare_words(ours, theirs)))
    if before is not None:
        texts.append(("baseline", compare_words(theirs, ours)))
    return {
        "number": index + 1,
        "chrf": chrf[index],
        "baseline_chrf": before and before[index],
        "texts": texts,
    }


def _lengths(test_set: TranslatedSet, baseline: str) -> dict[str, Any]:
    """Compute BLEU by source length, as a chart and as rows of a table."""
    bins = length_bins(test_set.sources)

    def scores(translations: list[str]) -> list[Score]:
        return [bleu_of(one.indices, translations, *test_set.references) for one in bins]

    columns = {"this run": scores(test_set.translations)}
    if test_set.baseline is not None:
        columns[baseline] = scores(test_set.baseline)
    series = [
        Series(name, colour, (), [one.score for one in found], [one.ci95 or 0 for one in found])
        for (name, found), colour in zip(columns.items(), ("source", "baseline"), strict=False)
    ]
    unit = f"{length_unit(test_set.sources)} of the source"
    labels = [one.label for one in bins]
    return {
        "length_unit": unit,
        "length_chart": bar_chart(f"{test_set.name}: BLEU by length", unit, labels, series),
        "length_rows": [
            (
                one.label,
                len(one.indices),
                *(f"{found[i].score:.2f} ± {found[i].ci95:.2f}" for found in columns.values()),
            )
            for i, one in enumerate(bins)
        ],
    }
