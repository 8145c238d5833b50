"""Score trained models on a test set, and compare them.

python -m nmt.cli.evaluate test=newstest2014 model=FOLDER
python -m nmt.cli.evaluate model="FOLDER FOLDER FOLDER"
python -m nmt.cli.evaluate source=news.en reference=news.de
"""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from nmt.base.errors import UserError
from nmt.base.files import check_writable
from nmt.base.layout import EVALUATIONS_FOLDER, SCORES_FILE
from nmt.cli.arguments import parse_arguments
from nmt.cli.common import (
    console,
    parse_folders,
    print_line,
    print_written,
    run_command,
    set_up_logging,
)
from nmt.cli.models import EngineArguments, ModelArguments, decoding_config, open_model
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation import tables
from nmt.evaluation.evaluate import (
    Evaluation,
    TestSet,
    compared,
    corpus_test_set,
    evaluate,
    files_test_set,
    with_leakage,
    write_evaluation,
)
from nmt.evaluation.systems import NO_BASELINE, Baseline, System, choose_baseline, open_systems
from nmt.exchange.engines import open_engine
from nmt.runs.experiment import find_model
from nmt.training.progress import progress_bar
from nmt.translation.translator import Translator

logger = logging.getLogger("nmt.cli")  # not __name__, which is __main__ for a command


@dataclass(frozen=True, kw_only=True)
class Arguments(EngineArguments, ModelArguments):
    """Arguments of the command."""

    model: str = ""
    """Model or run folder (default: the last completed run); several, separated by spaces, are
    compared in one table."""
    baseline: str = ""
    """Model or run folder to compare with (default: the first of several models; for one model the
    earlier run of its corpus and direction that is best on validation)."""
    test: str = ""
    """Test set of the model's corpus, or valid (default: the first test set)."""
    source: str = ""
    """Other aligned text, instead of test."""
    reference: str = ""
    """References of source; further ones are in files with .1, .2, … at the end of their names."""
    out: str = ""
    """Folder for source.txt, reference.txt, hypotheses.txt and scores.json, of several models with
    a folder for each (default: outputs/evaluations/<run>/<test set>)."""
    corpus: str = ""
    """Prepared corpus (default: that of the run)."""


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments)
    set_up_logging()
    systems = open_systems(parse_folders(arguments.model) or [find_model()])
    corpus = PreparedCorpus(Path(arguments.corpus)) if arguments.corpus else systems[0].corpus
    test_set = _test_set(arguments, systems[0], corpus)
    outs = {
        system.name: Path(arguments.out, system.name if len(systems) > 1 else "")
        if arguments.out
        else Path("outputs", EVALUATIONS_FOLDER, system.name, test_set.name)
        for system in systems
    }
    for out in outs.values():
        check_writable(out / SCORES_FILE)
    baseline = choose_baseline(systems, arguments.baseline, corpus)
    for system in [*systems, *([baseline.system] if baseline else [])]:
        if system.direction != test_set.direction:
            raise UserError(
                f"{system.name} translates {'-'.join(system.direction)}, but the test set is"
                f" {'-'.join(test_set.direction)}"
            )
    evaluations = [
        _evaluated(arguments, system, with_leakage(test_set, system.corpus)) for system in systems
    ]
    if baseline is None:
        reason = f"{NO_BASELINE}; name one with BASELINE="
        evaluations = [replace(evaluation, not_compared=reason) for evaluation in evaluations]
    else:
        evaluations = _compared(arguments, baseline, evaluations)
    tables.print_scores(console, evaluations)
    # After the scores, so that a full disk does not lose them.
    written = [write_evaluation(evaluation, outs[evaluation.system]) for evaluation in evaluations]
    print_written([path for paths in written for path in paths])
    for evaluation in evaluations:
        bleu = evaluation.scores.bleu
        line = tables.bleu_line(test_set.name, bleu.score, bleu.signature)
        print_line(f"{evaluation.system}: {line}" if len(evaluations) > 1 else line)


def _test_set(arguments: Arguments, system: System, corpus: PreparedCorpus | None) -> TestSet:
    source, reference = arguments.source, arguments.reference
    if bool(source) != bool(reference) or (source and arguments.test):
        raise UserError("give source= and reference= together, without test=")
    if source:
        return files_test_set(Path(source), Path(reference), system.direction)
    if corpus is None:
        raise UserError(
            f"the corpus of {system.model} is unknown or does not exist; name a prepared one with"
            " corpus=, or any text with source= and reference="
        )
    return corpus_test_set(corpus, arguments.test)


def _evaluated(arguments: Arguments, system: System, test_set: TestSet) -> Evaluation:
    translator = _translator(arguments, system)
    name = f"{system.name}: translating {test_set.name}"
    with progress_bar(name, len(test_set.sources)) as advance:
        evaluation = evaluate(translator, test_set, advance, system.name)
    return replace(evaluation, engine=arguments.engine_note)


def _compared(
    arguments: Arguments, baseline: Baseline, evaluations: list[Evaluation]
) -> list[Evaluation]:
    """Return the evaluations, each except the baseline's own with tests against the baseline."""
    system, test_set = baseline.system, evaluations[0].test_set
    translated = {evaluation.system: evaluation.hypotheses for evaluation in evaluations}
    is_alone = list(translated) == [system.name]
    if is_alone and not arguments.decoding and not arguments.engine_note:
        return [replace(evaluations[0], not_compared=f"{system.name} is the baseline itself")]
    # A model alone is compared with its own search.
    hypotheses = None if is_alone else translated.get(system.name)
    hypotheses = hypotheses or system.stored_hypotheses(
        test_set.name, test_set.sources, test_set.all_references
    )
    if hypotheses is None:
        # decoding.KEY= and engine= apply to the models that are evaluated.
        own_search = Arguments(device=arguments.device)
        hypotheses = _evaluated(own_search, system, test_set).hypotheses
    logger.info("comparing with %s", system.name)
    return [
        evaluation
        if evaluation.system == system.name and not is_alone
        else compared(evaluation, baseline, hypotheses)
        for evaluation in evaluations
    ]


def _translator(arguments: Arguments, system: System) -> Translator:
    model = open_model(system.model, arguments.device)
    config = decoding_config(model, arguments.decoding)
    engine = open_engine(arguments.engine, arguments.compute_type, model, config)
    return Translator(model, config, logger.warning, engine)


if __name__ == "__main__":
    run_command(main)
