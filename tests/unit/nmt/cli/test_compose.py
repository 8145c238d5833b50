import json
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser

from nmt.base import system
from nmt.base.errors import UserError
from nmt.cli import compose, train
from nmt.cli.compose import check_overrides, combination, compose_config, literal, run_composed
from nmt.cli.prepare import prepare


@pytest.fixture(autouse=True)
def command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    constant = ["experiment=x", "corpus.path=a/b", "tokenizer.joint=false"]
    monkeypatch.setattr(sys, "argv", ["train", "--multirun", "model.dropout=0.1,0.2", *constant])
    monkeypatch.delenv("NMT_COMMAND_LINE", raising=False)


def test_the_folder_of_a_job_is_named_after_the_overrides_that_vary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = ["model.dropout=0.1", "experiment=x", "corpus.path=a/b", "tokenizer.joint=False"]
    assert combination(job) == "model.dropout=0.1"
    assert combination(["b=1", "a=2"]) == combination(["a=2", "b=1"]) == "a=2,b=1"
    assert combination(["experiment=x"]) == "all"
    # A job of a scheduler has another command line.
    monkeypatch.setenv("NMT_COMMAND_LINE", json.dumps(sys.argv))
    monkeypatch.setattr(sys, "argv", ["-m", "submitit.core._submit", "outputs/slurm"])
    assert combination(job) == "model.dropout=0.1"


def test_the_form_of_a_constant_does_not_change_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["schedule.peak_learning_rate=5e-3", "corpus.mixing.weights={a: 1, b: 0.5}"]
    given += ["model.num_heads=2", "model.num_heads=2,3", "++corpus.sources.a.path='b,c'"]
    monkeypatch.setattr(sys, "argv", ["a=b/train", "-m", *given])
    [jobs] = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(given), None)
    assert [combination(job) for job in jobs] == ["model.num_heads=2", "model.num_heads=3"]


@pytest.mark.parametrize(
    ("job", "other"),
    [
        (["corpus.name=c/d"], ["corpus.name=c_d"]),
        ([f"key_{i}=1" for i in range(60)], [f"key_{i}={i // 59 + 1}" for i in range(60)]),
    ],
)
def test_folder_names_are_valid_and_different(job: list[str], other: list[str]) -> None:
    first, second = combination(job), combination(other)
    assert first != second
    assert max(len(first), len(second)) < 200
    assert "/" not in first


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("training.max_update=5", r"did you mean training\.max_updates\?"),
        ("beam_size=3", r"did you mean decoding\.beam_size\?"),
        ("modle=small", r"did you mean model\?"),
        ("model=smal", r"model=smal is not a preset; did you mean small\?"),
        ("model=null", "model=null is not a preset; the presets are base, big"),
        ("+training.foo=3", "training.foo is not a key; the keys of training are seed"),
        ("training.max_updates", "'training.max_updates' is not key=value"),
        ("--foo", "'--foo' is not key=value"),
    ],
)
def test_an_invalid_override_is_reported(argument: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_overrides(["experiment=phrasebook_en_de", argument])


def test_valid_overrides_are_accepted() -> None:
    check_overrides(["--multirun", "model=small,base", "experiment=null", "hydra.launcher.nodes=2"])
    check_overrides(["--cfg", "job", "corpus.hub_splits.test=a", "corpus.cleaning={max_words: 5}"])


@pytest.mark.parametrize(
    "name",
    [
        *("Jürgen", " a b ", "a=b", "a,b", "[a]", "{a}", "$HOME", "${a}", "a(b)", "a#b", "null"),
        *("it's", 'q"q', "~a", "a\\", r"\'", r"\\${x}'\\", "12", "1e3", "C:\\x"),
    ],
)
def test_text_is_taken_as_it_is(name: str) -> None:
    given = [f"corpus.path={name}", f"run.outputs={name}"]
    config = compose_config(
        ["experiment=own_text", "corpus.direction=en-de", *given, "run.name='a,b'"]
    )
    assert (config.corpus.path, config.run.outputs, config.run.name) == (name, name, "a,b")


def test_text_in_a_sweep_may_be_a_list(tmp_path: Path) -> None:
    folder = tmp_path / "a,b"
    given = ["--multirun", "model.dropout=0,0.1", "corpus.name=a,b", f"corpus.path={folder}"]
    assert literal(given) == given
    folder.mkdir()
    assert literal(given) == [*given[:3], f"corpus.path='{folder}'"] == literal(literal(given))


def test_a_value_of_the_wrong_type_is_reported_in_one_line() -> None:
    with pytest.raises(UserError) as error:
        compose_config(["training.max_updates=wide"])
    message = str(error.value)
    assert "training.max_updates=wide" in message
    assert "\n" not in message


def test_help_shows_the_values_of_the_experiment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["prepare", "--help", "experiment=phrasebook_en_de"])
    run_composed(prepare, groups=["tokenizer"])
    printed = capsys.readouterr().out
    assert printed.startswith("Prepare a corpus")
    assert "  tokenizer.vocabulary_size=3000\n" in printed
    assert "Number of pieces in a vocabulary" in printed
    assert "corpus.path" not in printed
    train.main()
    printed = capsys.readouterr().out
    assert printed.startswith("Prepare the corpus if needed, train")
    assert "  training.seed=" in printed


def test_a_missing_launcher_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"cluster=parallel needs .*: make install-sweeps, or pip"):
        check_overrides(["--multirun", "cluster=parallel"])


def test_accepted_keys_are_no_sweep() -> None:
    given = ["--multirun", "run.accept_changes=training.patience,training.max_updates"]
    assert "run.accept_changes='training.patience,training.max_updates'" in literal(given)


@pytest.mark.parametrize("argument", ["cluster=slurm", "sweep=peak_lr"])
def test_arguments_of_sweeps_need_multirun(
    argument: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train", argument])
    with pytest.raises(SystemExit):
        run_composed(Mock(), has_sweeps=True)
    assert "has no effect without --multirun" in capsys.readouterr().err
    with pytest.raises(UserError, match=f"{argument} has no effect without --multirun"):
        compose_config([argument])


@pytest.mark.parametrize("flag", ["--multirun", "-m", "--cfg"])
def test_flags_are_refused_without_a_command_line_of_hydra(flag: str) -> None:
    with pytest.raises(UserError, match=f"{flag} is not an argument of this command"):
        compose_config(["model=tiny", flag])


@pytest.mark.parametrize(
    ("arguments", "rank", "message"),
    [
        (["model=tiny", "--multirun"], None, "--multirun is an argument of nmt.cli.train only"),
        (["-m", "training.seed=1,2"], "0", "--multirun cannot be combined with torchrun"),
        (["run.folder=elsewhere"], None, "run.folder is set by sweeps; use run.outputs and"),
    ],
)
def test_arguments_that_cannot_be_combined_are_refused(
    arguments: list[str],
    rank: str | None,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["train", *arguments])
    if rank:
        monkeypatch.setenv("RANK", rank)
    with pytest.raises(SystemExit):
        run_composed(Mock(), has_sweeps=rank is not None)
    assert message in capsys.readouterr().err


def test_keys_of_the_experiment_that_overrule_a_preset_are_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["experiment=phrasebook_en_de", "model=base", "model.dropout=0.2", "cleaning=strict"]
    compose._report_overruled(given)
    [line] = capsys.readouterr().err.splitlines()
    assert "model=base: the experiment sets model.num_" in line
    assert "_layers=3 instead of 6" in line
    assert "dropout" not in line
    compose._report_overruled(["model=base"])
    assert capsys.readouterr().err == ""
