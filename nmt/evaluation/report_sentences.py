"""The part of a run's report that is about one test set: its sentences, lengths and oddities."""

from collections.abc import Sequence
from difflib import SequenceMatcher

from nmt.evaluation.charts import Bars, bar_chart
from nmt.evaluation.run_data import RunData, Translated
from nmt.evaluation.scores import Score
from nmt.evaluation.sentences import (
    bleu_of,
    length_bins,
    length_unit,
    most_changed,
    oddities,
    sentence_chrf,
    worst_and_best,
)
from nmt.html_page import Cell, Figure, table, text

SENTENCES_STYLE = """
.sentence { border-top: 1px solid var(--line); padding: .5rem 0; }
.sentence > p { margin: 0 0 .2rem; font-size: .85rem; }
.sentence dl { display: grid; grid-template-columns: 7rem minmax(0, 1fr); gap: .1rem 1rem;
  margin: 0; }
.sentence dt { color: var(--faint); font-size: .85rem; overflow-wrap: anywhere; }
.sentence dd { margin: 0; text-align: start; }
@media (max-width: 34rem) { .sentence dl { grid-template-columns: minmax(0, 1fr); }
  .sentence dt { margin-top: .3rem; } }
mark { background: var(--mark); color: inherit; border-radius: 2px; }
"""

_EMPTY = '<span class="faint">(empty)</span>'

_NUM_SENTENCES = 20
_NUM_EXAMPLES = 5
_MOST = 600
"""Characters of a sentence that are shown."""


def split_section(test_set: Translated, data: RunData, number: int) -> str:
    """Everything about one test set.

    Args:
        test_set: as the run and its baseline have translated it.
        data: the run, for names.
        number: of the test set, from 1: its place on the page, and the first one is opened.
    """
    scores = sentence_chrf(test_set.translations, *test_set.references)
    baseline = data.baseline.name if data.baseline else ""
    before = None
    if test_set.baseline is not None:
        before = _scores_before(test_set, scores)
    shown = _Shown(test_set, scores, before, baseline)
    worst, best = worst_and_best(scores, test_set.sources, _NUM_SENTENCES)
    opened = " open" if number == 1 else ""
    parts = [
        f'<h2 id="set-{number}">Translations of {text(test_set.name)}</h2>',
        f"<p>{len(test_set.sources):,} sentences. chrF of a sentence is chrF2++, 0 to 100.</p>",
        _lengths(test_set, baseline),
        _oddities(shown),
        "<h3>Sentences</h3>",
        f"<details{opened}><summary>The {len(worst)} worst by chrF</summary>"
        f"{shown.cards(worst)}</details>",
        f"<details><summary>The {len(best)} best by chrF</summary>{shown.cards(best)}</details>",
    ]
    if before is not None:
        parts.append(_changed(shown, before))
    return "".join(parts)


def _scores_before(test_set: Translated, scores: Sequence[float]) -> list[float]:
    """The baseline's chrF by sentence; where it says the same, so does chrF."""
    assert test_set.baseline is not None
    before = list(scores)
    pairs = zip(test_set.baseline, test_set.translations, strict=True)
    places = [place for place, (theirs, ours) in enumerate(pairs) if theirs != ours]
    if places:
        theirs = [test_set.baseline[place] for place in places]
        sides = [[side[place] for place in places] for side in test_set.references]
        for place, score in zip(places, sentence_chrf(theirs, *sides), strict=True):
            before[place] = score
    return before


class _Shown:
    """Sentences of a test set as they stand on the page.

    Args:
        test_set: the texts.
        scores: chrF of each sentence.
        before: the baseline's; None where there is none.
        baseline: its name.
    """

    def __init__(
        self,
        test_set: Translated,
        scores: Sequence[float],
        before: Sequence[float] | None,
        baseline: str,
    ) -> None:
        self.test_set = test_set
        self.baseline = baseline
        self.scores = scores
        self._before = before

    def cards(self, places: Sequence[int]) -> str:
        """One block a sentence."""
        return "".join(map(self._card, places))

    def _card(self, place: int) -> str:
        test_set = self.test_set
        told = f"line {place + 1:,}, chrF {self.scores[place]:.1f}"
        references = [
            ("reference" if number == 0 else f"reference {number + 1}", text(side[place], _MOST))
            for number, side in enumerate(test_set.references)
        ]
        rows = [("source", text(test_set.sources[place], _MOST)), *references]
        ours = test_set.translations[place]
        if test_set.baseline is None or self._before is None:
            rows.append(("translation", text(ours, _MOST)))
        else:
            theirs = test_set.baseline[place]
            told += f", baseline {self._before[place]:.1f}"
            rows.append(("translation", marked(ours, theirs)))
            rows.append(("baseline", marked(theirs, ours)))
        lines = "".join(
            f'<dt>{name}</dt><dd dir="auto">{line or _EMPTY}</dd>' for name, line in rows
        )
        return f'<div class="sentence"><p>{told}</p><dl>{lines}</dl></div>'


