"""Commands as Hydra applications: grammar, flags, errors, help."""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from nmt.base.errors import UserError, disk_errno
from nmt.cli import adapt, backtranslate, import_model, score, subwords, translate
from nmt.cli.application import application, from_composed, group, schema
from nmt.cli.compose import CONFIG_FOLDER, to_config
from nmt.cli.main import main as nmt
from nmt.config import Config, DecodingConfig, checked_dataclass, leaf_fields, option

ROOT = Path(__file__).parents[4]
Color = StrEnum("Color", "red blue")
given: list[Any] = []


@checked_dataclass
class Arguments:
    file: str
    """The text."""
    count: int = option(1, ge=1, le=10)
    """The number of copies."""
    quick: bool = False
    """Whether to hurry."""
    color: Color | None = None
    """The color (default: by FILE)."""
    out: str = ""
    """Costs $HOME."""
    decoding: dict[str, Any] = group(DecodingConfig)
    """The search."""


@application(Arguments)
def plain(arguments: Arguments) -> None:
    given.append(arguments)
    given.append(os.getcwd())


@application(Config, primary="config", groups=("training",))
def composed(configuration: DictConfig) -> None:
    given.append(to_config(configuration))


@application(Config, primary="train")
def swept(configuration: DictConfig) -> None:
    given.append(to_config(configuration))


Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in an empty folder, and returns what it got."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.root, "handlers", [])  # Hydra replaces them
    monkeypatch.setattr(logging.root, "level", logging.WARNING)
    monkeypatch.setattr(logging.getLogger("nmt"), "propagate", False)

    def run(command: Callable[[], None], *arguments: str) -> Any:
        given.clear()
        monkeypatch.setattr(sys, "argv", ["nmt", *arguments])
        command()
        return given[0] if given else None

    return run


def test_values_are_converted_to_their_types(run: Run) -> None:
    keys = ["file=a", "count=3", "quick=true", "color=blue", "decoding.beam_size=8"]
    expected = Arguments(file="a", count=3, quick=True, color=Color.blue, decoding={"beam_size": 8})
    assert run(plain, *keys) == expected


NAMES = [
    *("Jürgen", " a b ", "a=b", "a,b", "[a]", "{a}", "$HOME", "${a}", "a(b)", "a#b", "null"),
    *("it's", 'q"q', "~a", "a\\", r"\'", r"\\${x}'\\", "12", "1e3", "C:\\x", "true", "a\nb"),
]


