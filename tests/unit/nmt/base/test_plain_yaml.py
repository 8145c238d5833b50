from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.base.plain_yaml import read_plain_yaml


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


@pytest.mark.parametrize(
    "text",
    ["a: x & y * z!\n", "a: '&x *y !!z'\n", "a: $HOME {b}\n", "a: ??\n", "# &x ${y}\n", ""],
)
def test_special_characters_in_values_are_plain(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    assert read_plain_yaml(path) == text


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("&x 1", "an anchor or an alias"),
        ("!!int 1", "a tag, tag:yaml.org,2002:int"),
        ("! 1", "a tag, !"),
        ("'${x}'", "an interpolation"),
        ("???", "an unset value"),
        ("x" * 2_001, "a value of more than 2,000 characters"),
    ],
    ids=lambda text: text[:20],
)
def test_other_constructs_are_rejected_with_their_line(
    path: Path, value: str, problem: str
) -> None:
    path.write_text(f"a: 1\nb:\n  - {value}\n", encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_plain_yaml(path)
    assert str(error.value).startswith(f"{path}: line 3 holds {problem}")
