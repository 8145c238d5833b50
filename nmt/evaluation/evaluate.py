"""Translation and scoring of test sets, with comparison to a baseline."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from nmt.base import layout
from nmt.base.errors import UserError, one_line
from nmt.base.files import atomic_folder, check_aligned, read_lines, write_json, write_lines
from nmt.base.progress import progress_bar
from nmt.config import DEFAULT_TOKENIZER, DecodingConfig, EvaluationConfig, to_plain
from nmt.data.corpus import PreparedCorpus, more_reference_paths
from nmt.evaluation.baseline import NO_BASELINE, Baseline, find_baseline
from nmt.evaluation.comparison import Comparison, compared_texts, terms_of
from nmt.evaluation.systems import System
from nmt.metrics.comet import CometError, comet_score
from nmt.metrics.known_test_sets import Identity, identify
from nmt.metrics.phenomena import PhenomenaReport, read_annotations, score_phenomena
from nmt.metrics.scores import Scores, all_scores
from nmt.run_folder import Run, StoredTexts
from nmt.trained_model import TrainedModel, load_trained_model
from nmt.translation.pipeline import Pipeline
from nmt.translation.request import Request, Translation, notes_on
from nmt.translation.translator import Translator

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TestSet:
    """Sources and one or more sets of references, all aligned.

    Attributes:
        corpus: the corpus that has the test set; None for a test set of its own.
        annotations: path of the file of annotations, if there is one.
        leakage: how many of the sentences the training text contains; None if unknown.
        tokenizer: the tokeniser of BLEU.
    """

    __test__ = False  # not a test class of pytest

    name: str
    direction: tuple[str, str]
    sources: list[str]
    references: list[list[str]]
    corpus: PreparedCorpus | None = None
    annotations: Path | None = None
    leakage: dict[str, Any] | None = None
    tokenizer: str = DEFAULT_TOKENIZER


@dataclass(frozen=True)
class Evaluation:
    """A test set translated and scored.

    Attributes:
        system: name of the model, or of another system.
        decoding: the search; None for another system.
        comet_note: why there is no COMET score; empty if there is one.
        not_compared: why the comparison is missing; empty if none is missing.
        engine: description of the search engine; empty for torch.
        glossary: file and numbers of terms by outcome; empty without a glossary.
        protected_spans: numbers of spans by outcome; empty without protection.
        num_findings: number of lines with findings of the checks; None without checks.
    """

    test_set: TestSet
    system: str
    hypotheses: list[str]
    decoding: DecodingConfig | None
    identity: Identity
    scores: Scores
    comet_note: str = ""
    phenomena: PhenomenaReport | None = None
    comparison: Comparison | None = None
    not_compared: str = ""
    engine: str = ""
    glossary: dict[str, Any] = field(default_factory=dict)
    protected_spans: dict[str, int] = field(default_factory=dict)
    num_findings: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Convert to the layout of `scores.json`."""
        table = {
            **asdict(self.scores),
            "test_set": asdict(self.identity),
            "decoding": self.decoding and to_plain(self.decoding),
            "engine": self.engine or None,
            "glossary": self.glossary or None,
            "protected_spans": self.protected_spans or None,
            "lines_with_findings": self.num_findings,
            "leakage": self.test_set.leakage,
            "baseline": self.comparison and self.comparison.to_json(),
            **(asdict(self.phenomena) if self.phenomena else {}),
        }
        return {key: value for key, value in table.items() if value is not None}


def corpus_test_set(corpus: PreparedCorpus, split: str) -> TestSet:
    """Read `split`; if it is empty, read the first test set, or `valid` if there is no test set."""
    known = [*corpus.test_splits, "valid"]
    split = split or known[0]
    if split not in known:
        raise UserError(f"test={split}: the corpus has no such test set, only {', '.join(known)}")
    source = corpus.text_path(split, corpus.source_language)
    sources, *references = _read_aligned([source, *corpus.reference_paths(split)])
    direction = (corpus.source_language, corpus.target_language)
    annotations, leakage = corpus.annotations_path(split), corpus.leakage.get(split)
    return TestSet(split, direction, sources, references, corpus, annotations, leakage)


