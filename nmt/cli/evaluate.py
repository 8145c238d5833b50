"""Score trained models on a test set, and say which is better.

python -m nmt.cli.evaluate test=newstest2014 model=FOLDER
python -m nmt.cli.evaluate model="FOLDER FOLDER FOLDER"
python -m nmt.cli.evaluate source=news.en reference=news.de
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.progress import Progress

from nmt.cli.common import (
    console,
    name_files,
    named_folders,
    parse_arguments,
    run_command,
    set_up_logging,
    show_scores,
)
from nmt.cli.engines import USAGE_LINES, EngineName, engine_note, open_engine
from nmt.cli.translate import decoding_config, open_model
from nmt.config import load_values
from nmt.data.corpus import PreparedCorpus, more_reference_paths
from nmt.decoding.translator import Translator
from nmt.errors import UserError
from nmt.evaluation import tables
from nmt.evaluation.evaluate import (
    Evaluation,
    TestSet,
    compared,
    corpus_test_set,
    evaluate,
    write_evaluation,
)
from nmt.evaluation.systems import (
    NO_BASELINE,
    Baseline,
    System,
    corpus_folder,
    corpus_name,
    find_baseline,
    open_system,
    outputs_of,
)
from nmt.files import check_aligned, check_writable, read_lines
from nmt.trained_model import CONFIG_FILE
from nmt.training.experiment import find_model

# Not __name__, which is __main__ when the module is the command.
logger = logging.getLogger("nmt.cli")

USAGE = f"""python -m nmt.cli.evaluate [test=NAME] [model=FOLDER] [key=value …]

  model=FOLDER      a run's or a model's folder (default: that of the last completed run); several,
                    split by blanks, are compared in one table
  baseline=FOLDER   the run or model to hold them against (default: the first of several; of one,
                    the earlier run of its corpus and direction that is best on validation)
  test=NAME         a test set of the corpus that the model was trained on, or valid (default:
                    its first test set)
  source=FILE reference=FILE   any other aligned text, in place of test=; further references are
                    in reference files with .1, .2, … at the end of their names
  out=FOLDER        where to write source.txt, reference.txt, hypotheses.txt and scores.json
                    (default: outputs/evaluations/<run>/<test set>); of several models, a folder
                    each below it
  corpus=FOLDER     the prepared corpus (default: the one the run was trained on)
  decoding.KEY=…    beam_size, length_penalty, … (default: what the model was scored with)
  device=DEVICE     cpu or cuda (default: cuda where there is one)
{USAGE_LINES}"""


@dataclass(frozen=True)
class Arguments:
    """Arguments of the command; `USAGE` explains them."""

    model: str = ""
    baseline: str = ""
    test: str = ""
    source: str = ""
    reference: str = ""
    out: str = ""
    corpus: str = ""
    device: str = ""
    engine: EngineName = EngineName.torch
    compute_type: str = ""
    decoding: dict[str, str] = field(default_factory=dict)


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments, USAGE)
    set_up_logging()
    systems = _systems(arguments.model)
    test_set = _test_set(arguments, systems[0])
    outs = {
        system.name: _out(arguments.out, system.name, test_set.name, len(systems))
        for system in systems
    }
    for out in outs.values():
        check_writable(out / "scores.json")
    baseline = _baseline(arguments, systems)
    for system in [*systems, *([baseline.system] if baseline else [])]:
        _check_direction(system, test_set)
    evaluations = [
        _evaluated(arguments, system, _with_own_leakage(arguments, system, test_set))
        for system in systems
    ]
    if baseline is None:
        reason = f"{NO_BASELINE}; name one with BASELINE="
        evaluations = [replace(evaluation, not_compared=reason) for evaluation in evaluations]
    else:
        evaluations = _compared(arguments, baseline, evaluations)
    for evaluation in evaluations:
        if evaluation.phenomena is not None:
            console.print(tables.phenomena_table(evaluation))
    show_scores(evaluations)
    # After the scores, which a full disk shall not cost us.
    written = [write_evaluation(evaluation, outs[evaluation.system]) for evaluation in evaluations]
    name_files([path for paths in written for path in paths])
    bleu = evaluations[0].scores.bleu
    line = tables.bleu_line(test_set.name, bleu.score, bleu.signature)
    console.print(line, markup=False, soft_wrap=True)


def _systems(models: str) -> list[System]:
    systems = [open_system(folder) for folder in named_folders(models) or [find_model()]]
    found = [system.name for system in systems]
    doubled = next((name for name in found if found.count(name) > 1), None)
    if doubled is not None:
        raise UserError(f"model=: two of the models are called {doubled}; rename a folder")
    return systems


def _baseline(arguments: Arguments, systems: list[System]) -> Baseline | None:
    if arguments.baseline:
        named = open_system(Path(arguments.baseline))
        if any(system.name == named.name and system.model != named.model for system in systems):
            # Called as a model is, but another: the same run, made elsewhere.
            named = replace(named, name=str(named.model))
        return Baseline(named, "as it was named")
    if len(systems) > 1:
        return Baseline(systems[0], "the first that was named")
    run = systems[0].run
    folder = _corpus_folder(arguments, systems[0])
    if run is None or folder is None:
        return None
    return find_baseline(run, PreparedCorpus(folder), outputs_of(run))


def _evaluated(arguments: Arguments, system: System, test_set: TestSet) -> Evaluation:
    translator = _translator(arguments, system)
    with _progress(system, test_set) as advance:
        evaluation = evaluate(translator, test_set, advance, system.name)
    return replace(evaluation, engine=engine_note(arguments.engine, arguments.compute_type))


def _compared(
    arguments: Arguments, baseline: Baseline, evaluations: list[Evaluation]
) -> list[Evaluation]:
    """The evaluations, each but the baseline's own with both tests against it."""
    system, test_set = baseline.system, evaluations[0].test_set
    own = next((one for one in evaluations if one.system == system.name), None)
    if own is not None and len(evaluations) == 1:
        if not arguments.decoding and arguments.engine is EngineName.torch:
            return [replace(own, not_compared=f"{system.name} is the baseline itself")]
        # The same model, but searched in another way than it was scored with.
        own = None
    references = test_set.all_references
    theirs = (
        system.stored_hypotheses(test_set.name, test_set.sources, references)
        if own is None
        else own.hypotheses
    )
    if theirs is None:
        # As it was scored: decoding.KEY= and engine= are about the models that are evaluated.
        as_scored = Arguments(device=arguments.device)
        translator = _translator(as_scored, system)
        with _progress(system, test_set) as advance:
            translations = translator.translate(test_set.sources, advance)
        theirs = [best[0].text for best in translations]
    logger.info("comparing with %s", system.name)
    return [
        evaluation if evaluation is own else compared(evaluation, system.name, baseline.why, theirs)
        for evaluation in evaluations
    ]


