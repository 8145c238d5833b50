"""Lines of code of each package, beside the planned maximum.

    python -m benchmarks.size

Docstrings, comments, blank lines and imports do not count. The generated corpus, in folders named
`phrasebook`, has rows of its own. docs/decisions/0025-size.md says what the figures mean.
"""

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import print_table

ROOT = Path(__file__).parents[1]

BUDGETS = {
    "nmt.cli": 700,
    "nmt.server": 800,
    "nmt.runs": 900,
    "nmt.evaluation": 1_350,
    "nmt.training": 1_600,
    "nmt.exchange": 1_700,
    "nmt.tracking": 400,
    "nmt.documents": 500,
    "nmt.translation": 1_500,
    "nmt.trained_model": 150,
    "nmt.model": 1_150,
    "nmt.search": 700,
    "nmt.metrics": 500,
    "nmt.data": 600,
    "nmt.tokenizer": 100,
    "nmt.config": 650,
    "nmt.base": 600,
    "nmt": 14_000,
    "data_prep": 2_500,
    "tests": 13_500,
}
"""Planned maximum by package; that of `nmt` is for all of it."""

_PHRASEBOOK = "phrasebook"
_LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}


def count_code(text: str) -> int:
    """Count the lines of a module, without docstrings, comments, blank lines and imports."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            assert isinstance(node, ast.stmt)
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def _is_docstring(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def packages() -> Iterator[tuple[str, int]]:
    """Yield the name and the lines of code of each package, and of `nmt` as a whole."""
    nmt = ROOT / "nmt"
    for path in sorted(nmt.iterdir()):
        if path.suffix == ".py" or (path / "__init__.py").is_file():
            name = "nmt.__init__" if path.stem == "__init__" else f"nmt.{path.stem}"
            yield name, _count(path)
    yield "nmt", _count(nmt)
    for name in ("data_prep", "tests"):
        parts = [path for path in (ROOT / name).rglob(_PHRASEBOOK) if path.is_dir()]
        phrasebook = sum(map(_count, parts))
        yield name, _count(ROOT / name) - phrasebook
        yield f"{name}, {_PHRASEBOOK}", phrasebook
    yield "benchmarks", _count(ROOT / "benchmarks")


def _count(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*.py")
    return sum(count_code(file.read_text(encoding="utf-8")) for file in files)


def main() -> None:
    """Run the benchmark."""
    rows = []
    for name, lines in packages():
        budget = BUDGETS.get(name)
        over = f"{lines - budget:+,}" if budget is not None else ""
        rows.append([name, f"{lines:,}", f"{budget:,}" if budget is not None else "", over])
    print_table("Lines of code", ["package", "lines", "budget", "difference"], rows)


if __name__ == "__main__":
    main()
