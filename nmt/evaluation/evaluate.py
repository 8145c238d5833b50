"""Translate a test set, score it, hold it against a baseline, and write it all down."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nmt.config import Config, DecodingConfig, to_plain
from nmt.data.corpus import PreparedCorpus
from nmt.decoding.translator import Translator
from nmt.evaluation.annotations import PhenomenaReport, read_annotations, score_phenomena
from nmt.evaluation.comet import Comet, comet_score
from nmt.evaluation.known_test_sets import Identity, identify
from nmt.evaluation.scores import Scores, all_scores
from nmt.evaluation.significance import Comparison, compare
from nmt.evaluation.systems import (
    EVALUATION_FOLDER,
    NO_BASELINE,
    find_baseline,
    reference_file,
    system_name,
)
from nmt.files import check_aligned, to_json, to_lines, write_texts
from nmt.temporary import remove


@dataclass(frozen=True)
class TestSet:
    """Aligned sources and references.

    Attributes:
        name: its split's or its file's.
        direction: codes of source and target language.
        sources: one sentence each.
        references: the first reference of each.
        more_references: further sets of references, each as long as the first.
        annotations: the annotations file, where there is one.
        leakage: how much of it the training text holds, as the corpus counted; None where unknown.

    Raises:
        UserError: the sides differ in number.
    """

    __test__ = False  # it is no test class of pytest's

    name: str
    direction: tuple[str, str]
    sources: list[str]
    references: list[str]
    more_references: tuple[list[str], ...] = ()
    annotations: Path | None = None
    leakage: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        lengths = {f"test set {self.name}: the source": len(self.sources)}
        for number, lines in enumerate(self.all_references, start=1):
            which = f"reference {number}" if self.more_references else "the reference"
            lengths[which] = len(lines)
        check_aligned(lengths)

    @property
    def all_references(self) -> list[list[str]]:
        """The first set of references and any further ones."""
        return [self.references, *self.more_references]


@dataclass(frozen=True)
class Evaluation:
    """A scored test set.

    Attributes:
        test_set: what was translated.
        system: name of the model; "" where there is one alone.
        hypotheses: its translations.
        decoding: the search that made them.
        identity: which test set this is.
        scores: by sacrebleu.
        comet: by COMET, where that is installed.
        phenomena: by annotations, where there are any.
        comparison: with a baseline; None where there is no baseline.
        not_compared: why there is none; "" where there is one.
        engine: what searched, where that was not torch.
    """

    test_set: TestSet
    system: str
    hypotheses: list[str]
    decoding: DecodingConfig
    identity: Identity
    scores: Scores
    comet: Comet
    phenomena: PhenomenaReport | None
    comparison: Comparison | None = None
    not_compared: str = ""
    engine: str = ""

    def to_json(self) -> dict[str, Any]:
        """The layout of `scores.json`."""
        table = self.scores.to_json()
        if self.comet.score is not None:
            table["comet"] = asdict(self.comet.score)
        table["test_set"] = {
            "known_as": self.identity.known_as,
            "sha256": list(self.identity.checksums),
            "warnings": list(self.identity.warnings),
        }
        table["decoding"] = to_plain(self.decoding)
        if self.engine:
            table["engine"] = self.engine
        if self.test_set.leakage is not None:
            table["leakage"] = self.test_set.leakage
        if self.comparison is not None:
            table["baseline"] = self.comparison.to_json()
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
    return TestSet(
        split,
        (corpus.source_language, corpus.target_language),
        sources,
        references,
        tuple(corpus.more_references(split)),
        annotations if annotations.is_file() else None,
        corpus.leakage.get(split),
    )


def evaluate(
    translator: Translator,
    test_set: TestSet,
    progress: Callable[[int], None] | None = None,
    system: str = "",
) -> Evaluation:
    """Translate and score a test set."""
    hypotheses = [best[0].text for best in translator.translate(test_set.sources, progress)]
    references = test_set.all_references
    language = test_set.direction[1]
    report = None
    if test_set.annotations is not None:
        annotations = read_annotations(test_set.annotations, len(hypotheses))
        report = score_phenomena(annotations, hypotheses, *references)
    return Evaluation(
        test_set,
        system,
        hypotheses,
        translator.config,
        identify(test_set.name, language, references),
        all_scores(hypotheses, *references, language=language),
        comet_score(test_set.sources, hypotheses, test_set.references),
        report,
    )


def compared(
    evaluation: Evaluation, baseline: str, why: str, baseline_hypotheses: list[str]
) -> Evaluation:
    """The evaluation with both significance tests against the baseline's translations."""
    comparison = compare(
        baseline,
        why,
        baseline_hypotheses,
        evaluation.hypotheses,
        *evaluation.test_set.all_references,
    )
    return replace(evaluation, comparison=comparison)


def evaluate_run(
    translator: Translator, corpus: PreparedCorpus, config: Config, say: Callable[[str], None]
) -> list[Evaluation]:
    """What a run ends with: every test set of its corpus, scored, compared and written down.

    The baseline is the earlier completed run that is best on validation; its translations are those
    that it wrote itself.

    Args:
        translator: of the model that was chosen.
        corpus: what it was trained on.
        config: the run.
        say: told what takes long.
    """
    run = config.run_folder
    baseline = find_baseline(run, corpus, Path(config.run.outputs))
    evaluations = []
    for split in corpus.test_splits:
        test_set = corpus_test_set(corpus, split)
        say(f"translating test set {split}")
        evaluation = evaluate(translator, test_set, system=system_name(run.absolute()))
        if baseline is None:
            evaluation = replace(evaluation, not_compared=NO_BASELINE)
        else:
            name = baseline.system.name
            stored = baseline.system.stored_hypotheses(
                split, test_set.sources, test_set.all_references
            )
            if stored is None:
                reason = f"{name} has no translations of this text; `make evaluate` makes them"
                evaluation = replace(evaluation, not_compared=reason)
            else:
                say(f"comparing with {name}")
                evaluation = compared(evaluation, name, baseline.why, stored)
        write_evaluation(evaluation, run / EVALUATION_FOLDER / split)
        evaluations.append(evaluation)
    return evaluations


def write_evaluation(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write source, references, hypotheses and `scores.json`, all or none; returns their paths."""
    test_set = evaluation.test_set
    texts = {folder / "source.txt": to_lines(test_set.sources)}
    for number, lines in enumerate(test_set.all_references):
        texts[folder / reference_file(number)] = to_lines(lines)
    texts[folder / "hypotheses.txt"] = to_lines(evaluation.hypotheses)
    texts[folder / "scores.json"] = to_json(evaluation.to_json())
    write_texts(texts)
    # Of an earlier evaluation with more references: `reference*.txt` means those of this one.
    number = len(test_set.all_references)
    while (stale := folder / reference_file(number)).exists():
        remove(stale)
        number += 1
    return list(texts)
