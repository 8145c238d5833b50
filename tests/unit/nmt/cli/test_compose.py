"""Configurations of experiments, and names of the folders of sweeps."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import MissingConfigException
from omegaconf import DictConfig

from nmt.base import system
from nmt.base.errors import UserError
from nmt.cli import compose
from nmt.cli.application import CONFIG_FOLDER, application
from nmt.cli.compose import compose_config, run_composed
from nmt.config import Config, checked_dataclass
from nmt.runs import multirun
from nmt.runs.job_names import folder_name
from tests.namespaces import ROOT

jobs: list[Config] = []


@application(Config, primary="train")
def composed(configuration: DictConfig) -> None:
    run_composed(jobs.append, configuration)


Run = Callable[..., list[Config]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command like `train`, which trains nothing, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(multirun.SweepCallback, "on_multirun_end", Mock())

    def run(*arguments: str) -> list[Config]:
        jobs.clear()
        monkeypatch.setattr(sys, "argv", ["nmt", *arguments])
        composed()
        return jobs

    return run


def test_the_folder_of_a_job_is_named_after_the_overrides_that_vary(run: Run) -> None:
    constant = ["experiment=phrasebook_en_de", "corpus.licence=a/b", "schedule.warmup_updates=5"]
    constant += ["corpus.mixing.weights={phrasebook: 1, b: 0.5}", "++corpus.sources.b.path='b,c'"]
    constant += ["model.num_heads=2", "training.max_updates=30,20", "training.max_updates=40"]
    found = run(*constant, "model.dropout=0.1,0.2", "--multirun", "training.seed=1,2")
    names = [f"model.dropout={d},training.seed={s}" for d in (0.1, 0.2) for s in (1, 2)]
    outputs = Path("outputs/sweeps/phrasebook_en_de")
    assert [job.run.folder for job in found] == [str(outputs / name) for name in names]
    assert {path.name for path in outputs.iterdir()} == {*names, "multirun.yaml"}
    assert {(job.corpus.licence, job.training.max_updates) for job in found} == {("a/b", 40)}
    assert [job.training.seed for job in found] == [1, 2, 1, 2]


def test_a_sweep_without_a_key_that_varies_has_one_folder(run: Run) -> None:
    [job] = run("-m", "model=tiny", "run.name=x")
    assert job.run.folder == "outputs/sweeps/x/all"


def test_keys_of_a_preset_vary(run: Run) -> None:
    found = run("-m", "sweep=vocabulary", "run.name=x", "model=tiny")
    names = [f"tokenizer.vocabulary_size={size}" for size in (2000, 4000, 8000, 16000)]
    assert [Path(job.run.folder).name for job in found] == names


def test_keys_that_the_user_excludes_stay_excluded(run: Run) -> None:
    key = "hydra.job.config.override_dirname.exclude_keys"
    [job] = run("-m", "training.seed=range(1,2)", f"{key}=[training.seed]", "run.name=x")
    assert job.run.folder == "outputs/sweeps/x/all"


@pytest.mark.parametrize(
    ("job", "other"),
    [
        ("corpus.name=c/d", "corpus.name=c_d"),
        (",".join(f"key_{i}=1" for i in range(60)), "x" * 200),
    ],
)
def test_folder_names_are_valid_and_different(job: str, other: str) -> None:
    first, second = folder_name(job), folder_name(other)
    assert first != second
    assert max(len(first), len(second)) < 200
    assert "/" not in first
    assert folder_name("corpus.name=c/d") == "corpus.name=c_d-9b48c03e"


def test_jobs_in_the_folder_of_hydra_have_whole_paths(run: Run, tmp_path: Path) -> None:
    [job] = run("-m", "hydra.job.chdir=true", "model=tiny")
    assert job.run.folder == str(tmp_path / "outputs/sweeps/run/all")
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize("argument", ["cluster=slurm", "sweep=peak_lr"])
def test_arguments_of_sweeps_need_multirun(argument: str, run: Run) -> None:
    with pytest.raises(UserError, match=f"{argument} has no effect without --multirun"):
        run(argument)


def test_the_folder_of_a_run_is_not_chosen(run: Run) -> None:
    with pytest.raises(UserError, match=r"run\.folder is set by sweeps; use run\.outputs and"):
        run("run.folder=elsewhere")


def test_a_missing_launcher_is_reported_with_the_remedy(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "find_spec", lambda name: None)
    overrides = ["hydra/launcher=joblib"]
    with (
        pytest.raises(
            UserError, match=r"hydra/launcher=joblib needs .*: make install-sweeps, or pip"
        ),
        compose.converted_hydra_errors(Config, None, overrides),
    ):
        raise MissingConfigException("", "hydra/launcher/joblib", ["basic"])


_PLUGINS = """
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper

