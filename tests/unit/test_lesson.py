"""The lesson on the Transformer: results, quoted code, pictures, exercises."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from docs.lesson import __main__ as lesson
from docs.lesson.check import TEMPLATES, check
from docs.lesson.exercises import EXERCISES
from nmt.base.errors import UserError

ROOT = Path(__file__).parents[2]
TEXT = lesson.DOCUMENT.read_text(encoding="utf-8")
CELL = "```python\n{}\n```\n\n```text\n{}\n```\n\n"
WRONG = "## A step\n\n" + CELL.format("1 + 1", 3) + CELL.format("2 + 2", 4)


@pytest.mark.slow
def test_results_and_pictures_are_those_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["lesson", "out=new"])
    lesson.main()
    printed = capsys.readouterr().out
    cells = re.findall(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)
    assert len(cells) > 20
    assert [cell for cell in cells if cell not in printed] == []
    shown = set(re.findall(r"\(pictures/(\w+\.\w+)\)", TEXT))
    assert shown == {path.name for path in (tmp_path / "new").iterdir()} - {"lesson.json"}
    for name in shown:
        drawn, stored = tmp_path / "new" / name, ROOT / "docs" / "pictures" / name
        if name.endswith(".svg"):
            is_same = drawn.read_bytes() == stored.read_bytes()
        else:
            old, new = (
                np.asarray(Image.open(path).convert("RGB"), dtype=float) for path in (drawn, stored)
            )
            is_same = bool(np.abs(new - old).mean() < 1)
        assert is_same, f"make lesson, copy to docs/pictures: {name}"


def test_a_wrong_result_is_shown_and_ends_the_command_with_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "wrong.md"
    document.write_text(WRONG, encoding="utf-8")
    monkeypatch.setattr(lesson, "DOCUMENT", document)
    monkeypatch.setattr("sys.argv", ["lesson", f"out={tmp_path / 'new'}"])
    with pytest.raises(SystemExit, match="1"):
        lesson.main()
    printed = capsys.readouterr()
    assert f'File "{document}", line 4, in wrong.md' in printed.out
    assert printed.out.endswith("Expected:\n    3\nGot:\n    2\n\n2 + 2\n4\n")
    assert printed.err.endswith("results that differ from those of the document: 1\n")
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


def test_every_section_quotes_code_and_asks_for_a_prediction() -> None:
    sections = TEXT.split("\n## ")[1:]
    assert len(sections) == 12
    for section in sections:
        assert section.count("**Code**, ") == section.count("**Change this and predict**") == 1
    assert len(quoted_code()) >= len(sections)


@pytest.mark.parametrize(("file", "name", "code"), quoted_code())
def test_quoted_code_stands_in_the_function(file: str, name: str, code: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(source)
    for part in name.split("."):
        (node,) = (inner for inner in node.body if getattr(inner, "name", "") == part)  # type: ignore[attr-defined]
    function = ast.get_source_segment(source, node) or ""
    assert "".join(code.split()) in "".join(function.split())


def test_links_of_page_and_picture_lead_to_code_that_exists() -> None:
    picture = (ROOT / "docs/pictures/architecture.svg").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"]+)"><title>([\w.]+) in', picture)
    assert len(links) > 20
    for link, name in links:
        source = (ROOT / "docs/pictures" / link).read_text(encoding="utf-8")
        assert re.search(rf"\b{name}\b", source), link
    page_links = re.findall(r"\]\(([^)#]+)", TEXT)
    assert [link for link in page_links if not (ROOT / "docs" / link).exists()] == []


RIGHT = {
    1: """scores = query @ key.T / query.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1)""",
    2: "return torch.ones(length, length).tril().bool()",
    3: """angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    table = torch.empty(length, width)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table""",
    4: """return torch.nn.functional.cross_entropy(
        logits, target, label_smoothing=eps, reduction="sum")""",
    5: """sums = (log_probs[:, None] + next_log_probs).flatten()
    best = sums.topk(len(log_probs)).indices
    return torch.stack((best // next_log_probs.size(1), best % next_log_probs.size(1)), dim=1)""",
    6: "return log_probs / ((5 + lengths) / 6) ** alpha",
}
FAULTS = [
    (1, "return (query @ key.T).softmax(-1)", "does not divide the scores by √d_k"),
    (1, RIGHT[1].replace("~mask", "mask"), "hides the keys that the mask shows"),
    (1, RIGHT[1].replace('float("-inf")', "0.0"), "gives hidden keys the score 0"),
    (1, RIGHT[1].replace("dim=-1", "dim=0"), "lets columns sum to one"),
    (1, "return query", "returns the shape (2, 4) instead of (2, 3)"),
    (2, RIGHT[2].replace("tril", "triu"), "shows later positions"),
    (2, RIGHT[2].replace(".bool()", ""), "returns numbers"),
    (3, RIGHT[3].replace("arange(length)", "arange(1, length + 1)"), "begins with position 1"),
    (3, RIGHT[3].replace("0::2", ":width // 2").replace("1::2", "width // 2:"), "all sines before"),
    (4, RIGHT[4].replace('"sum"', '"mean"'), "returns the mean"),
    (4, RIGHT[4].replace("=eps", "=0.0"), "ignores eps"),
    (4, RIGHT[4].replace("=eps", "=eps * 5 / 4"), "shares eps among the V − 1 other words"),
    (5, RIGHT[5].replace("log_probs[:, None] + ", ""), "ignores the log-probabilities of the hyp"),
    (5, RIGHT[5].replace("(1)", "(0)"), "divides the index by K"),
    (6, RIGHT[6].replace("/ ((", "* (("), "multiplies by the penalty"),
    (6, "return log_probs / lengths**alpha", "divides by n^alpha"),
    (6, RIGHT[6] + " + 1", "at index (0,), where -1 is expected"),
    (6, "return 0.5", "returns 0.5, which is not a tensor"),
    (6, "raise NotImplementedError", "is not written yet"),
]  # fmt: skip


def write_solution(number: int, body: str, folder: Path) -> None:
    template = (TEMPLATES / f"exercise_{number}.py").read_text(encoding="utf-8")
    text = "import torch\n" + template.replace("raise NotImplementedError", body)
    (folder / f"exercise_{number}.py").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("number", EXERCISES)
def test_exercises_accept_the_right_answer(number: int, tmp_path: Path) -> None:
    assert check(number, tmp_path).startswith(f"wrote {tmp_path}/exercise_{number}.py: write the")
    write_solution(number, RIGHT[number], tmp_path)
    assert check(number, tmp_path).startswith(f"exercise {number} is right; now look at ")


@pytest.mark.parametrize(("number", "body", "fault"), FAULTS)
def test_exercises_name_the_fault(number: int, body: str, fault: str, tmp_path: Path) -> None:
    write_solution(number, body, tmp_path)
    with pytest.raises(UserError) as raised:
        check(number, tmp_path)
    assert f"exercise_{number}.py: {EXERCISES[number].name} " in str(raised.value)
    assert fault in str(raised.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return undefined", ", line 9: NameError: name 'undefined' is not defined"),
        ("return (", ", line 9: '(' was never closed"),
    ],
)
def test_errors_of_an_answer_name_the_line(body: str, message: str, tmp_path: Path) -> None:
    write_solution(2, body, tmp_path)
    with pytest.raises(UserError, match=re.escape(f"exercise_2.py{message}")):
        check(2, tmp_path)


def test_every_fault_is_reachable_and_named_in_one_way() -> None:
    for exercise in EXERCISES.values():
        found = {fault: exercise.fault(wrong) for fault, wrong in exercise.wrong.items()}
        assert {name: fault for name, fault in found.items() if name != fault} == {}


def test_an_unknown_exercise_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="exercise=7: the lesson has the exercises 1 to 6"):
        check(7, tmp_path)


def test_the_lesson_names_every_exercise() -> None:

    sections = TEXT.split("\n## ")
    for number, exercise in EXERCISES.items():
        name = f"**Exercise {number}**: write `{exercise.name}`"
        assert name in sections[int(exercise.sections.split()[-1])]
