"""Translate a test set, score it, and write both down."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.data.corpus import PreparedCorpus
from nmt.decoding.translator import Translator
from nmt.evaluation.annotations import PhenomenaReport, read_annotations, score_phenomena
from nmt.evaluation.scores import Scores, all_scores
from nmt.files import to_json, to_lines, write_texts


@dataclass(frozen=True)
class TestSet:
    """Aligned sources and references, and the annotations file where there is one."""

    __test__ = False  # it is no test class of pytest's

    name: str
    sources: list[str]
    references: list[str]
    annotations: Path | None = None


@dataclass(frozen=True)
class Evaluation:
    """A scored test set."""

    test_set: TestSet
    hypotheses: list[str]
    scores: Scores
    phenomena: PhenomenaReport | None

    def to_json(self) -> dict[str, Any]:
        """The layout of `scores.json`."""
        table = self.scores.to_json()
        if self.phenomena is not None:
            table["phenomena"] = self.phenomena.to_json()["phenomena"]
            groups = self.phenomena.to_json()["groups"]
            if groups is not None:
                table["groups"] = groups
        return table


def corpus_test_set(corpus: PreparedCorpus, split: str) -> TestSet:
    """A split of a prepared corpus as a test set."""
    sources, references = corpus.read_text(split)
    annotations = corpus.annotations_path(split)
    return TestSet(split, sources, references, annotations if annotations.is_file() else None)


def evaluate(
    translator: Translator, test_set: TestSet, progress: Callable[[int], None] | None = None
) -> Evaluation:
    """Translate and score a test set."""
    hypotheses = [best[0].text for best in translator.translate(test_set.sources, progress)]
    scores = all_scores(hypotheses, test_set.references)
    report = None
    if test_set.annotations is not None:
        annotations = read_annotations(test_set.annotations, len(hypotheses))
        report = score_phenomena(annotations, hypotheses, test_set.references)
    return Evaluation(test_set, hypotheses, scores, report)


def write_evaluation(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write `{source,reference,hypotheses}.txt` and `scores.json`, all or none; returns paths."""
    texts = {
        folder / "source.txt": to_lines(evaluation.test_set.sources),
        folder / "reference.txt": to_lines(evaluation.test_set.references),
        folder / "hypotheses.txt": to_lines(evaluation.hypotheses),
        folder / "scores.json": to_json(evaluation.to_json()),
    }
    write_texts(texts)
    return list(texts)