@pytest.mark.parametrize("name", NAMES)
def test_text_of_the_environment_is_taken_as_it_is(
    name: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILE", name)
    assert run(plain, "file=${oc.env:FILE}").file == name


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("fil=x", r"fil is not a key; did you mean file\?"),
        ("+zzz=x", "zzz is not a key; the keys are file, count, quick, color, out, decoding"),
        ("decoding.beam=3", r"did you mean decoding\.beam_size\?"),
        ("count=many", "count=many: Input should be a valid integer"),
        ("count=11", "count=11: Input should be less than or equal to 10"),
        ("quick=maybe", "quick=maybe: Input should be a valid boolean"),
        ("color=green", "color=green: Input should be 'red' or 'blue'"),
        ("news.en", "'news.en' is not key=value; --help lists the keys"),
        ("--count=3", "unrecognized arguments: --count=3; --hydra-help lists the flags"),
        ("file=", r"file= is missing \(for make: FILE=\): The text\."),
        ("file=1e3", "file=1000.0 is not text: quote it for Hydra and for the shell"),
        ("file=null", "file= is missing"),
        ("out=null", "out=None is not text: quote it"),
        ("out=[a]", "is not text: quote it"),
        ("file=a=b.en", r"""mismatched input '='.*for the shell: "file='a=b.en'"$"""),
        ("out=it's", r"""for the shell: "out='it\\'s'"$|for the shell: 'out="""),
        ("count=1,2", "use it as a list, use key=.value1,value2.* add --multirun"),
        ("file=${oc.env:NOWHERE}", "Environment variable 'NOWHERE' not found"),
        ("out=${nothing}", "Interpolation key 'nothing' not found"),
        ("+count=2", r"Could not append to config.*\+\+count=2"),
        ("hydra.foo=1", r"To append to your config use \+hydra\.foo=1"),
    ],
)
def test_an_invalid_argument_of_a_plain_command_is_reported(
    argument: str, message: str, run: Run
) -> None:
    with pytest.raises(UserError, match=message) as error:
        run(plain, "file=x", argument)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("training.max_update=5", r"did you mean training\.max_updates\?"),
        ("beam_size=3", r"did you mean decoding\.beam_size\?"),
        ("modle=small", r"did you mean model\?"),
        ("model=smal", r"model=smal is not a preset; did you mean small\?"),
        ("tracking=[wandb,tensorbord]", r"did you mean tensorboard\?"),
        ("model=null", "Config group override must be a string"),
        ("+training.foo=3", "training.foo is not a key; the keys of training are seed"),
        ("corpus.sources.a.pat=x", "corpus.sources.a.pat is not a key"),
        ("mine=x", "mine is not a key"),
        ("training.max_updates=wide", "training.max_updates=wide: Input should be"),
        ("hydra/launcher=slurm", "hydra/launcher=slurm is not a preset; the presets are basic"),
    ],
)
def test_an_invalid_argument_of_an_experiment_is_reported(
    argument: str, message: str, run: Run
) -> None:
    with pytest.raises(UserError, match=message):
        run(composed, "experiment=phrasebook_en_de", argument)


def test_the_grammar_of_hydra_is_that_of_the_keys(run: Run) -> None:
    keys = ["run.name='a${training.seed}'", "~training.max_updates", "++training.seed=3"]
    keys += ["corpus.sources.back.path=mono", "+corpus.mixing.weights={back: 2}"]
    config = run(composed, *keys, "corpus.name='a=b'")
    assert (config.run.name, config.training.seed, config.corpus.name) == ("a3", 3, "a=b")
    assert config.training.max_updates == Config().training.max_updates
    assert config.corpus.sources["back"].path == "mono"
    assert config.corpus.mixing.weights == {"back": 2}


