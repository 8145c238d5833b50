"""What no file of the project may contain: calls that execute the contents of files, old words."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from nmt.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
FOLDERS = ("nmt", "data_prep", "benchmarks", "docs", "tests")

FORBIDDEN_MODULES = {
    "_pickle", "cloudpickle", "dill", "marshal", "pickle", "runpy", "shelve",
}  # fmt: skip
FORBIDDEN_NAMES = {
    *("__import__", "eval", "exec", "importlib.__import__", "importlib.import_module"),
    "joblib.load",
    *("torch.hub.load", "torch.jit.load", "yaml.full_load", "yaml.full_load_all", "yaml.load"),
    *("yaml.load_all", "yaml.unsafe_load", "yaml.unsafe_load_all"),
}
# Hydra's functions that turn a name into an object, from any of its modules.
FORBIDDEN_LAST_PARTS = {"instantiate", "get_class", "get_method", "get_object"}
# The command `nmt` imports the module of a command from a table of its own.
ALLOWED = {("nmt/cli/main.py", "importlib.import_module")}
FORBIDDEN_ARGUMENTS = {"allow_pickle": True, "weights_only": False}

MAX_LINES = 300
RETIRED_WORDS = re.compile(
    r"begin_sum|from_first|wait_for_first|in its stead"
    r"|\b(mend(s|ed|ing)?|anew|rehearsals?|tally|tallies|nobody)\b",
    re.IGNORECASE,
)


def whole_name(node: ast.AST, imported: dict[str, str]) -> str:
    """Return `a.b.c` with `a` resolved by imports; "" if the node is not a dotted name."""
    if isinstance(node, ast.Name):
        return imported.get(node.id, node.id)
    if isinstance(node, ast.Attribute) and (first := whole_name(node.value, imported)):
        return f"{first}.{node.attr}"
    return ""


def imports(tree: ast.AST) -> tuple[dict[str, str], set[str]]:
    """Return the full name of each imported name, and the imported modules."""
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


def forbidden_calls(source: str) -> list[str]:
    """Return the calls in a module that could execute the contents of a file, with their lines."""
    tree = ast.parse(source)
    imported, modules = imports(tree)
    found = [f"import {name}" for name in modules if name.split(".")[0] in FORBIDDEN_MODULES]
    safe_loads = set()
    for node in ast.walk(tree):  # a call comes before the name of its function
        if isinstance(node, ast.Call):
            constants = {
                argument.arg: argument.value.value
                for argument in node.keywords
                if isinstance(argument.value, ast.Constant)
            }
            found += [
                f"line {node.lineno}: {argument}={value}"
                for argument, value in FORBIDDEN_ARGUMENTS.items()
                if constants.get(argument) is value
            ]
            loaders = [
                whole_name(argument.value, imported)
                for argument in node.keywords
                if argument.arg == "Loader"
            ]
            if constants.get("weights_only") is True or loaders == ["yaml.CBaseLoader"]:
                safe_loads.add(node.func)
        name = whole_name(node, imported)
        if (
            (name in FORBIDDEN_NAMES and node not in safe_loads)
            or ("." in name and name.rpartition(".")[2] in FORBIDDEN_LAST_PARTS)
            or (name in {"torch.load", "torch.serialization.load"} and node not in safe_loads)
        ):
            found.append(f"line {node.lineno}: {name}")  # type: ignore[attr-defined]
    return found


def test_no_module_can_execute_the_contents_of_a_file() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 100
    found = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in paths
        for fault in forbidden_calls(path.read_text(encoding="utf-8"))
        if (str(path.relative_to(ROOT)), fault.split()[-1]) not in ALLOWED
    ]
    assert found == []


HARMLESS = [
    "import yaml\nyaml.load(text, Loader=yaml.CBaseLoader)",
    "import torch\ntorch.load(path, map_location='cpu', weights_only=True)",
    "import yaml\nyaml.safe_load(text)",
    "model.eval()",
    "import re\nre.compile(text)",
]


@pytest.mark.parametrize(
    "source",
    [
        *HARMLESS,
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
def test_only_forbidden_calls_are_found(source: str) -> None:
    assert bool(forbidden_calls(source)) == (source not in HARMLESS)


def test_files_are_short() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for folder in ("nmt", "data_prep")
        for path in (ROOT / folder).rglob("*.py")
        if "phrasebook" not in path.parts
    }
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_no_file_uses_a_retired_word() -> None:
    # Tables of words of a language, such as those of the phrasebook, are no text of the project.
    paths = [
        path
        for folder in ("nmt", "data_prep", "conf")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".yaml", ".jinja", ".html", ".css"}
        and "phrasebook" not in path.parts
        and path.name != "sentence_ends.yaml"
    ]
    found = [
        f"{path.relative_to(ROOT)}, line {number}: {match[0]}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for match in RETIRED_WORDS.finditer(line)
    ]
    assert found == []


def test_commands_do_not_import_torch_before_they_run() -> None:
    # It takes seconds: for --help, and in each process that cleans or encodes.
    assert len(COMMANDS) > 10
    code = "import importlib, sys\n"
    for module in COMMANDS.values():
        code += f"importlib.import_module('nmt.cli.{module}')\n"
        code += f"assert 'torch' not in sys.modules, '{module}'\n"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stderr=PIPE, check=False)
    assert ended.stderr == b""