def files_test_set(source: Path, reference: Path, direction: tuple[str, str]) -> TestSet:
    """Read a test set from files; further references are in numbered files beside `reference`."""
    sources, *references = _read_aligned([source, reference, *more_reference_paths(reference)])
    return TestSet(source.stem, direction, sources, references)


def _read_aligned(paths: list[Path]) -> list[list[str]]:
    """Read files that have the same number of lines."""
    texts = [read_lines(path) for path in paths]
    check_aligned({path: len(lines) for path, lines in zip(paths, texts, strict=True)})
    return texts


def with_leakage(test_set: TestSet, corpus: PreparedCorpus | None) -> TestSet:
    """Set the leakage recorded in `corpus`; None unless the corpus has exactly this test set."""
    name, leakage = test_set.name, None
    texts = test_set.sources, test_set.references[0]
    if corpus is not None and name in corpus.leakage and corpus.read_text(name) == texts:
        leakage = corpus.leakage[name]
    return replace(test_set, leakage=leakage)


def with_evaluation(test_set: TestSet, config: EvaluationConfig) -> TestSet:
    """Set the tokeniser of BLEU; UserError if references are blank and this is not allowed."""
    config.check_references(test_set.name, test_set.references)
    return replace(test_set, tokenizer=config.tokenizer_of(test_set.direction[1]))


def evaluate(pipeline: Pipeline, test_set: TestSet, system: str) -> Evaluation:
    """Translate a test set and score it; `system` is the name of the model."""
    found = _translated(pipeline, test_set, system)
    evaluation = scored(test_set, system, [one.text for one in found], pipeline.translator.config)
    return replace(
        evaluation,
        protected_spans=asdict(pipeline.protection.counts) if pipeline.protection else {},
        num_findings=sum(bool(one.findings) for one in found) if pipeline.checks else None,
    )


def scored(
    test_set: TestSet, system: str, hypotheses: list[str], decoding: DecodingConfig | None = None
) -> Evaluation:
    """Score translations of a test set; `decoding` is the search of a model."""
    references, language = test_set.references, test_set.direction[1]
    tokenizer = test_set.tokenizer
    phenomena = None
    if test_set.annotations is not None:
        annotations = read_annotations(test_set.annotations, len(hypotheses))
        phenomena = score_phenomena(annotations, hypotheses, *references, tokenizer=tokenizer)
    comet, comet_note = None, ""
    try:
        comet = comet_score(test_set.sources, hypotheses, references[0])
    except CometError as error:
        comet_note = str(error)
    return Evaluation(
        test_set,
        system,
        hypotheses,
        decoding,
        identify(test_set.name, language, references, tokenizer),
        replace(
            all_scores(hypotheses, *references, language=language, tokenizer=tokenizer), comet=comet
        ),
        comet_note,
        phenomena,
    )


def _translated(pipeline: Pipeline, test_set: TestSet, system: str) -> list[Translation]:
    title = f"{system}: translating {test_set.name}"
    with progress_bar(title, len(test_set.sources)) as advance:
        found = pipeline.translate(list(map(Request, test_set.sources)), advance)
    for note in notes_on(found):
        logger.warning(note)
    return [best for best, *_ in found]


def _texts(pipeline: Pipeline, test_set: TestSet, system: str) -> list[str]:
    return [one.text for one in _translated(pipeline, test_set, system)]


def compared(evaluation: Evaluation, baseline: Baseline, hypotheses: list[str]) -> Evaluation:
    """Add the comparison with a baseline to an evaluation; `hypotheses` are by the baseline."""
    test = evaluation.test_set
    texts = StoredTexts(
        test.name, test.sources, test.references, evaluation.hypotheses, hypotheses, test.tokenizer
    )
    terms = _terms(baseline, test.corpus) if test.corpus else []
    comparison = compared_texts(baseline.system.name, baseline.why, texts, terms)
    return replace(evaluation, comparison=comparison)


