"""Progress bars on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from nmt.base.errors import printable

FILE_ONLY = {"file_only": True}
"""`extra=` of log lines that are not printed on a terminal, where a progress bar shows the same."""

Advance = Callable[[float], None]


class _Bars(Progress):
    """Progress bars whose end raises no error if the terminal has been closed."""

    def stop(self) -> None:
        """Remove the bars."""
        with suppress(OSError):
            super().stop()


def progress_bars() -> Progress:
    """Create bars below the log lines of a terminal, hidden if stderr is no terminal."""
    console = Console(stderr=True)
    # The speed is the mean of the last ten minutes, or of the last 1,000 updates if these took less
    # time, because rich keeps no more. With so long a period, the time left includes validations.
    return _Bars(
        console=console,
        disable=not console.is_terminal,
        refresh_per_second=2,
        speed_estimate_period=600,
        transient=True,
    )


@contextmanager
def progress_bar(description: str, total: int | None, completed: int = 0) -> Iterator[Advance]:
    """Show a bar inside the block; yields a function that advances it."""
    with progress_bars() as bars:
        bar = bars.add_task(escape(printable(description)), total=total, completed=completed)
        yield lambda count: bars.advance(bar, count)