def test_help_has_every_key_with_its_documentation_and_value(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        run(plain, "--help", "count=3")
    printed = capsys.readouterr().out
    assert printed.startswith(str(__doc__))
    assert "Presets" not in printed
    assert "  file=TEXT\n      The text.\n" in printed
    assert "  count=3\n      The number of copies.\n" in printed
    assert "  quick=false\n      Whether to hurry.\n" in printed
    assert "  color=red or blue\n      The color (default: by FILE).\n" in printed
    assert "  out=TEXT\n      Costs $HOME.\n" in printed
    assert "  decoding.KEY=VALUE\n      The search. Keys: beam_size, length_penalty," in printed


def test_help_shows_the_presets_and_the_values_of_the_experiment(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own_preset(tmp_path)
    with pytest.raises(SystemExit, match="0"):
        run(composed, "experiment=own", "-h", f"hydra.searchpath=[file://{tmp_path}]")
    printed = capsys.readouterr().out
    assert "  experiment=NAME\n      adapt, " in printed
    assert ", own, own_text," in printed
    assert "  training.max_updates=7\n" in printed
    assert "\n      Values: auto, float32, bfloat16.\n" in printed
    assert "model.width" not in printed


@pytest.mark.parametrize(
    ("module", "keys"),
    [
        (adapt, ["initial_model", "data"]),
        (backtranslate, ["model", "file"]),
        (import_model, ["folder"]),
        (score, ["source", "target"]),
        (subwords, ["text"]),
        (translate, ["file"]),
    ],
)
def test_an_error_for_a_missing_key_names_its_variable_of_the_makefile(
    module: Any, keys: list[str]
) -> None:
    kind = module._Arguments
    assert [key for key, field in leaf_fields(kind).items() if field.is_required()] == keys
    makefile = (ROOT / "Makefile").read_text()
    for key in keys:
        given = OmegaConf.merge(schema(kind), {other: "x" for other in keys if other != key})
        with pytest.raises(UserError, match=r"= is missing \(for make: [A-Z]+=\): .+") as caught:
            from_composed(kind, given)
        variable = str(caught.value).split("make: ")[1].split("=")[0]
        assert str(caught.value).startswith(f"{key}=")
        assert "\n" not in str(caught.value)
        forms = f"'{key}=$${{oc.env:{variable}}}'", f"$(call key,{key},{variable})"
        assert any(form in makefile for form in forms)


def own_preset(folder: Path) -> None:
    (folder / "experiment").mkdir()
    text = "# @package _global_\ntraining: {max_updates: 7}\n"
    (folder / "experiment" / "own.yaml").write_text(text)
    (folder / "mine.yaml").write_text("defaults: [config, _self_]\ntraining: {max_updates: 8}\n")


def test_configurations_outside_the_checkout_are_found(run: Run, tmp_path: Path) -> None:
    own_preset(tmp_path)
    given = ["experiment=own", f"hydra.searchpath=[file://{tmp_path}]"]
    for arguments in (given, ["experiment=own", "-cd", str(tmp_path)]):
        assert run(composed, *arguments).training.max_updates == 7
    for flag in ("--config-name", "-cn"):
        config = run(composed, "--config-dir", str(tmp_path), flag, "mine")
        assert config.training.max_updates == 8
    shutil.copytree(CONFIG_FOLDER, tmp_path / "whole")
    (tmp_path / "whole" / "experiment" / "only.yaml").write_text("run: {name: x}\n")
    assert run(composed, "-cp", str(tmp_path / "whole"), "+experiment@_global_=only")
    with pytest.raises(UserError, match="Additional config directory '/nowhere' not found"):
        run(composed, "-cd", "/nowhere")


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["--cfg", "job", "run.name=x"], ["run:", "  name: x"]),
        (["run.name=x", "-c", "job", "-p", "run"], ["# @package run", "name: x"]),
        (["--cfg", "hydra"], ["hydra:", "  run:", "    dir: ."]),
        (["--cfg", "all"], ["hydra:", "training:"]),
        (["run.name=a${training.seed}", "-c", "job", "--resolve"], ["  name: a1"]),
        (["--info", "searchpath"], ["| hydra    | pkg://hydra.conf"]),
        (["--info", "defaults-tree"], ["    config:", "      model: tiny"]),
        (["--hydra-help"], ["== Flags ==", "--multirun,-m"]),
    ],
)
def test_flags_of_hydra_show_the_configuration(
    arguments: list[str],
    lines: list[str],
    run: Run,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with suppress(SystemExit):  # after --hydra-help
        run(swept, *arguments)
    assert given == []
    printed = capsys.readouterr().out.splitlines()
    for line in lines:
        assert any(one.startswith(line) for one in printed), (line, printed)


def test_hydra_writes_only_to_a_folder_that_the_user_names(run: Run, tmp_path: Path) -> None:
    run(plain, "file=a")
    assert list(tmp_path.iterdir()) == []
    run(plain, "file=a", "hydra.run.dir=logs", "hydra.job.chdir=true", "hydra/job_logging=default")
    assert given[1] == str(tmp_path / "logs")
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    configs = {f"logs/.hydra/{name}.yaml" for name in ("config", "hydra", "overrides")}
    assert names == {*configs, "logs/test_application.log"}


def test_messages_go_where_hydra_is_told(tmp_path: Path) -> None:
    """In processes, because Hydra sets up the logging of the whole process."""
    code = (
        "import sys; from tests.unit.nmt.cli.test_application import plain, given;"
        "from nmt.base.log import set_up_logging; import logging;"
        "import nmt.base.log; plain(); set_up_logging();"
        "logging.getLogger('nmt').info('a message'); logging.getLogger('other').debug('a detail')"
    )
    printed = {}
    for key in ("hydra.verbose=true", "hydra/job_logging=default", "count=1"):
        command = [sys.executable, "-c", code, "file=a", key, f"hydra.run.dir={tmp_path}"]
        ended = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=True, env=environment()
        )
        printed[key] = ended.stdout, ended.stderr
    assert printed["count=1"] == ("", "a message\n")
    out, error = printed["hydra.verbose=true"]
    assert out == ""
    assert error.endswith("a message\nother: a detail\n")
    out, error = printed["hydra/job_logging=default"]
    assert error == ""
    assert out.endswith("[nmt][INFO] - a message\n")
    [log] = tmp_path.glob("*.log")
    assert log.read_text().endswith("[nmt][INFO] - a message\n")


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_a_sweep_of_a_plain_command_is_that_of_hydra(run: Run, tmp_path: Path) -> None:
    run(plain, "file=a", "-m", "count=1,2", f"hydra.sweep.dir={tmp_path / 'sweep'}")
    assert [one.count for one in given[::2]] == [1, 2]
    assert {path.name for path in (tmp_path / "sweep").iterdir()} == {"0", "1", "multirun.yaml"}


