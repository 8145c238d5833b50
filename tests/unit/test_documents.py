"""README, guides and reference: links lead somewhere, commands and code run."""

import importlib.util
import re
import shlex
from code import InteractiveInterpreter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hydra
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins

from data_prep.ledger import LEDGER_FILE
from data_prep.terminology import LEXICON_FILE
from nmt.base import layout
from nmt.base.errors import UserError
from nmt.cli.application import CONFIG_FOLDER, VERSION_BASE, from_composed
from nmt.cli.hydra_errors import hydra_utils
from nmt.cli.main import COMMANDS, imported
from nmt.config import Config
from nmt.runs.sweep import RANKING_FILE
from nmt.trained_model import TrainedModel, save_trained_model
from nmt.training.checkpoint import MICRO_BATCH_SIZE_FILE, STATE_FILE
from tests import make
from tests.namespaces import ROOT

OTHERS = ["outputs/README.md", "data_prep/phrasebook/README.md"]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *(ROOT / o for o in OTHERS)])
# Documents with instructions for users.
FOLDERS = (ROOT / "docs" / "guides", ROOT / "docs" / "reference")
USERS = [path for path in DOCUMENTS if path.name == "README.md" or path.parent in FOLDERS]

BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def blocks(document: Path, kind: str) -> list[str]:
    found = BLOCK.finditer(document.read_text(encoding="utf-8"))
    return [block["code"] for block in found if block["kind"] == kind]


def without_blocks(document: Path) -> str:
    return BLOCK.sub("", document.read_text(encoding="utf-8"))


def anchors(document: Path) -> set[str]:
    """The anchors of the headings, as in GitHub and in the pages of `make docs`."""
    titles = HEADING.findall(without_blocks(document))
    texts = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles)
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in texts}


def dead_links(document: Path) -> list[str]:
    """The links of a document to files or headings that do not exist."""
    dead = []
    for link in LINK.findall(re.sub(r"`[^`]+`", "`", without_blocks(document))):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_to_files_and_headings_that_exist(document: Path) -> None:
    assert dead_links(document) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text("# A `b_c`: d, *e*\n\n```sh\n# no heading\n```\n")
    good = "[a](other.md) [b](other.md#a-b_c-d-e) [c](#own) `[d](e)` [f](https://example.org)"
    document = tmp_path / "document.md"
    document.write_text(f"# Own\n{good}\n[g](no.md) [h](other.md#no-heading) [i](#other)\n")
    assert dead_links(document) == ["no.md", "other.md#no-heading", "#other"]


def test_code_names_documents_that_exist() -> None:
    folders = ("nmt", "data_prep", "benchmarks", "conf", "deploy", "docs")
    kinds = {".py", ".yaml", ".html", ".jinja", ".toml", ".service"}
    paths = [ROOT / "Makefile", *(path for name in folders for path in (ROOT / name).rglob("*"))]
    named = [
        (str(path.relative_to(ROOT)), name)
        for path in paths
        if path.suffix in kinds or path.name in ("Makefile", "Dockerfile")
        for name in re.findall(r"\bdocs/[\w/.-]+\.md\b", path.read_text(encoding="utf-8"))
    ]
    assert len(named) > 3
    assert [each for each in named if not (ROOT / each[1]).exists()] == []


def test_files_and_folders_are_described() -> None:
    names = {
        str(value) for key, value in vars(layout).items() if key.endswith(("_FILE", "_FOLDER"))
    }
    names |= {LEDGER_FILE, LEXICON_FILE, MICRO_BATCH_SIZE_FILE, RANKING_FILE, STATE_FILE}
    text = (ROOT / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
    assert len(names) > 20
    assert {name for name in names if name not in text} == set()


def test_documents_are_short() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in DOCUMENTS}
    words = {path: len(text.split()) for path, text in texts.items()}
    assert sum(words[path] for path in USERS) <= 20_000
    assert sum(words[path] for path in DOCUMENTS if name_of(path) not in OTHERS) <= 45_000
    assert texts[ROOT / "README.md"].count("\n") <= 90
    lengths = {path.name: texts[path].count("\n") for path in USERS if path.parent == FOLDERS[0]}
    assert lengths
    assert {name: length for name, length in lengths.items() if length >= 120} == {}


