"""Every preset in conf/ composes, validates and goes through YAML and back."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep
from omegaconf import DictConfig

from nmt.cli.compose import CONFIG_FOLDER, to_config
from nmt.config import Config, OptimizerConfig, from_mapping, load_config, save_config, to_plain

GROUPS = sorted(path.name for path in CONFIG_FOLDER.iterdir() if path.is_dir())
PRESETS = [
    f"{group}={path.stem}"
    for group in GROUPS
    if group not in ("experiment", "sweep", "cluster")
    for path in sorted((CONFIG_FOLDER / group).glob("*.yaml"))
]
EXPERIMENTS = sorted(path.stem for path in (CONFIG_FOLDER / "experiment").glob("*.yaml"))
SWEEPS = sorted(path.stem for path in (CONFIG_FOLDER / "sweep").glob("*.yaml"))


def composed(*overrides: str, with_hydra: bool = False) -> DictConfig:
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        return compose("config", list(overrides), return_hydra_config=with_hydra)


def checked(overrides: list[str], folder: Path) -> Config:
    """The configuration, after it went through plain values and through YAML."""
    config = to_config(composed(*overrides))
    assert from_mapping(Config, to_plain(config), "test") == config
    save_config(config, folder / "config.yaml")
    assert load_config(Config, folder / "config.yaml") == config
    return config


def test_every_group_has_presets() -> None:
    names = {"corpus", "tokenizer", "model", "optimizer", "schedule", "batching", "training"}
    assert set(GROUPS) == names | {
        "cleaning",
        "decoding",
        "tracking",
        "experiment",
        "sweep",
        "cluster",
    }
    assert EXPERIMENTS
    assert SWEEPS


# Values that only the user knows.
REQUIRED = {
    "corpus=folder": ["corpus.path=DIR"],
    "corpus=opus": ["corpus.opus=Books/v1"],
    "experiment=own_text": ["corpus.path=DIR", "corpus.direction=en-fr"],
    "experiment=parsing_wsj": ["corpus.path=DIR"],
}


@pytest.mark.parametrize("preset", [*PRESETS, *(f"experiment={name}" for name in EXPERIMENTS)])
def test_a_preset_composes_validates_and_round_trips(preset: str, tmp_path: Path) -> None:
    group, _, name = preset.partition("=")
    required = REQUIRED.get(preset, [])
    if "override /corpus: folder" in (CONFIG_FOLDER / group / f"{name}.yaml").read_text():
        required = [*required, "corpus.path=DIR"]
    config = checked([preset, *required], tmp_path)
    if group == "experiment":
        assert config.run.name == name  # two experiments must not share a run folder
        assert config.batching.target_tokens_per_update <= 25_000


@pytest.mark.parametrize("sweep", SWEEPS)
def test_every_value_of_a_sweep_fits_the_default_experiment(sweep: str, tmp_path: Path) -> None:
    if sweep == "search":
        pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    experiment = "laptop_scale" if sweep == "table3" else "phrasebook_en_de"
    chosen = [f"experiment={experiment}", f"sweep={sweep}"]
    whole = composed(*chosen, with_hydra=True)
    assert whole.hydra.sweeper.params
    for key, space in whole.hydra.sweeper.params.items():
        values = OverridesParser.create().parse_override(f"{key}={space}").value()
        is_interval = isinstance(values, IntervalSweep)
        tried = [values.start, values.end] if is_interval else list(values.list)
        found = [checked([*chosen, f"{key}={value}"], tmp_path) for value in tried]
        assert len(found) > 1
        assert all(first != second for first, second in pairwise(found))


def test_a_cluster_submits_each_combination(tmp_path: Path) -> None:
    overrides = ["cluster=slurm", "experiment=wmt14_en_de_base"]
    launcher = composed(*overrides, with_hydra=True).hydra.launcher
    assert launcher._target_.endswith("SlurmLauncher")
    assert (launcher.nodes, launcher.tasks_per_node, launcher.gpus_per_node) == (1, 1, 8)
    config = checked(overrides, tmp_path)
    assert config.training.num_processes == launcher.gpus_per_node


def test_a_job_runs_in_another_process(tmp_path: Path) -> None:
    """By the launcher of SLURM's kind that needs no SLURM: what a job does has to be pickled."""
    small = (
        "model=tiny training.num_threads=1 batching.max_source_length=16"
        " batching.max_target_length=16 batching.target_tokens_per_update=32"
        " batching.tokens_per_micro_batch=32 tokenizer.vocabulary_size=200"
    )
    command = [sys.executable, "-m", "nmt", "train", "--multirun", "training.seed=1"]
    command += ["hydra/launcher=submitit_local", f"run.outputs={tmp_path}", "run.name=sent"]
    command += ["run.dry_run=true", *small.split()]
    sent = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert sent.returncode == 0, sent.stderr
    assert list(tmp_path.iterdir()) == []  # a failed job would end the command with another status


@pytest.mark.parametrize(
    ("name", "width", "heads", "pieces", "dropout"),
    [
        ("wmt14_en_de_base", 512, 8, 37_000, 0.1),
        ("wmt14_en_de_big", 1024, 16, 37_000, 0.3),
        ("wmt14_en_fr_base", 512, 8, 32_000, 0.1),
        ("wmt14_en_fr_big", 1024, 16, 32_000, 0.1),
    ],
)
def test_the_experiments_of_the_paper_have_its_values(
    name: str, width: int, heads: int, pieces: int, dropout: float
) -> None:
    config = to_config(composed(f"experiment={name}"))
    model = config.model
    assert (model.width, model.num_heads, model.dropout) == (width, heads, dropout)
    assert model.feed_forward_width == 4 * width
    assert (model.num_encoder_layers, model.num_decoder_layers) == (6, 6)
    assert config.tokenizer.vocabulary_size == pieces
    assert config.training.label_smoothing == 0.1
    decoding, is_big = config.decoding, name.endswith("big")
    assert (decoding.beam_size, decoding.length_penalty) == (4, 0.6)
    assert (decoding.max_length_ratio, decoding.max_length_offset) == (1, 50)
    assert config.optimizer == OptimizerConfig(max_gradient_norm=0)
    training = config.training
    assert (training.max_updates, training.average_checkpoints) == (
        (300_000, 20) if is_big else (100_000, 5)
    )
    # 10 minutes between checkpoints; an update took 1.0 or 0.4 seconds (section 5.2).
    assert training.validate_every * (1.0 if is_big else 0.4) == 600
    assert (config.optimizer.beta1, config.optimizer.beta2) == (0.9, 0.98)
    assert config.optimizer.epsilon == 1e-9
    schedule = config.schedule  # equation 3
    assert (schedule.name, schedule.warmup_updates) == ("inverse_square_root", 4000)
    assert schedule.peak_learning_rate == pytest.approx((width * 4000) ** -0.5, rel=0.01)
    assert config.batching.target_tokens_per_update == 25_000


def test_presets_instantiate_no_class() -> None:
    for path in CONFIG_FOLDER.rglob("*.yaml"):
        if path.name != "train.yaml":  # the callbacks of Hydra itself
            assert "_target_:" not in path.read_text(encoding="utf-8")
