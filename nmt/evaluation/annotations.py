"""What the sentences of a test set show, and whether their translations show it too.

`<split>.annotations.jsonl` holds one object a line, aligned with the split:
`{"phenomena": […], "must_contain": […], "must_not_contain": […], "group": "…"}`. A translation is
right when it has every phrase of must_contain and none of must_not_contain, at word boundaries. A
group (a minimal pair, say) is right when all its translations are.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nmt.errors import UserError
from nmt.evaluation.scores import bleu_score
from nmt.files import iterate_lines


@dataclass(frozen=True)
class Annotation:
    """What one test sentence shows."""

    phenomena: tuple[str, ...]
    must_contain: tuple[str, ...]
    must_not_contain: tuple[str, ...]
    group: str

    @property
    def is_checked(self) -> bool:
        """Whether a translation can be told right from wrong."""
        return bool(self.must_contain or self.must_not_contain)

    def holds_for(self, translation: str) -> bool:
        """Whether `translation` has all that it must and nothing that it must not."""
        return all(_occurs(phrase, translation) for phrase in self.must_contain) and not any(
            _occurs(phrase, translation) for phrase in self.must_not_contain
        )


@dataclass(frozen=True)
class PhenomenonScore:
    """How well one phenomenon is translated.

    Attributes:
        sentences: that show it.
        bleu: over these sentences.
        checked: sentences of them that can be told right from wrong.
        accuracy: share of the checked ones that are right, 0 to 100; None when none is checked.
    """

    sentences: int
    bleu: float
    checked: int
    accuracy: float | None


@dataclass(frozen=True)
class GroupScore:
    """How many groups are right as a whole, and what answering blindly would reach.

    Attributes:
        groups: number of groups.
        accuracy: share of groups whose sentences are all right, 0 to 100.
        sentence_accuracy: share of their sentences that are right.
        majority_accuracy: share of groups that the one most frequent answer, always given, gets
            right.
        majority_sentence_accuracy: share of sentences that it gets right.
    """

    groups: int
    accuracy: float
    sentence_accuracy: float
    majority_accuracy: float
    majority_sentence_accuracy: float


@dataclass(frozen=True)
class PhenomenaReport:
    """Scores by phenomenon, most frequent first, and of the groups."""

    phenomena: dict[str, PhenomenonScore]
    groups: GroupScore | None

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries for `scores.json`."""
        return asdict(self)


def read_annotations(path: Path, num_sentences: int) -> list[Annotation]:
    """Read an annotations file.

    Raises:
        UserError: a line is not such an object, or there are more or fewer lines than sentences.
    """
    annotations = []
    for number, line in enumerate(iterate_lines(path), start=1):
        try:
            record = json.loads(line)
            annotations.append(
                Annotation(
                    tuple(record.get("phenomena", ())),
                    tuple(record.get("must_contain", ())),
                    tuple(record.get("must_not_contain", ())),
                    str(record.get("group", "")),
                )
            )
        except (json.JSONDecodeError, AttributeError, TypeError) as error:
            raise UserError(f"{path}: line {number} is not an annotation: {error}") from None
    if len(annotations) != num_sentences:
        raise UserError(
            f"{path}: {len(annotations)} lines for {num_sentences} sentences; write one a sentence"
        )
    return annotations


def score_phenomena(
    annotations: Sequence[Annotation], hypotheses: Sequence[str], *references: Sequence[str]
) -> PhenomenaReport:
    """Accuracy and BLEU by phenomenon; all sequences are aligned."""
    right = [a.holds_for(text) for a, text in zip(annotations, hypotheses, strict=True)]
    by_phenomenon: dict[str, list[int]] = defaultdict(list)
    for place, annotation in enumerate(annotations):
        for phenomenon in annotation.phenomena:
            by_phenomenon[phenomenon].append(place)
    scores = {}
    for name, places in sorted(by_phenomenon.items(), key=lambda item: (-len(item[1]), item[0])):
        checked = [place for place in places if annotations[place].is_checked]
        chosen = ([lines[p] for p in places] for lines in (hypotheses, *references))
        bleu = bleu_score(*chosen)
        accuracy = _percent([right[p] for p in checked]) if checked else None
        scores[name] = PhenomenonScore(len(places), bleu.score, len(checked), accuracy)
    return PhenomenaReport(scores, _score_groups(annotations, right))


def _score_groups(annotations: Sequence[Annotation], right: Sequence[bool]) -> GroupScore | None:
    groups: dict[str, list[int]] = defaultdict(list)
    for place, annotation in enumerate(annotations):
        if annotation.group and annotation.is_checked:
            groups[annotation.group].append(place)
    if not groups:
        return None
    # What tells the answers apart is what some sentences must contain and others must not.
    forbidden = {phrase for a in annotations for phrase in a.must_not_contain}
    answers = {
        place: tuple(phrase for phrase in annotations[place].must_contain if phrase in forbidden)
        for places in groups.values()
        for place in places
    }
    majority = Counter(answers.values()).most_common(1)[0][0]
    return GroupScore(
        len(groups),
        _percent([all(right[p] for p in places) for places in groups.values()]),
        _percent([right[p] for p in answers]),
        _percent([all(answers[p] == majority for p in places) for places in groups.values()]),
        _percent([answer == majority for answer in answers.values()]),
    )


def _percent(held: list[bool]) -> float:
    return 100 * sum(held) / len(held)


def _occurs(phrase: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None