# Programs that documents may name; what they get is not checked.
PROGRAMS = {
    *("cat", "cd", "comet-score", "cp", "curl", "diff", "docker", "echo", "eval", "export", "git"),
    *("grep", "gunzip", "head", "iconv", "jupytext", "key=$", "ls", "mkdir", "openssl", "paste"),
    *("pip", "pipx", "printf", "sacrebleu", "sbatch", "sha256sum", "source", "systemctl", "tail"),
    *("tar", "tensorboard", "unzip", "wandb", "wc", "zcat"),
}


def command_lines(block: str) -> Iterator[str]:
    """Yield the commands of a block of a console, each on one line."""
    lines = iter(block.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command = command[:-1] + next(lines)
            yield command


def simple_commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line of the shell, without redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    tokens = iter([*lexer, ";"])
    for word in tokens:
        if set(word) <= set("<>"):
            next(tokens)
        elif set(word) <= set("();|&"):
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):  # variables of the environment
                del words[0]
            if words:
                yield words
            words = []
        else:
            words.append(word)


def check_line(line: str, venv: Path) -> None:
    """Raise an error if a command of a line does not take its words."""
    for words in simple_commands(line):
        check_command(words, venv)


def check_command(words: list[str], venv: Path) -> None:
    """Raise an error if `make` or a command of the program does not take the words."""
    program, *arguments = words
    program = program.removeprefix(".venv/bin/")
    if program == "make":
        for inner in make.printed(*arguments, venv=venv):
            check_command(["python", *inner], venv)
    elif program == "nmt":
        check_keys(arguments)
    elif program in ("python", "torchrun") and "-m" in arguments:
        module, *rest = arguments[arguments.index("-m") + 1 :]
        if module == "nmt":
            check_keys(rest)
        else:
            assert importlib.util.find_spec(module), module
    else:
        assert program in {"python", *PROGRAMS}, program


def check_keys(words: list[str]) -> None:
    """Raise an error if a command does not take the keys and values; sweeps: the first of each."""
    name, *arguments = words
    if name in ("--help", "-sc"):
        return
    assert name in COMMANDS
    flags = hydra_utils.get_args_parser().parse_args(arguments)
    if flags.hydra_help or flags.config_dir or any("searchpath" in one for one in arguments):
        return  # they name configurations that only the user has
    command: Any = imported(name)
    overrides = OverridesParser.create().parse_overrides(flags.overrides)
    given = [
        f"{one.get_key_element()}={next(one.sweep_string_iterator())}"
        if one.is_sweep_override()
        else str(one.input_line)
        for one in overrides
    ]
    start, folder = hydra.initialize_config_dir, str(CONFIG_FOLDER)
    if not issubclass(command.kind, Config):  # a command without presets
        start, folder = hydra.initialize_config_module, "hydra.conf"
    with start(folder, version_base=VERSION_BASE):
        composed = hydra.compose(command.configuration, given)
    changes = {"corpus.path": "DIR"} if name == "adapt" else {}
    if not flags.help:
        from_composed(command.kind, composed, changes)


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    Plugins.instance()  # finds the plugins of Hydra once
    return make.fake_venv(tmp_path_factory.mktemp("fake"))


def test_there_are_commands_to_check() -> None:
    consoles = [block for document in USERS for block in blocks(document, "console")]
    assert sum(len(list(command_lines(console))) for console in consoles) > 50


@pytest.mark.parametrize("document", USERS, ids=name_of)
def test_commands_exist_and_take_their_keys(document: Path, venv: Path) -> None:
    for line in (line for block in blocks(document, "console") for line in command_lines(block)):
        try:
            check_line(line, venv)
        except Exception as error:
            raise AssertionError(f"{name_of(document)}: {line}") from error


@pytest.mark.parametrize("document", USERS, ids=name_of)
def test_commands_in_sentences_exist(document: Path) -> None:
    named = re.findall(r"`(make|nmt)\s+([a-z][a-z0-9-]*)", without_blocks(document))
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    known = {*(("make", name) for name in targets), *(("nmt", name) for name in COMMANDS)}
    assert {each for each in named if each not in known} == set()


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("make trian", AssertionError),
        ("make train GPU=2", AssertionError),
        ("echo a | make translate FILE=- ARGS=decoding.beam=3", Exception),
        ("nmt train model=huge", Exception),
        ("nmt train -m training.seed=x,1", UserError),
        ("A=b nmt train model.dropout=2 > log", UserError),
        ("python -m nmt translate", UserError),
        ("python -m benchmarks.nothing", AssertionError),
        ("mkae train", AssertionError),
    ],
)
def test_wrong_commands_are_found(line: str, error: type[Exception], venv: Path) -> None:
    with pytest.raises(error):
        check_line(line, venv)