def _direction(system: System) -> tuple[str, str]:
    config = load_values(system.model / CONFIG_FILE)
    return str(config.source_language), str(config.target_language)


def _check_direction(system: System, test_set: TestSet) -> None:
    """Raise UserError, before long work, if the model is of other languages."""
    languages = _direction(system)
    if languages != test_set.direction:
        raise UserError(
            f"{system.name} translates {'-'.join(languages)}, and the test set is"
            f" {'-'.join(test_set.direction)}"
        )


def _translator(arguments: Arguments, system: System) -> Translator:
    model = open_model(system.model, arguments.device)
    config = decoding_config(model, arguments.decoding)
    engine = open_engine(arguments.engine, arguments.compute_type, model, config, system.model)
    return Translator(model, config, logger.warning, engine)


@contextmanager
def _progress(system: System, test_set: TestSet) -> Iterator[Callable[[int], None]]:
    columns = Progress.get_default_columns()
    with Progress(*columns, console=console, transient=True) as progress:
        name = f"{system.name}: translating {test_set.name}"
        task = progress.add_task(name, total=len(test_set.sources))
        yield lambda count: progress.advance(task, count)


def _out(out: str, system: str, test_set: str, num_systems: int) -> Path:
    if not out:
        return Path("outputs/evaluations") / system / test_set
    return Path(out) / system if num_systems > 1 else Path(out)


def _test_set(arguments: Arguments, system: System) -> TestSet:
    if arguments.source or arguments.reference:
        if arguments.test:
            raise UserError("test= and source= exclude each other: name one of them")
        return _from_files(arguments, system)
    folder = _corpus_folder(arguments, system)
    if folder is None:
        if system.run is not None:
            name = corpus_name(system.run)
            raise UserError(f"the corpus {name} is gone; name a prepared corpus with corpus=")
        raise UserError(
            f"{system.model} does not lie in its run's folder, so its corpus is unknown; name it"
            " with corpus=, or any text with source= and reference="
        )
    corpus = PreparedCorpus(folder)
    known = [*corpus.test_splits, "valid"]
    name = arguments.test or known[0]
    if name not in known:
        raise UserError(f"test={name}: the corpus has no such test set; it has {', '.join(known)}")
    return corpus_test_set(corpus, name)


def _with_own_leakage(arguments: Arguments, system: System, test_set: TestSet) -> TestSet:
    """The test set with what this model's own training text holds of it, where that is known."""
    if test_set.leakage is None:
        return test_set
    folder = _corpus_folder(arguments, system)
    if folder is not None and system.run and folder.name != corpus_name(system.run):
        folder = corpus_folder(system.run)
    leakage = None
    if folder is not None:
        corpus = PreparedCorpus(folder)
        texts = (test_set.sources, test_set.references)
        if test_set.name in corpus.leakage and corpus.read_text(test_set.name) == texts:
            leakage = corpus.leakage[test_set.name]
    return replace(test_set, leakage=leakage)


def _from_files(arguments: Arguments, system: System) -> TestSet:
    if not (arguments.source and arguments.reference):
        raise UserError("source= and reference= go together: name both files")
    source, reference = Path(arguments.source), Path(arguments.reference)
    sources = read_lines(source)
    paths = [reference, *more_reference_paths(reference)]
    references = [read_lines(path) for path in paths]
    lengths = map(len, (sources, *references))
    check_aligned(dict(zip((source, *paths), lengths, strict=True)))
    return TestSet(source.stem, _direction(system), sources, references[0], tuple(references[1:]))


def _corpus_folder(arguments: Arguments, system: System) -> Path | None:
    """The prepared corpus that was named or that the run was trained on; None where it is gone."""
    if arguments.corpus:
        return Path(arguments.corpus)
    # A run's model folder lies in its run, which knows its corpus; a copy elsewhere does not.
    return None if system.run is None else corpus_folder(system.run)


if __name__ == "__main__":
    run_command(main)
