"""Run the code of a document in one session, and compare its results with the document."""

import ast
import doctest
import re
from pathlib import Path
from typing import Any

import torch

# A heading, a code cell, or the result of the cell before it.
_PART = re.compile(
    r"^## (?P<title>[^\n]*)$|^```(?P<kind>python|text)\n(?P<text>.*?)^```$", re.M | re.S
)


class _Runner(doctest.DocTestRunner):
    """Prints results, and counts those that differ from the document."""

    def report_success(self, out: Any, _test: object, _example: object, got: str) -> None:
        out(got)


def run_cells(document: Path) -> tuple[int, dict[str, Any]]:
    """Run and print the code cells of a Markdown document in one session.

    A `text` block has the result of the `python` block before it: what the block prints, or the
    value of its last line.

    Returns:
        The number of results that differ from the document, and the variables of the session.
    """
    runner, text = _Runner(), document.read_text(encoding="utf-8")
    parts = list(_PART.finditer(text))
    session = doctest.DocTest([], {}, document.name, str(document), 0, None)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for part, following in zip(parts, [*parts[1:], None], strict=True):
            if part["title"]:
                print(f"\n{part['title']}")
            elif part["kind"] == "python":
                result = following["text"] if following and following["kind"] == "text" else ""
                print("\n" + part["text"], end="")
                first_line = text.count("\n", 0, part.start("text"))
                session.examples = _statements(part["text"], result, first_line)
                runner.run(session, clear_globs=False)
    torch.set_printoptions(profile="default")  # type: ignore[no-untyped-call]
    return runner.failures, session.globs


def _statements(code: str, result: str, first_line: int) -> list[doctest.Example]:
    """Return the statements of a cell, of which the last one has the result."""
    found = ast.parse(code).body
    sources = ["\n".join(code.split("\n")[node.lineno - 1 : node.end_lineno]) for node in found]
    results = [""] * (len(found) - 1) + [result]
    return [
        doctest.Example(source, expected, lineno=first_line + node.lineno - 1)
        for node, source, expected in zip(found, sources, results, strict=True)
    ]