def test_a_full_trace_is_shown_if_the_user_asks_for_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for wanted in ("", "1"):
        monkeypatch.setenv("HYDRA_FULL_ERROR", wanted)
        with pytest.raises(UserError):
            run(plain, "fil=x")
        assert ("Traceback" in capsys.readouterr().err) == bool(wanted)
        assert os.environ["HYDRA_FULL_ERROR"] == wanted


def test_multirun_is_refused_under_torchrun(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(UserError, match="--multirun cannot be combined with torchrun"):
        run(plain, "file=a", "-m", "count=1,2")


def test_errors_of_a_command_are_raised_as_they_are(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    @application(Arguments)
    def failing(arguments: Arguments) -> None:
        raise ValueError(arguments.file)

    with pytest.raises(ValueError, match="a mistake") as caught:
        run(failing, "file=a mistake")
    assert disk_errno(caught.value) is None  # there is no circle of causes
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "line", "printed"),
    [
        ([], "", "  translate      Translate text: N lines in, N lines out.\n"),
        (["--help"], "", "  import         Import a model of Marian"),
        (["-sc", "query=bash"], "nmt sco", "score\n"),
        (["-sc", "query=bash"], "nmt train model=gn", "model=gnmt model=gnmt_small\n"),
        (["-sc", "query=bash"], "nmt train training.max_up", "training.max_updates=\n"),
        (["-sc", "query=bash"], "nmt subwords si", "side=\n"),
        (["--shell-completion", "install=bash"], "", "-F hydra_bash_completion nmt\n"),
        (["table3", "--cfg", "job", "-p", "run.name"], "", "run\n"),
    ],
)
def test_the_command_names_and_completes_its_commands(
    arguments: list[str],
    line: str,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["bin/nmt", *arguments])
    monkeypatch.setenv("COMP_LINE", line)
    nmt()
    assert printed in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "fix"), [("trian", "did you mean train?"), ("xyzzy", "the commands are train, ")]
)
def test_an_unknown_command_is_refused(
    name: str, fix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["nmt", name])
    with pytest.raises(SystemExit, match="2"):
        nmt()
    assert capsys.readouterr().err.startswith(f"error: '{name}' is not a command; {fix}")


def test_the_former_modules_name_the_command() -> None:
    command = [sys.executable, "-m", "nmt.cli.train"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "nmt.cli.COMMAND is now nmt COMMAND" in ended.stderr
