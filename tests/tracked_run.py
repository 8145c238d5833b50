"""Trains a tiny run with all trackers; a process of its own, because trackers keep global state.

python -m tests.tracked_run OUTPUTS CORPUS
"""

import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.base.log import set_up_logging
from nmt.config import Config, TrackingConfig, WandbConfig
from tests.runs import run
from tests.support import tiny_config


def tracked_config(outputs: Path) -> Config:
    """Return a run of a sweep with all trackers."""
    config = tiny_config(outputs)
    return replace(
        config,
        tracking=TrackingConfig(wandb=WandbConfig(enabled=True, project="mine"), tensorboard=True),
        run=replace(config.run, name="rates", folder=str(outputs / "sweeps" / "rates" / "seed=1")),
    )


def refuse_other_hosts(outputs: Path) -> None:
    """Record and refuse connections, except those to processes of this machine."""
    connect = socket.socket.connect

    def checked(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "localhost"):
            with (outputs / "connections.txt").open("a") as out:
                out.write(f"{address}\n")
            raise ConnectionRefusedError(address)
        connect(self, address)

    socket.socket.connect = checked  # type: ignore[method-assign]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    refuse_other_hosts(folder)
    config = tracked_config(folder)
    set_up_logging(config.run_folder / "train.log")
    run(config, Path(sys.argv[2]))
