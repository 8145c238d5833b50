"""Score models and translations by other systems on a test set, and compare them.

nmt evaluate test=newstest2014 model=FOLDER
nmt evaluate model="FOLDER FOLDER FOLDER"
nmt evaluate source=news.en reference=news.de
nmt evaluate source=news.en reference=news.de systems.a=a.de systems.b=b.de
"""

from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.base import layout
from nmt.base.errors import UserError
from nmt.base.files import check_aligned
from nmt.base.log import console, print_line, print_written
from nmt.base.outputs import Outputs
from nmt.cli.application import application, group
from nmt.cli.common import parse_folders
from nmt.cli.models import TranslatorArguments, check_languages, open_model
from nmt.config import (
    EngineName,
    EvaluationConfig,
    FolderName,
    checked_dataclass,
    from_mapping,
    option,
    to_plain,
)

if TYPE_CHECKING:
    from nmt.data.corpus import PreparedCorpus
    from nmt.evaluation.baseline import Baseline
    from nmt.evaluation.evaluate import Evaluation, TestSet
    from nmt.evaluation.systems import System


@checked_dataclass
class _Arguments(TranslatorArguments):
    model: str = ""
    """Model or run folder (default: the last completed run); several, separated by spaces, are
    compared in one table."""
    baseline: str = ""
    """Model or run folder, or name in systems, to compare with (default: the first of several
    systems; for one model, the earlier run on the same corpus and direction with the best
    validation score)."""
    systems: dict[FolderName, str] = option({})
    """Files with the translations of the test set by other systems, by name. Without model=, the
    last completed run is compared, too, unless source= or corpus= is given."""
    test: str = ""
    """Test set of the model's corpus, or valid (default: the first test set)."""
    source: str = ""
    """File with the sources of another test set, instead of test=."""
    reference: str = ""
    """File with the references of source; files of further ones add .1, .2, … to its name."""
    protect: bool = False
    """Keep tags, addresses and placeholders, as `nmt translate` does."""
    checks: bool = False
    """Compare each translation with its source, as `nmt translate` does; print what is wrong."""
    out: str = ""
    """Folder for source.txt, reference.txt, hypotheses.txt and scores.json; several models get a
    folder each in it (default: outputs/evaluations/<run>/<test set>)."""
    corpus: str = ""
    """Folder of a prepared corpus (default: the corpus of the run)."""
    evaluation: dict[str, Any] = group(EvaluationConfig)
    """How translations are scored (default: as in the first run)."""


@application(_Arguments)
def main(arguments: _Arguments) -> None:
    """Run the command."""
    from nmt.data.corpus import PreparedCorpus
    from nmt.evaluation import evaluate, tables
    from nmt.evaluation.baseline import choose_baseline
    from nmt.evaluation.systems import open_systems

    systems = open_systems(_folders(arguments), arguments.systems)
    first = systems[0]
    corpus = PreparedCorpus(Path(arguments.corpus)) if arguments.corpus else first.corpus
    if corpus is None and first.translations is not None and not arguments.source:
        corpus = _only_corpus()
    own = to_plain(first.run.config.evaluation) if first.run else {}
    changed = {**own, **arguments.evaluation}
    config = from_mapping(EvaluationConfig, changed, "arguments", "evaluation.")
    test_set = evaluate.with_evaluation(_test_set(arguments, first, corpus), config)
    baseline = choose_baseline(systems, arguments.baseline, corpus)
    for system in [*systems, baseline.system] if baseline else systems:
        _check_fits(system, test_set)
    files = (arguments.source, arguments.reference, *arguments.systems.values())
    inputs = [Path(name) for name in files if name]
    if baseline and (run := baseline.system.run):
        inputs.append(run.folder / layout.EVALUATION_FOLDER / test_set.name)
    with ExitStack() as stack:
        is_alone = len(systems) == 1
        locked = [_output(arguments.out, one, test_set, inputs, is_alone) for one in systems]
        outputs = [stack.enter_context(output) for output in locked]
        evaluations = [_evaluated(arguments, system, test_set) for system in systems]
        evaluations = _compared(arguments, baseline, evaluations)
        tables.print_scores(console, evaluations)
        # Written after the scores are printed, so that a full disk does not lose them.
        for output, evaluation in zip(outputs, evaluations, strict=True):
            with output.written() as [folder]:
                evaluate.write_evaluation(evaluation, folder)
    print_written([path for output in outputs for path in output.written_files()])
    for evaluation in evaluations:
        bleu = evaluation.scores.bleu
        line = tables.bleu_line(test_set.name, bleu.score, bleu.signature)
        print_line(f"{evaluation.system}: {line}" if len(evaluations) > 1 else line)


def _folders(arguments: _Arguments) -> list[Path]:
    """Return the folders of the models, by default the last run unless other systems are alone."""
    from nmt.evaluation.systems import find_model

    folders = parse_folders(arguments.model)
    if folders or (arguments.systems and (arguments.source or arguments.corpus)):
        return folders
    try:
        return [find_model()]
    except UserError as error:
        if not arguments.systems:
            raise UserError(f"{error}, or translations with systems.NAME=FILE") from None
        return []


def _only_corpus() -> "PreparedCorpus":
    """Return the only prepared corpus, for other systems if there is no run."""
    from nmt.data.corpus import PreparedCorpus

    corpora = Path("outputs", layout.CORPORA_FOLDER)
    found = sorted(path.parent for path in corpora.glob(f"*/{layout.MANIFEST_FILE}"))
    if len(found) != 1:
        raise UserError(
            f"systems: there is no completed run, and {corpora} has {len(found)} prepared corpora;"
            " name the one of the test set with corpus=, or any text with source= and reference="
        )
    return PreparedCorpus(found[0])


