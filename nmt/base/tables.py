"""Tables for the terminal."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from nmt.base.errors import one_line


def new_table(
    title: str, *columns: str, texts: Sequence[str], rows: Iterable[Iterable[str]] = ()
) -> Table:
    """Create a table, to which further rows can be added; an empty `title` is not shown.

    The columns named in `texts` are wrapped; the others have numbers, which are aligned right.
    """
    table = Table(
        title=as_text(title) if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for name in columns:
        if name in texts:
            table.add_column(as_text(name), overflow="fold")
        else:
            table.add_column(as_text(name), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(as_text, row))
    return table


def as_text(value: str) -> Text:
    """Create a cell without markup and without control characters."""
    return Text("\n".join(map(one_line, value.split("\n"))))
