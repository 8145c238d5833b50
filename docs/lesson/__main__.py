"""Run the code of the lesson and draw its pictures, or check an exercise.

    python -m docs.lesson [out=FOLDER]
    python -m docs.lesson exercise=N [out=FOLDER]

Runs the code of docs/lesson.md in one session and prints it with its results. The pictures show the
values of that session. Ends with status 1 if a result is not the one in the document.

An exercise is a function to write: the first call writes a file for it, and later calls check the
file.
"""

import sys
from pathlib import Path

from docs.lesson.check import check
from docs.lesson.pictures import draw_pictures
from docs.lesson.session import run_cells
from nmt.base.log import print_line, print_written
from nmt.base.outputs import Outputs
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import checked_dataclass

DOCUMENT = Path(__file__).parents[1] / "lesson.md"


@checked_dataclass
class Arguments:
    """Arguments of the command."""

    exercise: int | None = None
    """Number of the exercise to check; empty to run the lesson."""
    out: str | None = None
    """Folder for the pictures (default: outputs/lesson), or for the files of exercises (default:
    outputs/exercises)."""


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the command."""
    if arguments.exercise is not None:
        print_line(check(arguments.exercise, Path(arguments.out or "outputs/exercises")))
        return
    with Outputs.folder(Path(arguments.out or "outputs/lesson"), record="lesson.json") as outputs:
        print_line("read docs/lesson.md beside this output")
        failures, values = run_cells(DOCUMENT)
        if failures:
            print_line(f"results that differ from those of the document: {failures}")
            sys.exit(1)
        with outputs.written() as [folder]:
            draw_pictures(folder, values)
    print_written(outputs.written_files())


if __name__ == "__main__":
    run_command(main)