def _terms(baseline: Baseline, corpus: PreparedCorpus) -> list[str]:
    """Find the terms of a corpus that a baseline does not use; none if a text is not available."""
    valid, run = baseline.valid_hypotheses, baseline.system.run
    try:
        if not valid and run and (other := run.corpus):
            is_same = other.read_text("valid") == corpus.read_text("valid")
            valid = tuple(run.valid_hypotheses) if is_same else ()
        return terms_of(corpus, valid)
    except UserError:
        return []


def evaluate_run(
    model: TrainedModel,
    decoding: DecodingConfig,
    corpus: PreparedCorpus,
    run: Run,
    test_sets: Sequence[TestSet],
) -> list[Evaluation]:
    """Score the model of a run on test sets, and write the results to the run folder.

    The baseline is that of `find_baseline`. Its stored translations are compared. If it is the
    model that the run was trained from, it also translates test sets that it has not stored.
    """
    pipeline, initial = Pipeline(Translator(model, decoding)), None
    baseline = find_baseline(run, corpus)
    if baseline and baseline.is_initial:
        try:
            initial_model = load_trained_model(baseline.system.model, model.device)
            initial = Pipeline(Translator(initial_model, decoding))
            if any(test_set.corpus for test_set in test_sets):
                valid = _texts(initial, corpus_test_set(corpus, "valid"), baseline.system.name)
                baseline = replace(baseline, valid_hypotheses=tuple(valid))
        except UserError as error:
            logger.warning(one_line(f"the initial model is not evaluated: {error}"))
    evaluations = []
    for test_set in test_sets:
        logger.info("translating test set %s", test_set.name)
        evaluation = evaluate(pipeline, test_set, run.full_name)
        evaluation = _compare_with_run(evaluation, baseline, initial)
        with atomic_folder(run.folder / layout.EVALUATION_FOLDER / test_set.name) as folder:
            write_evaluation(evaluation, folder)
        evaluations.append(evaluation)
    return evaluations


def _compare_with_run(
    evaluation: Evaluation, baseline: Baseline | None, pipeline: Pipeline | None
) -> Evaluation:
    """Compare with the stored translations of a baseline, or those by its `pipeline`."""
    if baseline is None:
        return replace(evaluation, not_compared=NO_BASELINE)
    name, test_set = baseline.system.name, evaluation.test_set
    found = stored_hypotheses(baseline.system, test_set)
    if found is None and pipeline is not None:
        found = _texts(pipeline, test_set, name)
    if found is None:
        reason = f"{name} has no translations of this test set; `make evaluate` compares both"
        return replace(evaluation, not_compared=reason)
    logger.info("comparing with %s", name)
    return compared(evaluation, baseline, found)


def stored_hypotheses(system: System, test_set: TestSet | StoredTexts) -> list[str] | None:
    """Read a system's stored translations of exactly this test set; None if there are none."""
    if system.run is None:
        return None
    try:
        stored = system.run.texts(test_set.name)
    except UserError:
        return None
    is_same = (stored.sources, stored.references) == (test_set.sources, test_set.references)
    return stored.hypotheses if is_same else None


def write_evaluation(evaluation: Evaluation, folder: Path) -> None:
    """Write all texts and `scores.json` to a folder."""
    test_set, comparison = evaluation.test_set, evaluation.comparison
    texts = {layout.SOURCE_FILE: test_set.sources}
    texts |= {layout.reference_file(i): lines for i, lines in enumerate(test_set.references)}
    texts[layout.HYPOTHESES_FILE] = evaluation.hypotheses
    if comparison is not None:
        texts[layout.BASELINE_FILE] = comparison.hypotheses
    for name, lines in texts.items():
        write_lines(folder / name, lines)
    scores = {**evaluation.to_json(), "files": [*texts, layout.SCORES_FILE]}
    write_json(folder / layout.SCORES_FILE, scores)
