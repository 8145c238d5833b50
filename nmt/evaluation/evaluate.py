"""Translation and scoring of test sets, with comparison to a baseline."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nmt.base import layout
from nmt.base.errors import UserError
from nmt.base.files import check_aligned, read_lines, remove, to_json, to_lines, write_texts
from nmt.config import Config, DecodingConfig, to_plain
from nmt.data.corpus import PreparedCorpus, more_reference_paths
from nmt.evaluation.systems import NO_BASELINE, Baseline, find_baseline, system_name
from nmt.metrics.comet import Comet, comet_score
from nmt.metrics.known_test_sets import Identity, identify
from nmt.metrics.phenomena import PhenomenaReport, read_annotations, score_phenomena
from nmt.metrics.scores import Scores, all_scores
from nmt.metrics.significance import Comparison, compare
from nmt.training.progress import progress_bar
from nmt.translation.translator import Translator


@dataclass(frozen=True)
class TestSet:
    """Aligned sources and references; `leakage` counts its sentences in the training text."""

    __test__ = False  # not a test class of pytest

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
            lengths[f"reference {number}"] = len(lines)
        check_aligned(lengths)

    @property
    def all_references(self) -> list[list[str]]:
        """All sets of references."""
        return [self.references, *self.more_references]


@dataclass(frozen=True)
class Evaluation:
    """A test set translated and scored.

    Attributes:
        system: name of the model; empty if there is only one.
        not_compared: the reason if there is no comparison; otherwise empty.
        engine: description of the search engine; empty for torch.
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
        """Convert to the layout of `scores.json`."""
        phenomena = asdict(self.phenomena) if self.phenomena else {}
        optional = {
            "comet": self.comet.score and asdict(self.comet.score),
            "engine": self.engine,
            "leakage": self.test_set.leakage,
            "baseline": self.comparison and self.comparison.to_json(),
            **phenomena,
        }
        test_set = {
            "known_as": self.identity.known_as,
            "sha256": list(self.identity.checksums),
            "warnings": list(self.identity.warnings),
        }
        table = {**asdict(self.scores), "test_set": test_set, "decoding": to_plain(self.decoding)}
        return table | {key: value for key, value in optional.items() if value}


def corpus_test_set(corpus: PreparedCorpus, split: str) -> TestSet:
    """Read a split of a prepared corpus; the empty name is the first test set."""
    known = [*corpus.test_splits, "valid"]
    split = split or known[0]
    if split not in known:
        raise UserError(f"test={split}: the corpus has no such test set, only {', '.join(known)}")
    sources, references = corpus.read_text(split)
    return TestSet(
        split,
        (corpus.source_language, corpus.target_language),
        sources,
        references,
        tuple(corpus.more_references(split)),
        corpus.annotations_path(split),
        corpus.leakage.get(split),
    )


def files_test_set(source: Path, reference: Path, direction: tuple[str, str]) -> TestSet:
    """Read a test set from a file of sources, one of references and those numbered beside it."""
    paths = [reference, *more_reference_paths(reference)]
    sources, *references = map(read_lines, (source, *paths))
    lengths = map(len, (sources, *references))
    check_aligned(dict(zip((source, *paths), lengths, strict=True)))
    return TestSet(source.stem, direction, sources, references[0], tuple(references[1:]))


def with_leakage(test_set: TestSet, corpus: PreparedCorpus | None) -> TestSet:
    """Replace the leakage by that into the training text of `corpus`, None if it is unknown."""
    name, texts = test_set.name, (test_set.sources, test_set.references)
    is_known = corpus and name in corpus.leakage and corpus.read_text(name) == texts
    return replace(test_set, leakage=corpus.leakage[name] if corpus and is_known else None)


def evaluate(
    translator: Translator,
    test_set: TestSet,
    progress: Callable[[int], None] | None = None,
    system: str = "",
) -> Evaluation:
    """Translate a test set with a model, whose name is `system`, and score it."""
    hypotheses = [best[0].text for best in translator.translate(test_set.sources, progress)]
    references = test_set.all_references
    language = test_set.direction[1]
    phenomena = None
    if test_set.annotations is not None:
        annotations = read_annotations(test_set.annotations, len(hypotheses))
        phenomena = score_phenomena(annotations, hypotheses, *references)
    return Evaluation(
        test_set,
        system,
        hypotheses,
        translator.config,
        identify(test_set.name, language, references),
        all_scores(hypotheses, *references, language=language),
        comet_score(test_set.sources, hypotheses, test_set.references),
        phenomena,
    )


def compared(evaluation: Evaluation, baseline: Baseline, hypotheses: list[str]) -> Evaluation:
    """Add the comparison with a baseline's translations to an evaluation."""
    name, references = baseline.system.name, evaluation.test_set.all_references
    comparison = compare(name, baseline.why, hypotheses, evaluation.hypotheses, *references)
    return replace(evaluation, comparison=comparison)


def evaluate_run(
    translator: Translator, corpus: PreparedCorpus, config: Config, log: Callable[[str], None]
) -> list[Evaluation]:
    """Score a run on every test set of its corpus and write the results to the run folder.

    The baseline is chosen by `find_baseline`; its translations are read from its run folder.
    """
    run = config.run_folder
    baseline = find_baseline(run, corpus, Path(config.run.outputs))
    evaluations = []
    for split in corpus.test_splits:
        log(f"translating test set {split}")
        test_set = corpus_test_set(corpus, split)
        with progress_bar(f"translating {split}", len(test_set.sources)) as advance:
            evaluation = evaluate(translator, test_set, advance, system_name(run.absolute()))
        evaluation = _compare_with_run(evaluation, baseline, log)
        write_evaluation(evaluation, run / layout.EVALUATION_FOLDER / split)
        evaluations.append(evaluation)
    return evaluations


def _compare_with_run(
    evaluation: Evaluation, baseline: Baseline | None, log: Callable[[str], None]
) -> Evaluation:
    """Compare with the stored translations of a baseline, if there are any."""
    if baseline is None:
        return replace(evaluation, not_compared=NO_BASELINE)
    name, test_set = baseline.system.name, evaluation.test_set
    stored = baseline.system.stored_hypotheses(
        test_set.name, test_set.sources, test_set.all_references
    )
    if stored is None:
        reason = f"{name} has no translations of this test set; `make evaluate` creates them"
        return replace(evaluation, not_compared=reason)
    log(f"comparing with {name}")
    return compared(evaluation, baseline, stored)


def write_evaluation(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write source, references, hypotheses and `scores.json` together; return their paths."""
    test_set = evaluation.test_set
    texts = {folder / layout.SOURCE_FILE: to_lines(test_set.sources)}
    for index, lines in enumerate(test_set.all_references):
        texts[folder / layout.reference_file(index)] = to_lines(lines)
    texts[folder / layout.HYPOTHESES_FILE] = to_lines(evaluation.hypotheses)
    texts[folder / layout.SCORES_FILE] = to_json(evaluation.to_json())
    write_texts(texts)
    # Remove the references of an earlier evaluation that had more of them.
    index = len(test_set.all_references)
    while (stale := folder / layout.reference_file(index)).exists():
        remove(stale)
        index += 1
    return list(texts)
