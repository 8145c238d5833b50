"""A training by `torchrun` on two hosts: network namespaces with a cable between them.

`play` runs in a process with its own network namespace (`unshare`).
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from nmt.base.files import write_json
from tests.namespaces import ROOT, Host

_MAX_SECONDS = 100
_ADDRESS = "10.77.0.1"


def _train(hosts: tuple[Host, Host], folder: Path, corpus: str) -> list[subprocess.Popen[bytes]]:
    """Run torchrun on both hosts; their output is appended to `1.log` and `2.log`."""
    commands = []
    for number, host in enumerate(hosts, start=1):
        # By default, torchrun compares names to find out which host keeps the store.
        is_host = int(host.address == _ADDRESS)
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"),
            *("--rdzv-backend=c10d", f"--rdzv-endpoint={_ADDRESS}:29400", "--rdzv-id=test"),
            *(f"--rdzv-conf=is_host={is_host}", f"--local-addr={host.address}"),
            *("--max-restarts=1", "-m", "tests.two_hosts", str(folder), corpus),
        ]
        environment = {
            **os.environ,
            "GLOO_SOCKET_IFNAME": "cable",
            "OMP_NUM_THREADS": "1",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        with host.inside(), (folder / f"{number}.log").open("ab") as out:
            started = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)
        commands.append(started)
    return commands


def play(corpus: str, work: str) -> None:
    """Train, with a killed worker and a stopped command; write the exit statuses to a file."""
    folder = Path(work)
    hosts = Host(1), Host(2)
    hosts[0].cable_to(hosts[1])
    for name in ("kill rank 1", "hold"):
        (folder / name).touch()
    commands = _train(hosts, folder, corpus)
    end = time.monotonic() + _MAX_SECONDS
    while not (folder / "held").exists():
        assert time.monotonic() < end, "update 9 is not reached"
        time.sleep(0.05)
    commands[0].send_signal(signal.SIGTERM)
    time.sleep(0.5)
    (folder / "hold").unlink()
    for command in commands:
        command.wait(_MAX_SECONDS)
    statuses = [command.wait(_MAX_SECONDS) for command in _train(hosts, folder, corpus)]
    write_json(folder / "statuses.json", statuses)


def main() -> None:
    """Train in a process of torchrun; files in the folder ask for failures."""
    from nmt.cli.common import run_command  # noqa: PLC0415
    from nmt.runs import train as run_module  # noqa: PLC0415 - before torch
    from nmt.training.trainer import Trainer  # noqa: PLC0415
    from tests.support import tiny_config  # noqa: PLC0415

    folder, corpus = map(Path, sys.argv[1:])
    step = Trainer._step

    def failing(trainer: Trainer, *arguments: Any) -> None:
        step(trainer, *arguments)
        update, process = trainer.state.update, trainer.process
        if update == 7 and process.rank == 1 and (folder / "kill rank 1").exists():
            (folder / "kill rank 1").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if update == 9 and process.is_main_process and (folder / "hold").exists():
            (folder / "held").touch()
            while (folder / "hold").exists():
                time.sleep(0.05)

    module: Any = run_module
    module.prepare_corpus = lambda _: corpus
    Trainer._step = failing  # type: ignore[method-assign]
    run_command(lambda: module.train(tiny_config(folder)) and None)


if __name__ == "__main__":
    main()
