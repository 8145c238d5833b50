"""Names of runs and groups for trackers."""

from dataclasses import replace
from pathlib import Path

import pytest

from nmt.config import RunConfig, TrackingConfig, WandbConfig
from nmt.tracking.names import group_name, is_sweep, project_name, run_label
from tests.support import tiny_config


@pytest.mark.parametrize(
    ("run", "names"),
    [
        (RunConfig(name="base"), (False, "base", None)),
        (RunConfig(name="base", outputs="/data/sweeps"), (False, "base", None)),
        (RunConfig(name="rates", folder="outputs/sweeps/rates/a=1"), (True, "a=1", "rates")),
        (RunConfig(name="rates", folder="elsewhere/a=1"), (True, "a=1", "rates")),
    ],
)
def test_runs_are_named_and_grouped_by_their_configuration(
    run: RunConfig, names: tuple[bool, str, str | None]
) -> None:
    config = replace(tiny_config(Path("outputs")), run=run)
    assert (is_sweep(config), run_label(config), group_name(config)) == names


def test_keys_come_before_the_environment_and_the_environment_before_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = replace(tiny_config(Path("outputs")), run=RunConfig(name="base"))
    swept = replace(base, run=RunConfig(name="rates", folder="outputs/sweeps/rates/a=1"))
    assert project_name("") == "nmt"
    for name in ("PROJECT", "NAME", "RUN_GROUP"):
        monkeypatch.setenv(f"WANDB_{name}", f"its {name}")
    found = [(run_label(config), group_name(config)) for config in (base, swept)]
    assert found == [("its NAME", "its RUN_GROUP"), ("its NAME a=1", "its RUN_GROUP")]
    assert project_name("") == "its PROJECT"
    wandb = WandbConfig(enabled=True, name="mine", group="ours")
    config = replace(base, tracking=TrackingConfig(wandb=wandb))
    assert (run_label(config), group_name(config), project_name("p")) == ("mine", "ours", "p")
