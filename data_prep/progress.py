"""Messages and progress bars of preparation, on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

Advance = Callable[[int], None]
"""Called with the number of items done since the last call."""


class Reporter:
    """Prints messages and shows progress.

    Args:
        console: the output; stderr by default.
        quiet: print nothing.
    """

    def __init__(self, console: Console | None = None, quiet: bool = False) -> None:
        self._console = console or Console(stderr=True, quiet=quiet, highlight=False)

    def say(self, text: str) -> None:
        """Print a line without interpreting markup."""
        self._console.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def stage(self, description: str, total: int | None) -> Iterator[Advance]:
        """Show a progress bar; `total` is None if the number of items is unknown."""
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}", markup=False),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task(description, total=total, count="")
            num_done = 0

            def advance(count: int) -> None:
                nonlocal num_done
                num_done += count
                text = f"{num_done:,}" if total is None else f"{num_done:,} of {total:,}"
                progress.update(task, completed=num_done, count=text)

            yield advance
            # A bar without a total would look unfinished.
            progress.update(task, total=total or num_done or 1, completed=total or num_done or 1)
