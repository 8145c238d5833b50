"""Write the report of a completed run again, and say where it is.

python -m nmt.cli.report [run=FOLDER]
"""

import os
from dataclasses import dataclass
from pathlib import Path

from nmt.cli.common import name_files, parse_arguments, run_command
from nmt.data.corpus import PreparedCorpus
from nmt.errors import UserError
from nmt.evaluation.report import write_report
from nmt.evaluation.systems import corpus_folder, open_system, outputs_of
from nmt.trained_model import load_trained_model
from nmt.training.experiment import find_model, is_complete, read_result

USAGE = """python -m nmt.cli.report [run=FOLDER]

  run=FOLDER   a completed run's folder (default: that of the last completed run)"""


@dataclass(frozen=True)
class Arguments:
    """Arguments of the command; `USAGE` explains them."""

    run: str = ""


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments, USAGE)
    system = open_system(Path(arguments.run) if arguments.run else find_model())
    if system.run is None:
        raise UserError(f"{arguments.run}: lies in no run's folder, so there is nothing to report")
    if not is_complete(system.run):
        raise UserError(f"{system.run}: is not complete; the command that began it goes on with it")
    folder = corpus_folder(system.run)
    path = write_report(
        system.run,
        read_result(system.run),
        load_trained_model(system.model),
        PreparedCorpus(folder) if folder else None,
        outputs_of(system.run),
    )
    name_files([Path(os.path.relpath(path))])


if __name__ == "__main__":
    run_command(main)
