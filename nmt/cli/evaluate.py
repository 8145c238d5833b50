"""Score a trained model on a test set.

python -m nmt.cli.evaluate test=newstest2014 model=FOLDER
python -m nmt.cli.evaluate source=news.en reference=news.de
"""

import logging
from dataclasses import dataclass, field
from pathlib import Path

from rich.progress import Progress

from nmt.cli.common import (
    console,
    name_files,
    parse_arguments,
    run_command,
    set_up_logging,
    show_scores,
)
from nmt.cli.translate import decoding_config, open_model
from nmt.data.corpus import PreparedCorpus
from nmt.decoding.translator import Translator
from nmt.errors import UserError
from nmt.evaluation import tables
from nmt.evaluation.evaluate import TestSet, corpus_test_set, evaluate, write_evaluation
from nmt.files import check_writable, read_json, read_lines
from nmt.training.experiment import ENVIRONMENT_FILE, find_model

# Not __name__, which is __main__ when the module is the command.
logger = logging.getLogger("nmt.cli")

USAGE = """python -m nmt.cli.evaluate [test=NAME] [model=FOLDER] [key=value …]

  model=FOLDER      a trained model's folder (default: that of the last completed run)
  test=NAME         a test set of the corpus that the model was trained on, or valid (default:
                    its first test set)
  source=FILE reference=FILE   any other aligned text, in place of test=
  out=FOLDER        where to write source.txt, reference.txt, hypotheses.txt and scores.json
                    (default: outputs/evaluations/<run>/<test set>)
  corpus=FOLDER     the prepared corpus (default: the one the run was trained on)
  decoding.KEY=…    beam_size, length_penalty, … (default: what the model was scored with)
  device=DEVICE     cpu or cuda (default: cuda where there is one)"""


@dataclass(frozen=True)
class Arguments:
    """Arguments of the command; `USAGE` explains them."""

    model: str = ""
    test: str = ""
    source: str = ""
    reference: str = ""
    out: str = ""
    corpus: str = ""
    device: str = ""
    decoding: dict[str, str] = field(default_factory=dict)


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments, USAGE)
    set_up_logging()
    model_folder = Path(arguments.model) if arguments.model else find_model()
    test_set = _test_set(arguments, model_folder)
    resolved = model_folder.resolve()
    model_name = resolved.parent.name if resolved.name == "model" else resolved.name
    out = Path(arguments.out or f"outputs/evaluations/{model_name}/{test_set.name}")
    check_writable(out / "scores.json")
    model = open_model(str(model_folder), arguments.device)
    translator = Translator(model, decoding_config(model, arguments.decoding), logger.warning)
    columns = Progress.get_default_columns()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"translating {test_set.name}", total=len(test_set.sources))
        evaluation = evaluate(translator, test_set, lambda count: progress.advance(task, count))
    if evaluation.phenomena is not None:
        console.print(tables.phenomena_table(evaluation))
    show_scores([evaluation])
    # After the scores, which a full disk shall not cost us.
    name_files(write_evaluation(evaluation, out))
    bleu = evaluation.scores.bleu
    line = tables.bleu_line(test_set.name, bleu.score, bleu.signature)
    console.print(line, markup=False, soft_wrap=True)


def _test_set(arguments: Arguments, model_folder: Path) -> TestSet:
    if arguments.source or arguments.reference:
        if arguments.test:
            raise UserError("test= and source= exclude each other: name one of them")
        return _from_files(arguments)
    corpus = PreparedCorpus(_corpus_folder(arguments, model_folder))
    known = [*corpus.test_splits, "valid"]
    name = arguments.test or known[0]
    if name not in known:
        raise UserError(f"test={name}: the corpus has no such test set; it has {', '.join(known)}")
    return corpus_test_set(corpus, name)


def _from_files(arguments: Arguments) -> TestSet:
    if not (arguments.source and arguments.reference):
        raise UserError("source= and reference= go together: name both files")
    source, reference = Path(arguments.source), Path(arguments.reference)
    sources, references = read_lines(source), read_lines(reference)
    if len(sources) != len(references):
        raise UserError(
            f"{source} has {len(sources)} lines and {reference} has {len(references)}; they must"
            " be aligned line by line"
        )
    return TestSet(source.stem, sources, references)


def _corpus_folder(arguments: Arguments, model_folder: Path) -> Path:
    if arguments.corpus:
        return Path(arguments.corpus)
    # A run's model folder lies in its run, which knows its corpus; a copy elsewhere does not.
    environment = model_folder.resolve().parent / ENVIRONMENT_FILE
    if not environment.is_file():
        raise UserError(
            f"{model_folder} does not lie in its run's folder, so its corpus is unknown; name it"
            " with corpus=, or any text with source= and reference="
        )
    name = str(read_json(environment)["corpus"])
    folders = [parent / "corpora" / name for parent in environment.parents]
    found = next((folder for folder in folders if folder.is_dir()), None)
    if found is None:
        raise UserError(f"the corpus {name} is gone; name a prepared corpus with corpus=")
    return found


if __name__ == "__main__":
    run_command(main)
