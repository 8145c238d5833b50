import pytest

from nmt.html_page import Figure, page, show_pieces, table, text
from tests.html_check import check_page


def test_text_is_escaped_and_its_control_characters_are_shown() -> None:
    assert text("<b> & \"q\" 'q'") == "&lt;b&gt; &amp; &quot;q&quot; &#x27;q&#x27;"
    assert text("a\x00b\x1bc") == "a\ufffdb\ufffdc"
    assert text("\u2028🎉שלום") == "\u2028🎉שלום"


@pytest.mark.parametrize(
    ("most", "shown"),
    [(0, "a&lt;bcd"), (5, "a&lt;bcd"), (4, "a&lt;bc"), (1, "a")],
)
def test_long_text_is_cut_with_a_mark(most: int, shown: str) -> None:
    found = text("a<bcd", most)
    assert found.startswith(shown)
    left_out = 5 - most if most else 0
    assert (f"[{left_out} more characters]" in found) == (left_out > 0)


def test_numbers_stand_to_the_right_and_what_is_unknown_is_a_dash() -> None:
    found = table(["name", "n"], [("a<", 12345), ("b", None), ("c", Figure("1 ± 2"))])
    assert '<th scope="col">name</th><th scope="col" class="number">n</th>' in found
    assert '<td dir="auto">a&lt;</td><td class="number">12,345</td>' in found
    assert '<td class="number">–</td>' in found
    assert '<td class="number">1 ± 2</td>' in found
    assert table(["a"], []).count("<tr>") == 1


def test_a_page_is_whole() -> None:
    check_page(page("a & b", ["<p>x</p>", show_pieces(["▁<s>", "y"]), table(["a"], [("b",)])]))
