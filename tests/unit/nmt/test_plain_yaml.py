from pathlib import Path

import pytest

from nmt.config import Config, load_config, save_config
from nmt.errors import UserError
from nmt.plain_yaml import read_plain_yaml


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def test_what_is_written_is_plain(path: Path) -> None:
    save_config(Config(), path)
    assert load_config(Config, path) == Config()


@pytest.mark.parametrize(
    "text",
    ["a: x & y * z!\n", "a: '&x *y !!z'\n", "a: $HOME {b}\n", "a: ??\n", "# &x ${y}\n", ""],
)
def test_text_that_only_looks_like_more_is_plain(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    assert read_plain_yaml(path) == text


@pytest.mark.parametrize(
    ("value", "told"),
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
def test_what_is_more_is_named_with_its_line(path: Path, value: str, told: str) -> None:
    path.write_text(f"a: 1\nb:\n  - {value}\n", encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_plain_yaml(path)
    assert str(error.value).startswith(f"{path}: line 3 holds {told}")