def test_lines_are_divided_into_commands() -> None:
    block = "$ A=1 make b \\\n  C='d  e' | f > g && h  # i\noutput\n$ j 'k;\n"
    first, second = command_lines(block)
    assert list(simple_commands(first)) == [["make", "b", "C=d  e"], ["f"], ["h"]]
    assert second == "j 'k;"


READS = re.compile(  # files that a command reads
    r"\b(?:FILE|DATA|GENERAL|SOURCE|TARGET|MODEL|BASELINE|glossary|check|general_test|text"
    r"|\w+\.path|systems\.\w+)=([^\s\"]+)|\$ (?:cat|cp|head|paste) (?:-\w+ )*([^\s-]\S*)"
)
WRITES = re.compile(r"(?:>|\bOUT=|\bmkdir|\bclone .*) ?([\w./-]+)|\bcp .* ([\w./-]+)$")
RUNS = re.compile(r"\b(?:run\.name|EXPERIMENT)=(\w+)")
SHOWN = re.compile(r"^  ([\w./-]+)$|(outputs/[\w./-]+)")  # files in the output of a command


def matches(pattern: re.Pattern[str], text: str) -> list[str]:
    return [group for match in pattern.finditer(text) for group in match.groups() if group]


def unmade_files(guide: Path) -> tuple[list[str], list[str]]:
    """Return the files that a guide reads before they are written, and those that it writes.

    The guides that are linked above its first section come before it.
    """
    text = guide.read_text(encoding="utf-8")
    code = "".join(block["code"] for block in BLOCK.finditer(text)).replace("\\\n", "")
    links = re.findall(r"\]\(([\w-]+\.md)\)", text.split("\n## ")[0])
    made = [name for link in links for name in unmade_files(guide.parent / link)[1]]
    unmade = []
    for line in code.splitlines():
        if not line.startswith("$ "):
            made += matches(SHOWN, line)
            continue
        command = line.split("  # ")[0].rstrip()
        for name in matches(READS, command):
            start = re.split(r"[*{]", name)[0]
            is_made = any(one.startswith(start) or start.startswith(one) for one in made)
            if not (is_made or name.isupper()):
                unmade.append(name)
        made += matches(WRITES, command)
        made += (f"outputs/runs/{name}" for name in matches(RUNS, command))
    return unmade, ["-", *made]


GUIDES = [path for path in USERS if path.parent == FOLDERS[0]]


@pytest.mark.parametrize("guide", GUIDES, ids=name_of)
def test_guides_write_what_they_read(guide: Path) -> None:
    assert unmade_files(guide)[0] == []


def test_files_that_nothing_writes_are_found(tmp_path: Path) -> None:
    (tmp_path / "before.md").write_text("```console\n$ make a ARGS=run.name=b\n  c/d.tsv\n```\n")
    reads = "$ make e MODEL=outputs/runs/b DATA=c FILE=DIR\n$ e FILE=f \\\n MODEL=g > h\n$ cat h\n"
    guide = tmp_path / "guide.md"
    guide.write_text(f"[a](before.md)\n## J\n```console\n{reads}```\n")
    assert unmade_files(guide)[0] == ["f", "g"]


@pytest.mark.parametrize("document", [ROOT / "README.md", *GUIDES], ids=name_of)
def test_the_environment_is_activated_before_its_programs_run(document: Path) -> None:
    lines = [line for block in blocks(document, "console") for line in command_lines(block)]
    programs = [words[0] for line in lines for words in simple_commands(line)]
    own = {"nmt", "python", "tensorboard", "torchrun"}
    unactivated = programs[: programs.index("source")] if "source" in programs else programs
    assert own.isdisjoint(unactivated)


def raise_current(*_: object) -> None:
    raise  # noqa: PLE0704 - called where an exception is handled


@pytest.mark.parametrize(
    "document", [path for path in USERS if blocks(path, "python")], ids=name_of
)
def test_python_runs(
    document: Path, trained_model: TrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(document, "python"))
    Path("terms.tsv").write_text("cat\tKatze\n")
    for folder in re.findall(r'nmt\.load\("([^"]+)"', code):
        save_trained_model(trained_model, Path(folder), {})
    monkeypatch.setattr(InteractiveInterpreter, "showtraceback", raise_current)
    monkeypatch.setattr(InteractiveInterpreter, "showsyntaxerror", raise_current)
    assert InteractiveInterpreter().runsource(code, name_of(document), "exec") is False
