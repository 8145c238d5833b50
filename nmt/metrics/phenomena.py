"""Scores by linguistic phenomenon, from annotations of the test sentences.

`<split>.annotations.jsonl` has one object per line, aligned with the split:
`{"phenomena": […], "must_contain": […], "must_not_contain": […], "group": "…"}`. A translation is
correct if it contains every phrase of must_contain and none of must_not_contain, at word
boundaries (anywhere, in a script without blanks between words). A group (for example a minimal
pair) is correct if all its translations are.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from nmt.base.errors import UserError
from nmt.base.files import iterate_lines
from nmt.base.languages import unspaced_characters
from nmt.config import DEFAULT_TOKENIZER
from nmt.metrics.scores import bleu_score


@dataclass(frozen=True)
class Annotation:
    """Annotation of one test sentence, a line of `<split>.annotations.jsonl`."""

    phenomena: tuple[str, ...] = ()
    must_contain: tuple[str, ...] = ()
    must_not_contain: tuple[str, ...] = ()
    group: str = ""

    @property
    def is_checked(self) -> bool:
        """Whether the annotation requires or forbids a phrase."""
        return bool(self.must_contain or self.must_not_contain)

    def is_correct(self, translation: str) -> bool:
        """Whether a translation contains all required phrases and no forbidden one."""
        has_required = all(_occurs(phrase, translation) for phrase in self.must_contain)
        has_forbidden = any(_occurs(phrase, translation) for phrase in self.must_not_contain)
        return has_required and not has_forbidden


_ANNOTATION = TypeAdapter(Annotation)


@dataclass(frozen=True)
class PhenomenonScore:
    """Scores on the sentences with one phenomenon.

    Attributes:
        checked: number of sentences whose annotation requires or forbids a phrase.
        accuracy: percentage of the checked sentences that are translated correctly; None if none
            is checked.
    """

    sentences: int
    bleu: float
    checked: int
    accuracy: float | None


@dataclass(frozen=True)
class GroupScore:
    """Accuracy on groups: of translations, and of always giving the most frequent answer.

    The answer of a sentence consists of its required phrases that are forbidden in other sentences.

    Attributes:
        accuracy: percentage of groups whose translations are all correct.
        sentence_accuracy: percentage of the sentences in groups whose translation is correct.
        majority_accuracy: `accuracy` of always giving the most frequent answer.
        majority_sentence_accuracy: `sentence_accuracy` of always giving the most frequent answer.
    """

    groups: int
    accuracy: float
    sentence_accuracy: float
    majority_accuracy: float
    majority_sentence_accuracy: float


@dataclass(frozen=True)
class PhenomenaReport:
    """Scores by phenomenon, most frequent first; `groups` is None if there are no groups."""

    phenomena: dict[str, PhenomenonScore]
    groups: GroupScore | None


def read_annotations(path: Path, num_sentences: int) -> list[Annotation]:
    """Read an annotations file; UserError unless it has a valid line for each sentence."""
    annotations = []
    for number, line in enumerate(iterate_lines(path), start=1):
        try:
            annotations.append(_ANNOTATION.validate_json(line))
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            reason = ": ".join([*map(str, problem["loc"]), problem["msg"]])
            raise UserError(f"{path}: line {number} is not an annotation: {reason}") from None
    if len(annotations) != num_sentences:
        raise UserError(
            f"{path}: {len(annotations)} lines for {num_sentences} sentences; write one line per"
            " sentence"
        )
    return annotations


def score_phenomena(
    annotations: Sequence[Annotation],
    hypotheses: Sequence[str],
    *references: Sequence[str],
    tokenizer: str = DEFAULT_TOKENIZER,
) -> PhenomenaReport:
    """Compute accuracy and BLEU by phenomenon; all sequences are aligned."""
    correct = [a.is_correct(text) for a, text in zip(annotations, hypotheses, strict=True)]
    by_phenomenon: dict[str, list[int]] = defaultdict(list)
    for index, annotation in enumerate(annotations):
        for phenomenon in annotation.phenomena:
            by_phenomenon[phenomenon].append(index)
    scores = {}
    for name, indices in sorted(by_phenomenon.items(), key=lambda item: (-len(item[1]), item[0])):
        checked = [index for index in indices if annotations[index].is_checked]
        selected = [[lines[i] for i in indices] for lines in (hypotheses, *references)]
        bleu = bleu_score(*selected, tokenizer=tokenizer)
        accuracy = _percentage([correct[i] for i in checked]) if checked else None
        scores[name] = PhenomenonScore(len(indices), bleu.score, len(checked), accuracy)
    return PhenomenaReport(scores, _score_groups(annotations, correct))


def _score_groups(annotations: Sequence[Annotation], correct: Sequence[bool]) -> GroupScore | None:
    groups: dict[str, list[int]] = defaultdict(list)
    for index, annotation in enumerate(annotations):
        if annotation.group and annotation.is_checked:
            groups[annotation.group].append(index)
    if not groups:
        return None
    forbidden = {phrase for a in annotations for phrase in a.must_not_contain}
    answers = {
        index: tuple(phrase for phrase in annotations[index].must_contain if phrase in forbidden)
        for indices in groups.values()
        for index in indices
    }
    majority = Counter(answers.values()).most_common(1)[0][0]
    return GroupScore(
        len(groups),
        _percentage([all(correct[i] for i in indices) for indices in groups.values()]),
        _percentage([correct[i] for i in answers]),
        _percentage([all(answers[i] == majority for i in indices) for indices in groups.values()]),
        _percentage([answer == majority for answer in answers.values()]),
    )


def _percentage(values: list[bool]) -> float:
    return 100 * sum(values) / len(values)


def _occurs(phrase: str, text: str) -> bool:
    letter = rf"[^\W{unspaced_characters()}]"  # of a script with blanks between words
    begin, end = (
        edge if re.match(letter, side) else ""
        for edge, side in ((rf"(?<!{letter})", phrase[:1]), (rf"(?!{letter})", phrase[-1:]))
    )
    return re.search(f"{begin}{re.escape(phrase)}{end}", text) is not None