class Backward(Sweeper):
    def __init__(self, seeds):
        self.seeds = seeds

    def setup(self, **parts):
        self.launcher = Plugins.instance().instantiate_launcher(**parts)

    def sweep(self, arguments):
        for number, seed in enumerate(self.seeds):
            self.launcher.launch([[*arguments, f"training.seed={seed}"]], number)

class Printing(Launcher):
    def setup(self, **parts):
        self.parts = parts

    def launch(self, job_overrides, initial_job_idx):
        setup_globals()
        print(initial_job_idx, job_overrides[0][-1])
        context, config = self.parts["hydra_context"], self.parts["config"]
        job = context.config_loader.load_sweep_config(config, list(job_overrides[0]))
        job.hydra.job.id = job.hydra.job.num = initial_job_idx
        folders = {"job_dir_key": "hydra.sweep.dir", "job_subdir_key": "hydra.sweep.subdir"}
        return [run_job(self.parts["task_function"], job, hydra_context=context, **folders)]

for kind, plugin in (("sweeper", Backward), ("launcher", Printing)):
    node = {"_target_": f"{__name__}.{plugin.__name__}"}
    ConfigStore.instance().store(f"own_{kind}", node, f"hydra/{kind}")
"""


def test_sweepers_and_launchers_of_other_packages_run_the_jobs(tmp_path: Path) -> None:
    package = tmp_path / "installed" / "hydra_plugins"
    package.mkdir(parents=True)
    (package / "of_a_test.py").write_text(_PLUGINS)
    code = f"import {__name__} as here; here.multirun.SweepCallback.on_multirun_end = here.Mock()"
    code += "; here.composed(); print(*(job.run.folder for job in here.jobs), sep='\\n')"
    plugins = ["hydra/sweeper=own_sweeper", "hydra/launcher=own_launcher"]
    ended = subprocess.run(
        [sys.executable, "-c", code, "-m", *plugins, "+hydra.sweeper.seeds=[2,1]", "run.name=toy"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{package.parent}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    folders = [f"outputs/sweeps/toy/training.seed={seed}" for seed in (2, 1)]
    expected = ["0 training.seed=2", "1 training.seed=1", *folders]
    assert ended.stdout.splitlines() == expected, ended.stderr


def test_an_error_of_a_launcher_ends_the_sweep_in_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # without SLURM
    with pytest.raises(UserError, match="ended early: RuntimeError: Could not detect"):
        run("--multirun", "cluster=slurm")


def test_keys_of_the_experiment_that_overrule_a_preset_are_reported(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("experiment=phrasebook_en_de", "model=base", "model.dropout=0.2", "cleaning=strict")
    [line] = capsys.readouterr().err.splitlines()
    assert "model=base: the experiment sets model.num_" in line
    assert "_layers=3 instead of 6" in line
    assert "dropout" not in line
    run("model=base")
    assert capsys.readouterr().err == ""
    shutil.copytree(CONFIG_FOLDER, tmp_path / "mine")
    own = tmp_path / "mine" / "experiment" / "own.yaml"
    own.write_text("# @package _global_\nmodel: {width: 64}\n")
    line = "model=base: the experiment sets model.width=64 instead of 512"
    for flags in ([f"hydra.searchpath=[file://{tmp_path}/mine]"], ["-cp", f"{tmp_path}/mine"]):
        run("experiment=own", "model=base", *flags)
        assert line in capsys.readouterr().err


def test_a_configuration_is_composed_inside_of_a_command_and_outside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: Sequence[str] = ["a=b", "${x}", "null", "1e3"]
    for name in names:
        config = compose_config(["experiment=own_text"], {"corpus.path": name, **DIRECTION})
        assert config.corpus.path == name
    found: list[Config] = []

    @application(Empty)
    def inner(arguments: object) -> None:
        found.append(compose_config(["experiment=own_text"], {"corpus.path": "x", **DIRECTION}))

    monkeypatch.setattr(sys, "argv", ["inner"])
    inner()
    assert found[0].corpus.path == "x"
    assert not GlobalHydra.instance().is_initialized()
    with pytest.raises(UserError, match=r"did you mean training\.max_updates"):
        compose_config(["training.max_update=5"])


DIRECTION = {"corpus.direction": "en-de"}


@checked_dataclass
class Empty:
    pass


def test_an_interpolation_that_leads_nowhere_is_one_sentence(run: Run) -> None:
    with pytest.raises(UserError, match="nope"):
        run("training.max_updates=${nope}")
