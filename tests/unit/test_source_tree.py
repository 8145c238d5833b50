"""No code of the project makes code of data: checked on the source itself."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("nmt", "data_prep", "benchmarks", "tests")

FORBIDDEN_MODULES = {
    "_pickle", "cloudpickle", "dill", "joblib", "marshal", "pickle", "runpy", "shelve",
}  # fmt: skip
FORBIDDEN_NAMES = {
    "__import__",
    "eval",
    "exec",
    "importlib.__import__",
    "importlib.import_module",
    "torch.hub.load",
    "torch.jit.load",
    "yaml.full_load",
    "yaml.full_load_all",
    "yaml.load",
    "yaml.load_all",
    "yaml.unsafe_load",
    "yaml.unsafe_load_all",
}
# Hydra's doors from a name to an object, under whichever module they are imported from.
FORBIDDEN_LAST_PARTS = {"instantiate", "get_class", "get_method", "get_object"}
FORBIDDEN_ARGUMENTS = {"allow_pickle": True, "weights_only": False}


def whole_name(node: ast.AST, imported: dict[str, str]) -> str:
    """`a.b.c` with `a` as it was imported; empty for anything that is not a dotted name."""
    if isinstance(node, ast.Name):
        return imported.get(node.id, node.id)
    if isinstance(node, ast.Attribute) and (first := whole_name(node.value, imported)):
        return f"{first}.{node.attr}"
    return ""


def imports(tree: ast.AST) -> tuple[dict[str, str], set[str]]:
    """What each imported name stands for, and the modules imported."""
    names: dict[str, str] = {}
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
            names |= {
                alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
            }
    return names, modules


def faults(source: str) -> list[str]:
    """What in a module could run what a file says, with its line."""
    tree = ast.parse(source)
    imported, modules = imports(tree)
    found = [f"import {name}" for name in modules if name.split(".")[0] in FORBIDDEN_MODULES]
    safe_loads = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and any(
            argument.arg == "weights_only"
            and isinstance(argument.value, ast.Constant)
            and argument.value.value is True
            for argument in node.keywords
        )
    }
    for node in ast.walk(tree):
        name = whole_name(node, imported)
        if (
            name in FORBIDDEN_NAMES
            or ("." in name and name.rpartition(".")[2] in FORBIDDEN_LAST_PARTS)
            or (name in {"torch.load", "torch.serialization.load"} and id(node) not in safe_loads)
        ):
            found.append(f"line {node.lineno}: {name}")  # type: ignore[attr-defined]
        if isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant):
            for argument, value in FORBIDDEN_ARGUMENTS.items():
                if node.arg == argument and node.value.value is value:
                    found.append(f"line {node.lineno}: {argument}={value}")
    return found


def test_no_module_can_run_what_a_file_says() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 100
    found = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in paths
        for fault in faults(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import torch\ntorch.load(path)",
        "import torch\ntorch.load(path, weights_only=False)",
        "import torch\ntorch.load(path, weights_only=chosen)",
        "import torch as t\nt.load(path)",
        "from torch import load as read\nread(path)",
        "import torch\nread = torch.load",
        "import yaml\nyaml.load(text, Loader=yaml.Loader)",
        "from yaml import unsafe_load\nunsafe_load(text)",
        "eval(text)",
        "def f():\n    exec(text)",
        "list(map(eval, texts))",
        "__import__(name)",
        "import importlib\nimportlib.import_module(name)",
        "from importlib import import_module as i\ni(name)",
        "import hydra\nhydra.utils.instantiate(config)",
        "from hydra.utils import instantiate\ninstantiate(config)",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
    ],
)
def test_each_way_to_run_it_is_seen(source: str) -> None:
    assert faults(source)


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.load(path, map_location='cpu', weights_only=True)",
        "import yaml\nyaml.safe_load(text)",
        "model.eval()",
        "import re\nre.compile(text)",
    ],
)
def test_what_is_harmless_is_let_be(source: str) -> None:
    assert faults(source) == []
