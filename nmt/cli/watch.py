"""Show the runs that are in progress and the last completed ones, refreshed until Ctrl-C.

python -m nmt.cli.watch [outputs=FOLDER] [every=SECONDS] [once=true]

Without a terminal, the table is printed once.
"""

import math
import signal
import sys
import time
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Table

from nmt.base import layout
from nmt.base.errors import UserError
from nmt.cli.common import parse_arguments, run_command
from nmt.config import Config, checked_dataclass, load_config, option
from nmt.evaluation.records import (
    Status,
    is_complete,
    read_metrics,
    read_result,
    run_status,
    with_number,
)
from nmt.evaluation.systems import system_name
from nmt.evaluation.tables import as_text, new_table
from nmt.runs.log import console
from nmt.training.progress import seconds_left
from nmt.training.signals import Interruption

_NUM_COMPLETE = 5
_COLUMNS = ("run", "updates", "", "loss", "BLEU", "best", "tokens/s", "left")


@checked_dataclass
class _Arguments:
    outputs: str = "outputs"
    """Output folder."""
    every: float = option(2.0, ge=0.1, le=86_400)
    """Seconds between two refreshes."""
    once: bool = False
    """Print the table once, and exit."""


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(_Arguments)
    outputs = Path(arguments.outputs)
    if not outputs.is_dir():
        raise UserError(f"outputs={outputs} is not a folder; no run was started there")
    if arguments.once or not (console.is_terminal and sys.stdout and sys.stdout.isatty()):
        console.print(runs_table(outputs))
        return
    try:
        with (
            Interruption.watched() as received,
            received.immediately(),
            Live(console=console, auto_refresh=False) as live,
        ):
            while True:
                live.update(runs_table(outputs), refresh=True)
                time.sleep(arguments.every)
    except Interruption as error:
        if error.signal_number != signal.SIGINT:  # Ctrl-C is the way to end this command
            raise


def runs_table(outputs: Path) -> Table:
    """Return one table of the runs in progress and, below them, the last completed ones."""
    running, complete = find_runs(outputs)
    title = f"{outputs}: {len(running)} in progress, {len(complete)} completed last"
    table = new_table(title, *_COLUMNS, texts=["run"])
    for runs, style in ((running, ""), (complete, "dim")):
        for run in runs:
            table.add_row(as_text(system_name(run)), *progress_cells(run), style=style)
    return table


def find_runs(outputs: Path) -> tuple[list[Path], list[Path]]:
    """Return the folders of the runs in progress, by name, and of the last completed ones."""
    patterns = f"{layout.RUNS_FOLDER}/*", f"{layout.SWEEPS_FOLDER}/*/*"
    folders = sorted(folder for pattern in patterns for folder in outputs.glob(pattern))
    status = {folder: run_status(folder) for folder in folders}
    running = [folder for folder in folders if status[folder] is Status.running]
    complete = [folder for folder in folders if status[folder] is Status.complete]
    return running, sorted(complete, key=_completed_at, reverse=True)[:_NUM_COMPLETE]


def progress_cells(run: Path) -> list[str]:
    """Return the cells of a run after its name, with a dash for values not known yet."""
    records: list[dict[str, Any]] = []
    with suppress(UserError, OSError):  # the file is damaged
        records = read_metrics(run / layout.METRICS_FILE)
    last = next(reversed(with_number(records, "train/seconds")), {"update": 0})
    bleu = [record["valid/bleu"] for record in with_number(records, "valid/bleu")]
    update, seconds = last["update"], last.get("train/seconds", 0.0)
    scores = [
        _number(last.get("train/loss"), ".3f"),
        _number(bleu[-1] if bleu else None, ".2f"),
        _number(max(bleu, default=None), ".2f"),
        _number(last.get("train/target_tokens_per_second"), ",.0f"),
    ]
    if is_complete(run):
        with suppress(UserError, OSError):  # the file is damaged
            update = read_result(run)["updates"]
        return [f"{update:,}", "", *scores, "complete"]
    try:
        config = run / layout.CONFIG_FILE
        training = _config(config, config.stat().st_mtime_ns).training
    except (UserError, OSError):  # the run is just starting, or the file is damaged
        return [f"{update:,}", "–", *scores, "–"]
    left = seconds_left(training, update, seconds)
    done = f"{update:,} of {training.max_updates:,}"
    time_left = "–" if math.isnan(left) else str(timedelta(seconds=int(left)))
    return [done, f"{100 * update / training.max_updates:.0f} %", *scores, time_left]


@lru_cache
def _config(path: Path, modified: int) -> Config:
    del modified  # a changed file is read again
    return load_config(Config, path)


def _completed_at(run: Path) -> float:
    try:
        return (run / layout.RESULT_FILE).stat().st_mtime
    except OSError:  # the run has just been continued
        return 0.0


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


if __name__ == "__main__":
    run_command(main)
