"""Every file is written by `nmt.base.files`, or inside a new temporary folder or file."""

import ast
import errno
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nmt.base.errors import DiskError
from nmt.base.files import append_text
from nmt.base.log import set_up_logging
from tests.unit.test_source_tree import ROOT

WRITERS = {
    *("write_text", "write_bytes", "savefig", "save_file", "savez", "savez_compressed", "copytree"),
    *("copyfile", "copy2", "move", "rename", "renames", "symlink_to", "hardlink_to", "extract"),
    *("extractall", "to_parquet", "to_csv", "write_table", "FileHandler", "mkstemp"),
}
# `.save(path)` and `dump(value, stream)` of these modules and classes.
SAVERS = {"torch.save", "onnx.save", "spec.save", "np.save", "json.dump", "yaml.dump", "os.replace"}

# Functions that write into a folder which their caller has just created: it is renamed as a whole,
# and no link in it can lead elsewhere. The last two write to memory.
ALLOWED = {
    "nmt/base/locks.py": {"open_plain"},  # refuses links
    "nmt/base/outputs.py": {"write"},
    "nmt/cli/attend.py": {"_write_images"},
    "nmt/cli/common.py": {"run_command"},  # /dev/null
    "nmt/exchange/argos.py": {"export"},
    "nmt/exchange/ctranslate2.py": {"export", "write"},
    "nmt/exchange/foreign_tokenizer.py": {"write_tokenizer"},
    "nmt/exchange/huggingface.py": {"export", "write_tokenizers"},
    "nmt/exchange/marian.py": {"_save_binary", "export", "open_arrays"},
    "nmt/exchange/onnx.py": {"export"},
    "nmt/runs/adapt.py": {"adapt"},
    "nmt/server/documents.py": {"_opened"},
    "nmt/training/checkpoint.py": {"_prune", "intact", "save"},  # of folders, and to a stream
    "data_prep/clean_shard.py": {"clean_shard"},
    "data_prep/prepare.py": {"_build"},
    "data_prep/train_tokenizer.py": {"train_tokenizer"},
    "nmt/documents/office.py": {"translated"},
    "nmt/pages/html_page.py": {"draw_svg"},
}


def mode_of(call: ast.Call, first: int) -> str:
    values = [*call.args[first : first + 1], *(k.value for k in call.keywords if k.arg == "mode")]
    return "".join(str(value.value) for value in values if isinstance(value, ast.Constant))


def is_writer(call: ast.Call) -> bool:
    """Return whether a call writes, copies or renames a file that may exist or be a link."""
    name, text = ast.unparse(call.func), ast.unparse(call)
    if re.search(r"\btemporary\b|opener=no_link", text):
        return False
    last = name.rpartition(".")[2]
    if last == "open":
        first = 1 if name in {"open", "io.open", "gzip.open", "bz2.open", "lzma.open"} else 0
        return name == "os.open" or bool(set("wa+") & set(mode_of(call, first)))
    if last == "ZipFile":
        return bool(set("wa") & set(mode_of(call, 1)))
    is_image = last == "save" and "Image" in name
    return last in WRITERS or name in SAVERS or is_image


def writers(source: str) -> Iterator[tuple[str, int, str]]:
    """Yield the function or class, the line and the text of each call that writes a file."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, int, str]]:
        for child in ast.iter_child_nodes(node):
            inner = function
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = child.name
            if isinstance(child, ast.Call) and is_writer(child):
                yield inner, child.lineno, ast.unparse(child)
            yield from visit(child, inner)

    yield from visit(ast.parse(source), "")


def test_no_function_writes_files_in_its_own_way() -> None:
    found = []
    for folder in ("nmt", "data_prep"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            for function, line, call in writers(path.read_text(encoding="utf-8")):
                if name != "nmt/base/files.py" and function not in ALLOWED.get(name, set()):
                    found.append(f"{name}:{line} {function}: {call}")
    assert found == []


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("path.write_text('a')", True),
        ("open(path, 'w')", True),
        ("path.open(mode='ab')", True),
        ("figure.savefig(path)", True),
        ("torch.save(state, path)", True),
        ("json.dump(value, stream)", True),
        ("Image.fromarray(pixels).save(folder / name)", True),
        ("(temporary / name).write_text('a')", False),
        ("open(path, 'a', opener=no_link)", False),
        ("path.open('xb')", False),
        ("open(path)", False),
        ("path.open('rb')", False),
    ],
)
def test_writers_are_recognized(source: str, is_found: bool) -> None:
    assert bool(list(writers(source))) == is_found


def test_text_is_not_appended_through_a_link(tmp_path: Path) -> None:
    precious, link = tmp_path / "precious.txt", tmp_path / "log"
    precious.write_text("mine\n")
    link.symlink_to(precious)
    with pytest.raises(DiskError) as caught:
        append_text(link, "a\n")
    assert caught.value.number == errno.ELOOP
    with pytest.raises(OSError, match="symbolic links"):
        set_up_logging(link)
    assert precious.read_text() == "mine\n"