def marked(words: str, others: str) -> str:
    """A text as HTML in which the words that are not in another one stand out."""
    if len(words) > _MOST or len(others) > _MOST:
        return text(words, _MOST)
    own, other = words.split(), others.split()
    shown = []
    for kind, first, last, *_ in SequenceMatcher(None, own, other, autojunk=False).get_opcodes():
        some = text(" ".join(own[first:last]))
        if some:
            shown.append(some if kind == "equal" else f"<mark>{some}</mark>")
    return " ".join(shown)


def _lengths(test_set: Translated, baseline: str) -> str:
    bins = length_bins(test_set.sources)
    ours = [bleu_of(one.places, test_set.translations, *test_set.references) for one in bins]
    rows = [_bars("this run", "source", ours)]
    theirs: list[Score] = []
    if test_set.baseline is not None:
        theirs = [bleu_of(one.places, test_set.baseline, *test_set.references) for one in bins]
        rows.append(_bars(baseline, "before", theirs))
    unit = f"{length_unit(test_set.sources)} of the source"
    cells: list[list[Cell]] = []
    for number, one in enumerate(bins):
        row: list[Cell] = [one.label, len(one.places), _figure(ours[number])]
        cells.append([*row, _figure(theirs[number])] if theirs else row)
    header = [unit, "sentences", "BLEU", *([f"BLEU of {baseline}"] if theirs else [])]
    labels = [one.label for one in bins]
    return (
        "<h3>BLEU by length of the source</h3>"
        + bar_chart(f"{test_set.name}: BLEU by length", "BLEU", labels, rows, unit)
        + table(header, cells)
    )


def _bars(name: str, kind: str, scores: Sequence[Score]) -> Bars:
    return Bars(name, kind, [score.score for score in scores], [score.ci95 for score in scores])


def _figure(score: Score) -> Figure:
    return Figure(f"{score.score:.2f} ± {score.ci95:.2f}")


def _oddities(shown: _Shown) -> str:
    test_set = shown.test_set
    ours = oddities(test_set.sources, test_set.references[0], test_set.translations)
    theirs = (
        oddities(test_set.sources, test_set.references[0], test_set.baseline)
        if test_set.baseline is not None
        else []
    )
    rows: list[list[Cell]] = []
    for number, one in enumerate(ours):
        share = Figure(f"{len(one.places) / max(1, len(test_set.sources)):.1%}")
        before: list[Cell] = [len(theirs[number].places)] if theirs else []
        rows.append([one.name, len(one.places), share, *before, one.in_references])
    header = ["kind", "translations", "share", *([f"in {shown.baseline}"] if theirs else [])]
    meanings = "".join(f"<li><b>{one.name}</b>: {text(one.meaning)}</li>" for one in ours)
    parts = ["<h3>Odd translations</h3>", table([*header, "in the references"], rows)]
    parts.append(f'<ul class="faint">{meanings}</ul>')
    for one in ours:
        some = one.places[:_NUM_EXAMPLES]
        if some:
            parts.append(
                f"<details><summary>{one.name}: the first {len(some)} of {len(one.places):,}"
                f"</summary>{shown.cards(some)}</details>"
            )
    return "".join(parts)


def _changed(shown: _Shown, before: Sequence[float]) -> str:
    scores = shown.scores
    places = most_changed(before, scores, _NUM_SENTENCES)
    better = sum(new > old for old, new in zip(before, scores, strict=True))
    worse = sum(new < old for old, new in zip(before, scores, strict=True))
    told = (
        f"<p>By chrF {better:,} sentences are better than those of {text(shown.baseline)},"
        f" {worse:,} are worse, {len(scores) - better - worse:,} are as good. Words that only one"
        " of the two has are marked.</p>"
    )
    return (
        f"<details><summary>The {len(places)} that changed most against {text(shown.baseline)}"
        f"</summary>{told}{shown.cards(places)}</details>"
    )
