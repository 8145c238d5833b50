import pytest

from nmt.base.errors import UserError, first_line, one_line


def test_one_line_is_printable_and_keeps_both_ends_of_a_long_message() -> None:
    assert one_line("Größe  3\n in \x1b[2J\u202e\ud800") == r"Größe  3  in \x1b[2J\u202e\ud800"
    assert one_line("a" * 5_000 + "b") == f"{'a' * 500} … {'a' * 499}b"


def test_messages_escape_control_characters() -> None:
    text = "a\x1b[2J\u202e\nb\tc\u202f?"
    expected = "a\\x1b[2J\\u202e\nb\tc\u202f?"
    assert str(UserError(text)) == expected


@pytest.mark.parametrize(
    ("error", "line"), [(ValueError("\n one \ntwo"), "one"), (ValueError(), "ValueError")]
)
def test_first_line(error: Exception, line: str) -> None:
    assert first_line(error) == line
