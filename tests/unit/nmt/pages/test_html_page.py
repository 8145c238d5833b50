import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError

from nmt.pages.html_page import COLOURS, draw_svg, format_number, render
from tests.html_check import check_page
from tests.namespaces import ROOT

BODY = """{% extends "page.html.jinja" %}{% import "macros.html.jinja" as m %}
{% block body %}CONTENT{% endblock %}"""


def page(folder: Path, content: str, **context: Any) -> str:
    template = folder / "test.html.jinja"
    template.write_text(BODY.replace("CONTENT", content), encoding="utf-8")
    return render(template, {"title": "a & b", **context})


def test_text_is_escaped_and_control_characters_are_replaced(tmp_path: Path) -> None:
    html = page(tmp_path, "[{{ text }}]", text="<b> & \"q\" 'q' \x00\x1b\ud800 \u2028🎉שלום")
    assert "[&lt;b&gt; &amp; &#34;q&#34; &#39;q&#39; \ufffd\ufffd\ufffd \u2028🎉שלום]" in html
    check_page(html)


def test_unknown_name_in_a_template_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UndefinedError, match="'missing' is undefined"):
        page(tmp_path, "{{ missing }}")


@pytest.mark.parametrize(
    ("value", "text"), [(12345, "12,345"), (1234.5, "1,234.50"), ("1 ± 2", "1 ± 2"), (None, "–")]
)
def test_format_number(value: float | str | None, text: str) -> None:
    assert format_number(value) == text


def test_table_aligns_numbers_and_pieces_have_boxes(tmp_path: Path) -> None:
    content = '{{ m.table("lr", ["name", "n"], rows) }}{{ m.pieces(["▁<s>"]) }}'
    html = page(tmp_path, content, rows=[("a<", 12345), ("b", None)])
    assert '<th scope="col">name</th><th scope="col" class="number">n</th>' in html
    assert '<td dir="auto">a&lt;</td><td class="number">12,345</td>' in html
    assert '<td class="number">–</td>' in html
    assert '<span class="piece" dir="auto">▁&lt;s&gt;</span>' in html
    check_page(html)


def test_chart_uses_colours_and_fonts_of_the_page(tmp_path: Path) -> None:
    def draw(axes: Any) -> None:
        axes.bar([1, 2], [3, 4], color=COLOURS["source"])
        axes.set_xlabel("a $b$ <c> 这")

    svg = draw_svg(draw, "Lo<ss", (4, 2))
    assert draw_svg(draw, "Lo<ss", (4, 2)) == svg
    # Identifiers of two charts on a page differ.
    check_page(page(tmp_path, "{{ one }}{{ two }}", one=svg, two=draw_svg(draw, "BLEU", (4, 2))))
    assert 'aria-label="Lo&lt;ss"' in svg
    assert "a $b$ &lt;c&gt; 这" in svg
    assert "var(--source)" in svg
    for unwanted in ("#aa000", "font-family", "<style", "<metadata", "<image"):
        assert unwanted not in svg


@pytest.mark.slow
def test_charts_are_drawn_without_a_home() -> None:
    code = "from nmt.pages.html_page import draw_svg; draw_svg(lambda axes: None, 'x', (1, 1))"
    kept = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"}
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**kept, "HOME": "/dev/null", "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""},
        capture_output=True,
        check=True,
    )
    assert ended.stderr == b""
