"""Messages and progress bars of preparation, on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from nmt.base.errors import printable

Advance = Callable[[int], None]
"""Called with the number of items done since the last call."""


class Reporter:
    """Prints messages and shows progress.

    Args:
        quiet: print nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False)

    def print(self, text: str) -> None:
        """Print a message on a line of its own, without markup, control characters escaped."""
        self._console.print(printable(text), markup=False, soft_wrap=True)

    def print_table(self, table: Table) -> None:
        """Print a table."""
        self._console.print(table)

    @contextmanager
    def stage(self, description: str, total: int | None) -> Iterator[Advance]:
        """Show a progress bar; `total` is None if the number of items is unknown."""
        text = TextColumn("{task.description}", markup=False)
        count = MofNCompleteColumn(" of ", table_column=Column(no_wrap=True))
        columns = text, BarColumn(), count, TimeElapsedColumn()
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task(printable(description), total=total)
            yield partial(progress.advance, task)
            # Without a total, the bar would never look complete.
            completed = total or progress.tasks[task].completed or 1
            progress.update(task, total=completed, completed=completed)
