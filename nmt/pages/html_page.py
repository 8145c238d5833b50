"""Self-contained HTML pages from Jinja templates, with charts as inline SVG.

A page is a single file that contains its style and loads nothing. A script is used for attention
maps only. All text is escaped, and control characters are replaced.
"""

import io
import logging
import os
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

# The shared layout, macros and style.
_TEMPLATES = Path(__file__).with_name("templates")

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # all but line feeds

# matplotlib draws with these colours; they are replaced by variables of style.css, which differ
# between light and dark mode. `group1` … are easy to tell apart; `fifth1` … go from bad to good.
COLOURS = {
    "source": "#aa0001",
    "target": "#aa0002",
    "baseline": "#aa0003",
    "ink": "#aa0004",
    "line": "#aa0005",
    "paper": "#aa0006",
    "other": "#aa0007",
    **{f"group{number}": f"#aa001{number}" for number in range(1, 9)},
    **{f"fifth{number}": f"#aa002{number}" for number in range(1, 6)},
}


def render(template: Path, context: Mapping[str, Any]) -> str:
    """Render a template, which may extend and import the shared templates of this package."""
    environment = Environment(
        loader=FileSystemLoader([template.parent, _TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_without_control_characters,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = format_number
    return environment.get_template(template.name).render(context)


def render_text(template: Path, context: Mapping[str, Any]) -> str:
    """Render a template of plain text, such as Markdown, without escaping."""
    text = template.read_text(encoding="utf-8")
    parsed = Template(text, trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    return parsed.render(context)


def format_number(value: str | float | None) -> str:
    """Format a number for a table; a string is formatted already, and None is a dash."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


def relative_link(folder: Path, target: Path) -> str:
    """Return the relative URL of a file in a page of `folder`; empty if there is no such file."""
    path = os.path.relpath(target.absolute(), folder.absolute())
    return quote(path) if target.is_file() else ""


def draw_svg(draw: Callable[[Any], None], label: str, size: tuple[float, float]) -> Markup:
    """Draw a chart with matplotlib.

    Args:
        draw: draws on a `matplotlib.axes.Axes`, with `COLOURS` only.
        label: description for screen readers, unique on the page.
        size: width and height in inches.

    Returns:
        An `svg` element as wide as its container.
    """
    # It warns if the user has no folder where it can keep its cache.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    # Imported here because it takes a second, and only reports have charts.
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    out = io.StringIO()
    style = _TEMPLATES / "chart.mplstyle"
    without_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    # Identifiers are hashes of content and salt. The salt makes them unique on a page.
    with mpl.rc_context({"svg.hashsalt": label}, style), warnings.catch_warnings():
        # A glyph missing in matplotlib's font affects the layout only; browsers have other fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        figure.savefig(out, format="svg", metadata=without_metadata)
    _, _, body = out.getvalue().partition("</defs>")  # leaves out matplotlib's style
    # Names of groups, such as axes_1, would not be unique on a page.
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r"font-family: [^;]*; |\n *", " ", body)
    for name, colour in COLOURS.items():
        body = body.replace(colour, f"var(--{name})")
    start = '<svg viewBox="0 0 {} {}" role="img" aria-label="{}">'
    points = (72 * length for length in size)
    return Markup(start).format(*points, label) + Markup(body)


def _without_control_characters(value: object) -> object:
    """Replace control characters and lone surrogates in a value of a template."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _CONTROL.sub("\ufffd", value)
