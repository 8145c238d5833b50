"""Names of runs and groups for trackers."""

from dataclasses import replace
from pathlib import Path

import pytest

from nmt.config import RunConfig
from nmt.tracking.names import group_name, is_sweep, run_label
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
