from enum import Enum

import pytest

from nmt.base.errors import UserError
from nmt.cli.common import group, parse_arguments
from nmt.config import DecodingConfig, checked_dataclass, option


class Color(Enum):
    red = "red"
    blue = "blue"


@checked_dataclass
class Arguments:
    file: str
    """The text."""
    count: int = option(1, ge=1, le=10)
    """The number of copies."""
    quick: bool = False
    """Whether to hurry."""
    color: Color | None = None
    """The color (default: by FILE)."""
    decoding: dict[str, str] = group(DecodingConfig)
    """The search."""


@pytest.mark.parametrize("name", ["[1], a=b: 01.txt", "${x}.en", "a$b", r"\\${", "a\\", "null"])
def test_text_is_taken_as_it_is(name: str) -> None:
    assert parse_arguments(Arguments, [f"file={name}"]).file == name


def test_values_are_converted_to_their_types() -> None:
    given = ["file=a", "count=3", "quick=true", "color=blue", "decoding.beam_size=8"]
    expected = Arguments(
        file="a", count=3, quick=True, color=Color.blue, decoding={"beam_size": "8"}
    )
    assert parse_arguments(Arguments, given) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fil=x", r"fil is not a key; did you mean file\?"),
        ("zzz=x", "zzz is not a key; the keys are file, count, quick, color, decoding.…"),
        ("beam_size=3", r"did you mean decoding\.beam_size\?"),
        ("decoding.beam=3", r"did you mean decoding\.beam_size\?"),
        ("decoding=greedy", "the keys of decoding are beam_size, "),
        ("count=many", "count=many: Input should be a valid integer"),
        ("count=11", "count=11: Input should be less than or equal to 10"),
        ("quick=maybe", "quick=maybe: Input should be a valid boolean"),
        ("color=green", "color=green: Input should be 'red' or 'blue'"),
        ("news.en", "'news.en' is not key=value; --help lists the keys"),
        ("--count=3", "'--count=3' is not key=value"),
        ("file=", r"file= is missing \(for make: FILE=\): The text\."),
    ],
)
def test_an_invalid_argument_is_reported(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_arguments(Arguments, ["file=x", text])


def test_help_has_every_argument_with_its_documentation_and_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse_arguments(Arguments, ["--help"])
    assert exit_.value.code == 0
    printed = capsys.readouterr().out
    assert "  file=TEXT\n      The text.\n" in printed
    assert "  count=NUMBER\n      The number of copies. Default: 1.\n" in printed
    assert "  quick=true or false\n      Whether to hurry. Default: false.\n" in printed
    assert "  color=red or blue\n      The color (default: by FILE).\n" in printed
    assert "beam_size, length_penalty" in printed
