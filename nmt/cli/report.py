"""Write the report of a completed run again.

nmt report [run=FOLDER]

The command also prints the path of the report of the run's corpus, which preparation has written.
Nothing is prepared or trained.
"""

import os
from pathlib import Path

from nmt.base.errors import UserError
from nmt.base.layout import REPORT_FILE
from nmt.base.log import print_line, print_written
from nmt.cli.application import application
from nmt.cli.models import open_model
from nmt.config import checked_dataclass


@checked_dataclass
class _Arguments:
    run: str = ""
    """Folder of a completed run (default: the last one outside sweeps)."""


@application(_Arguments)
def main(arguments: _Arguments) -> None:
    """Run the command."""
    from nmt.evaluation.report import write_report
    from nmt.evaluation.systems import find_model, open_system

    system = open_system(Path(arguments.run) if arguments.run else find_model())
    if system.run is None:
        raise UserError(f"{system.model} is not in a run folder, so there is nothing to report")
    folder = system.run.folder
    if not system.run.is_complete:
        raise UserError(f"{folder} is not complete; the command that started it continues it")
    corpus, model = system.corpus, open_model(system.model, "cpu")
    path = write_report(system.run, system.run.result, model, corpus)
    if corpus and (corpus.folder / REPORT_FILE).is_file():
        print_line(f"report of the corpus: {os.path.relpath(corpus.folder / REPORT_FILE)}")
    print_written([Path(os.path.relpath(path))])
