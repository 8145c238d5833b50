"""Rank the runs of a sweep, and write ranking.tsv and report.html to its folder.

nmt sweep-report sweep=NAME_OR_FOLDER [outputs=FOLDER]

Runs may be in progress: their scores are those of the best validation so far. A sweep of the rows
of the paper's Table 3 also gets table3.tsv.
"""

from pathlib import Path

from nmt.cli.application import application
from nmt.config import checked_dataclass


@checked_dataclass
class _Arguments:
    sweep: str
    """Folder of the sweep, its name in outputs/sweeps, or the part of this name before a _."""
    outputs: str = "outputs"
    """Output folder."""


@application(_Arguments)
def main(arguments: _Arguments) -> None:
    """Run the command."""
    from nmt.runs.sweep import find_sweep, write_sweep_report

    write_sweep_report(find_sweep(arguments.sweep, Path(arguments.outputs)))
