"""The lesson on attention: results, quoted code, pictures."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from docs import lesson

ROOT = Path(__file__).parents[2]
TEXT = "\n\n".join(path.read_text(encoding="utf-8") for path in lesson.DOCUMENTS)
WRONG = "## A step\n\n```pycon\n>>> 1 + 1\n3\n>>> 2 + 2\n4\n```\n"


@pytest.mark.slow
def test_results_and_pictures_are_those_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", ["lesson", f"out={tmp_path}"])
    lesson.main()
    assert capsys.readouterr().out.count(">>> ") == TEXT.count("\n>>> ")
    shown = re.findall(r"\(pictures/(\w+\.png)\)", TEXT)
    assert sorted(shown) == sorted(path.name for path in tmp_path.glob("*.png"))
    for name in shown:
        drawn, stored = (
            np.asarray(Image.open(folder / name).convert("RGB"), dtype=float)
            for folder in (tmp_path, ROOT / "docs" / "pictures")
        )
        assert np.abs(drawn - stored).mean() < 1, f"make lesson, copy to docs/pictures: {name}"


def test_a_wrong_result_is_shown_and_ends_the_command_with_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "wrong.md"
    document.write_text(WRONG, encoding="utf-8")
    monkeypatch.setattr(lesson, "DOCUMENTS", [document])
    monkeypatch.setattr("sys.argv", ["lesson", f"out={tmp_path / 'new'}"])
    with pytest.raises(SystemExit, match="1"):
        lesson.main()
    printed = capsys.readouterr()
    assert f'File "{document}", line 4, in wrong.md' in printed.out
    assert printed.out.endswith("Expected:\n    3\nGot:\n    2\n>>> 2 + 2\n4\n")
    assert printed.err.endswith("results that differ from those of the documents: 1\n")
    assert list(tmp_path.iterdir()) == [document]


def quoted_code() -> list[tuple[str, str, str]]:
    """Return file, function and expression wherever a link to a function is followed by code."""
    found, function = [], ("", "")
    pattern = r"\[`([\w.]+)`\]\(\.\./([\w/]+\.py)\)|`([^`]+)`|(\n\n|\n- )"
    for name, file, code, end in re.findall(pattern, re.sub(r"(?ms)^```.*?^```$", "", TEXT)):
        if name or end:
            function = (file, name)
        elif function[0]:
            found.append((*function, code))
    return found


def test_every_step_with_code_quotes_some() -> None:
    assert len(quoted_code()) >= TEXT.count("**Code**, ")


@pytest.mark.parametrize(("file", "name", "code"), quoted_code())
def test_quoted_code_stands_in_the_function(file: str, name: str, code: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(source)
    for part in name.split("."):
        (node,) = (inner for inner in node.body if getattr(inner, "name", "") == part)  # type: ignore[attr-defined]
    function = ast.get_source_segment(source, node) or ""
    assert "".join(code.split()) in "".join(function.split())


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#]+)", TEXT)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
