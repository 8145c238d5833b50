"""Pages that need nothing else: one HTML file with its style, and no script; it loads nothing.

All text is escaped here. What a reader must not be fooled by is dealt with too: control characters
are shown, and the direction of each text is its own.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --faint: #5f6672; --line: #dfe3e8;
  --bar: #3f6f9f; --bar2: #c2671b; --tint: #f4f5f7; --mark: #ffe9a8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e7ea; --paper: #16181c; --faint: #a3aab5;
  --line: #363b43; --bar: #7aa6d6; --bar2: #e39a57; --tint: #1f2227; --mark: #5a4a17; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; overflow-wrap: anywhere; } h2 { font-size: 1.3rem; margin-top: 3rem; }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
p, figcaption, .faint { color: var(--faint); } p, li { max-width: 48rem; }
p, li, dd { overflow-wrap: anywhere; } a { color: var(--bar); }
nav a { margin-right: 1rem; white-space: nowrap; }
.scroll { overflow-x: auto; margin: .5rem 0 1rem; }
table { border-collapse: collapse; }
th, td { text-align: start; vertical-align: top; padding: .3rem 1.5rem .3rem 0;
  border-bottom: 1px solid var(--line); }
td { min-width: 5rem; overflow-wrap: break-word; } th { font-weight: 600; }
td.long { min-width: 14rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap;
  min-width: 0; }
summary { cursor: pointer; padding: .2rem 0; } figure { margin: 1rem 0; }
svg { width: 100%; height: auto; } svg text { fill: var(--faint); font-size: 11px; }
svg.broad { min-width: 40rem; } .source { fill: var(--bar); } .target { fill: var(--bar2); }
.piece { background: var(--tint); border: 1px solid var(--line); border-radius: 3px;
  padding: 0 .2em; margin: 0 1px; white-space: pre; display: inline-block; }
pre { background: var(--tint); padding: 1rem; overflow-x: auto; }
code { overflow-wrap: anywhere; font-size: .9em; }
"""

_LONG_TEXT = 24
"""Characters from which on a cell takes room for a sentence."""


class Figure(str):
    """A number that is written out already, such as "93.2 ± 0.7"."""

    __slots__ = ()


Cell = str | int | float | None
"""What a table can show; None stands for what is not known."""


def page(title: str, sections: Iterable[str], style: str = "") -> str:
    """A whole page.

    Args:
        title: plain text, for the window.
        sections: HTML.
        style: CSS besides that of every page.
    """
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{text(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}{style}</style></head><body>\n"
        + "\n".join(sections)
        + "\n</body></html>\n"
    )


def text(value: str, most: int = 0) -> str:
    """Plain text as HTML: escaped, its control characters shown as U+FFFD.

    Args:
        value: the text.
        most: characters to show, where it is longer; a mark says how many are left out. 0: all.
    """
    left_out = len(value) - most if most else 0
    shown = value[:most] if left_out > 0 else value
    shown = "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") else c for c in shown)
    mark = f' <span class="faint">… [{left_out:,} more characters]</span>' if left_out > 0 else ""
    return escape(shown) + mark


def table(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table that scrolls inside itself; numbers stand to the right, and all text is escaped."""
    body = [list(row) for row in rows]
    columns = list(zip(*body, strict=True)) if body else [()] * len(header)
    cells = [
        f'<th scope="col"{_column_class(column)}>{text(name)}</th>'
        for name, column in zip(header, columns, strict=True)
    ]
    lines = ['<div class="scroll"><table><tr>', *cells, "</tr>"]
    for row in body:
        lines.append("<tr>" + "".join(map(_cell, row)) + "</tr>")
    return "".join([*lines, "</table></div>"])


def _column_class(column: Sequence[Cell]) -> str:
    known = [cell for cell in column if cell is not None]
    is_number = bool(known) and all(isinstance(cell, Figure | int | float) for cell in known)
    return ' class="number"' if is_number else ""


def _cell(value: Cell) -> str:
    if value is None:
        return '<td class="number">–</td>'
    if isinstance(value, str) and not isinstance(value, Figure):
        kind = ' class="long"' if len(value) >= _LONG_TEXT else ""
        return f'<td dir="auto"{kind}>{text(value)}</td>'
    if isinstance(value, str):
        shown = text(value)
    else:
        shown = f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
    return f'<td class="number">{shown}</td>'


def show_pieces(names: Iterable[str]) -> str:
    """Subwords, each in a box of its own."""
    return "".join(f'<span class="piece" dir="auto">{text(name)}</span>' for name in names)
