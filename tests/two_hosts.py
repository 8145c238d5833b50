"""Two hosts, made of network namespaces with a cable between them, that train by `torchrun`.

`play` runs in a process with its own network namespace (`unshare`) and starts every scene.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nmt.base.files import write_json
from tests.namespaces import ROOT, Host

_MAX_SECONDS = 100


def _train(
    host: Host, folder: Path, corpus: str, log: str, max_restarts: int = 0
) -> subprocess.Popen[bytes]:
    """Run torchrun on a host; its output goes to a file."""
    # Left to itself, torchrun compares names to find out which host keeps the store.
    is_host = int(host.address == "10.77.0.1")
    rendezvous = ["--rdzv-backend=c10d", "--rdzv-endpoint=10.77.0.1:29400", "--rdzv-id=test"]
    rendezvous.append(f"--rdzv-conf=is_host={is_host}")
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"),
        *(*rendezvous, f"--local-addr={host.address}", f"--max-restarts={max_restarts}"),
        *("-m", "tests.two_hosts", str(folder), corpus),
    ]
    environment = {
        **os.environ,
        "GLOO_SOCKET_IFNAME": "cable",
        "OMP_NUM_THREADS": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    with host.inside(), (folder / log).open("wb") as out:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)


def _hosts() -> tuple[Host, Host]:
    first, second = Host(1), Host(2)
    first.cable_to(second)
    return first, second


def _until(path: Path) -> None:
    end = time.monotonic() + _MAX_SECONDS
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not appear"
        time.sleep(0.05)


def undisturbed(folder: Path, corpus: str) -> list[int]:
    """Train a whole run."""
    commands = [_train(host, folder, corpus, f"{n}.log") for n, host in enumerate(_hosts(), 1)]
    return [command.wait(_MAX_SECONDS) for command in commands]


def worker_killed(folder: Path, corpus: str) -> list[int]:
    """Kill the process of the second host after the first checkpoint."""
    (folder / "kill rank 1").touch()
    commands = [_train(host, folder, corpus, f"{n}.log", 3) for n, host in enumerate(_hosts(), 1)]
    return [command.wait(_MAX_SECONDS) for command in commands]


def stopped(folder: Path, corpus: str) -> list[int]:
    """Send SIGTERM to torchrun on the first host, then run both commands again."""
    hosts = _hosts()
    commands = [_train(host, folder, corpus, f"{n}.log") for n, host in enumerate(hosts, 1)]
    (folder / "hold").touch()
    _until(folder / "held")
    commands[0].send_signal(signal.SIGTERM)
    time.sleep(0.5)
    (folder / "hold").unlink()
    for command in commands:
        command.wait(_MAX_SECONDS)
    again = [_train(host, folder, corpus, f"again_{n}.log") for n, host in enumerate(hosts, 1)]
    return [command.wait(_MAX_SECONDS) for command in again]


SCENES: tuple[Callable[[Path, str], list[int]], ...] = (undisturbed, worker_killed, stopped)


def play(corpus: str, work: str) -> None:
    """Run all scenes; each leaves its exit statuses in `statuses.json`."""
    for scene in SCENES:
        folder = Path(work) / scene.__name__
        folder.mkdir()
        write_json(folder / "statuses.json", scene(folder, corpus))


def main() -> None:
    """Train in a process of torchrun; files in the folder ask for trouble."""
    from nmt.cli.common import run_command  # noqa: PLC0415
    from nmt.runs import train as run_module  # noqa: PLC0415 - before torch
    from nmt.training.trainer import Trainer  # noqa: PLC0415
    from tests.support import tiny_config  # noqa: PLC0415

    folder, corpus = map(Path, sys.argv[1:])
    step = Trainer._step

    def troubled(trainer: Trainer, *arguments: Any) -> None:
        step(trainer, *arguments)
        if trainer.state.update != 7:
            return
        if (folder / "kill rank 1").exists() and trainer.process.rank == 1:
            (folder / "kill rank 1").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if (folder / "hold").exists() and trainer.process.is_main_process:
            (folder / "held").touch()
            while (folder / "hold").exists():
                time.sleep(0.05)

    module: Any = run_module
    module.prepare = lambda *_: corpus
    Trainer._step = troubled  # type: ignore[method-assign]
    run_command(lambda: module.train(tiny_config(folder)) and None)


if __name__ == "__main__":
    main()