def _output(
    out: str, system: "System", test_set: "TestSet", inputs: list[Path], is_alone: bool
) -> AbstractContextManager[Outputs]:
    """Check and lock the folder of an evaluation."""
    folder = Path(layout.EVALUATIONS_FOLDER, system.name, test_set.name)
    path = Path(out, "" if is_alone else system.name) if out else Path("outputs") / folder
    # In a run folder, only an evaluation of the run's own model may be replaced.
    found = layout.result_folder(path) if path.exists() else None
    if found and not (system.run and found.samefile(system.run.folder)):
        raise UserError(f"{path}: would replace a file of {found}; change out=")
    return Outputs.folder(path, inputs, layout.SCORES_FILE)


def _check_fits(system: "System", test_set: "TestSet") -> None:
    """Raise UserError for a model of another direction, or a wrong number of translations."""
    if system.translations is not None:
        num_lines = {Path(test_set.name): len(test_set.sources)}
        check_aligned(num_lines | {system.model: len(system.translations)})
    elif system.direction != test_set.direction:
        raise UserError(
            f"{system.name} translates {'-'.join(system.direction)}, but the test set is"
            f" {'-'.join(test_set.direction)}"
        )


def _test_set(
    arguments: _Arguments, system: "System", corpus: "PreparedCorpus | None"
) -> "TestSet":
    from nmt.evaluation.evaluate import corpus_test_set, files_test_set

    source, reference = arguments.source, arguments.reference
    if bool(source) != bool(reference) or (source and arguments.test):
        raise UserError("give source= and reference= together, without test=")
    if source:
        is_model = system.translations is None
        direction = system.direction if is_model else _endings(source, reference)
        check_languages("-".join(direction), Path(source), Path(reference))
        return files_test_set(Path(source), Path(reference), direction)
    if corpus is None:
        raise UserError(
            f"the corpus of {system.model} is unknown or does not exist; name a prepared one with"
            " corpus=, or any text with source= and reference="
        )
    return corpus_test_set(corpus, arguments.test)


def _endings(source: str, reference: str) -> tuple[str, str]:
    """Return the endings of two files, which are taken for the codes of their languages."""
    source_language, language = (Path(name).suffix[1:] for name in (source, reference))
    if not language:
        raise UserError(
            f"{reference}: has no ending that names its language; rename it, for example to"
            f" {reference}.de"
        )
    return source_language, language


def _evaluated(arguments: _Arguments, system: "System", test_set: "TestSet") -> "Evaluation":
    """Score the translations of a test set by a system; a model translates it first."""
    from nmt.evaluation import evaluate
    from nmt.exchange.engines import compare_engines
    from nmt.translation.alignment import Aligner
    from nmt.translation.pipeline import Pipeline
    from nmt.translation.protection import Protection

    if system.translations is not None:
        return evaluate.scored(test_set, system.name, system.translations)
    test_set = evaluate.with_leakage(test_set, system.corpus)
    model = open_model(system.model, arguments.device)
    translator = arguments.translator(model, system.model)
    protection = Protection(Aligner(model)) if arguments.protect else None
    pipeline = Pipeline(translator, protection=protection, checks=arguments.checks)
    evaluation = evaluate.evaluate(pipeline, test_set, system.name)
    terms = translator.glossary
    glossary = {"file": arguments.glossary, **asdict(terms.counts)} if terms else {}
    is_plain = not (terms or arguments.protect or arguments.checks)
    if arguments.engine is EngineName.auto and is_plain and not translator.engine_note:
        sources = test_set.sources
        compare_engines(model, translator.config, system.model, sources, evaluation.hypotheses)
    return replace(evaluation, engine=translator.engine_note, glossary=glossary)


def _compared(
    arguments: _Arguments, baseline: "Baseline | None", evaluations: "list[Evaluation]"
) -> "list[Evaluation]":
    """Return the evaluations with significance tests against the baseline, or the reason for none.

    Among several models, the evaluation of the baseline itself has neither.
    """
    from nmt.evaluation import evaluate
    from nmt.evaluation.baseline import NO_BASELINE

    if baseline is None:
        reason = f"{NO_BASELINE}; name one with BASELINE="
        return [replace(evaluation, not_compared=reason) for evaluation in evaluations]
    system, test_set = baseline.system, evaluations[0].test_set
    translated = {evaluation.system: evaluation.hypotheses for evaluation in evaluations}
    is_own_baseline = list(translated) == [system.name]
    has_engine = arguments.engine is EngineName.ctranslate2
    changes = (arguments.decoding, has_engine, arguments.glossary)
    if is_own_baseline and not any((*changes, arguments.protect, arguments.checks)):
        return [replace(evaluations[0], not_compared=f"{system.name} is the baseline itself")]
    # A single model with other search settings is compared with itself with its own settings.
    hypotheses = None if is_own_baseline else translated.get(system.name)
    hypotheses = hypotheses or evaluate.stored_hypotheses(system, test_set)
    if hypotheses is None:
        # decoding.KEY= and engine= apply to the evaluated models, not to the baseline.
        own_search = _Arguments(device=arguments.device)
        try:
            hypotheses = _evaluated(own_search, system, test_set).hypotheses
        except UserError as error:
            if arguments.baseline:
                raise
            return [replace(one, not_compared=f"{system.name}: {error}") for one in evaluations]
    print_line(f"comparing with {system.name}")
    return [
        evaluation
        if evaluation.system == system.name and not is_own_baseline
        else evaluate.compared(evaluation, baseline, hypotheses)
        for evaluation in evaluations
    ]
