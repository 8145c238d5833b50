"""Two hosts, made of network namespaces and a cable between them that can be cut.

`play` runs in a process that has a network of its own already (`unshare`), imports everything once
and forks all others: each scene, the commands on its two hosts, and their workers. The scenes are
played at the same time, as most of each is waiting.
"""

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

from nmt.cli import train as train_module
from nmt.cli.common import run_command
from nmt.config import Config
from nmt.data.corpus import PreparedCorpus
from nmt.files import write_json
from nmt.training.distributed import Process
from nmt.training.trainer import Trainer
from tests.namespaces import Host, system
from tests.support import tiny_config

TIMEOUT = 6.0
"""training.timeout of all scenes, in seconds."""

PATIENCE = 14.0
"""training.rendezvous_timeout where a host gives up. Torch elastic forgets it after 15 seconds; the
other host, which comes to the rendezvous after TIMEOUT, has to wait beyond that."""

_FORK = multiprocessing.get_context("fork")
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def _fork(function: Callable[..., None], *arguments: Any) -> ForkProcess:
    def begin() -> None:
        system("prctl", _DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        function(*arguments)

    process = _FORK.Process(target=begin)
    process.start()
    return process


def _command(host: Host, config: Config, log: Path) -> ForkProcess:
    """Give the command `train` on a host; what it says goes to a file."""
    with host.inside():
        return _fork(_train, config, log)


def _commands(
    first: Host, second: Host, config: Config, folder: Path, prefix: str = ""
) -> tuple[ForkProcess, ForkProcess]:
    """Give it on both hosts; the logs are called 1.log and 2.log, with a prefix."""
    return (
        _command(first, config, folder / f"{prefix}1.log"),
        _command(second, config, folder / f"{prefix}2.log"),
    )


def _train(config: Config, log: Path) -> None:
    with log.open("wb", buffering=0) as out:
        for stream in (1, 2):
            os.dup2(out.fileno(), stream)
    run_command(lambda: _ignore(train_module.train(config)))


def _ignore(value: object) -> None:
    del value


def _outputs(config: Config) -> Path:
    return Path(config.run.outputs)


def let_updates_be_held() -> None:
    """Patch this program: the first process holds, or fails, after an update if a file asks."""
    step = Trainer._step

    def holding(trainer: Trainer, *arguments: Any) -> None:
        step(trainer, *arguments)
        asked = _outputs(trainer.config) / f"hold {trainer.progress.update}"
        if trainer.process.is_first and asked.exists():
            held = asked.rename(asked.with_name("held"))
            while held.exists():
                time.sleep(0.01)
        if trainer.process.is_first and asked.with_name("fail").exists():
            raise RuntimeError(f"made up at start {os.environ['TORCHELASTIC_RESTART_COUNT']}")

    Trainer._step = holding  # type: ignore[method-assign]


@contextmanager
def held_after(config: Config, update: int) -> Iterator[None]:
    """Hold the training after an update while the block runs."""
    held = _outputs(config) / "held"
    (_outputs(config) / f"hold {update}").touch()
    end = time.monotonic() + 40
    while not held.exists():
        assert time.monotonic() < end, f"update {update} is not reached"
        time.sleep(0.01)
    try:
        yield
    finally:
        held.unlink()


def _until_said(log: Path, words: str) -> None:
    end = time.monotonic() + 40
    while words not in log.read_text(encoding="utf-8"):
        assert time.monotonic() < end, f"{log}: never says: {words}"
        time.sleep(0.1)


def _status(process: ForkProcess, seconds: float = 60) -> int | None:
    process.join(seconds)
    return process.exitcode


def _two_hosts() -> tuple[Host, Host]:
    first, second = Host(1), Host(2)
    first.cable_to(second)
    return first, second


def _on_two_hosts(config: Config, **training: Any) -> Config:
    values = {
        "num_hosts": 2,
        "rendezvous": "10.77.0.1:29400",
        "max_restarts": 3,
        "timeout": TIMEOUT,
        **training,
    }
    return replace(config, training=replace(config.training, **values))


def one_machine(config: Config, folder: Path) -> Any:
    """Two processes of one machine, which has no network at all."""
    config = replace(config, training=replace(config.training, num_processes=2))
    return [_status(_command(Host(1), config, folder / "1.log"))]


def fails_twice(config: Config, folder: Path) -> Any:
    """Two processes of one machine, of which one fails, also when both are started again."""
    (folder / "fail").touch()
    training = replace(config.training, num_processes=2, max_restarts=1)
    return [_status(_command(Host(1), replace(config, training=training), folder / "1.log"))]


def undisturbed(config: Config, folder: Path) -> Any:
    """A whole run; the second command is given first."""
    first, second = _two_hosts()
    config = _on_two_hosts(config, max_restarts=0)
    later = _command(second, config, folder / "2.log")
    time.sleep(1.0)
    return [_status(_command(first, config, folder / "1.log")), _status(later)]


def cut(config: Config, folder: Path) -> Any:
    """The cable is out for a moment; later packets are lost for longer than processes wait."""
    first, second = _two_hosts()
    # Here the first process, which writes, is not on the host of the rendezvous.
    config = _on_two_hosts(config, rendezvous="10.77.0.2:29400")
    commands = _commands(first, second, config, folder)
    with held_after(config, 3):
        second.set_cable("down")
    time.sleep(1.0)
    second.set_cable("up")
    with held_after(config, 7):
        first.lose_packets_to(second)
        second.lose_packets_to(first)
    for log in ("1.log", "2.log"):
        _until_said(folder / log, "has lost another one")
    first.find(second)
    second.find(first)
    return [_status(command) for command in commands]


def given_up(config: Config, folder: Path) -> Any:
    """The cable stays out until the second host gives up; then its command is given again."""
    first, second = _two_hosts()
    config = _on_two_hosts(config, rendezvous_timeout=PATIENCE)
    here, there = _commands(first, second, config, folder)
    with held_after(config, 7):
        second.set_cable("down")
        began = time.monotonic()
    ended = _status(there)
    seconds = time.monotonic() - began
    second.set_cable("up")
    again = _status(_command(second, config, folder / "again.log"))
    return [_status(here), ended, again, seconds]


def killed(config: Config, folder: Path) -> Any:
    """The second host's command is killed, and given again."""
    first, second = _two_hosts()
    config = _on_two_hosts(config)
    here, there = _commands(first, second, config, folder)
    with held_after(config, 7):
        there.kill()
    again = _command(second, config, folder / "again.log")
    return [_status(here), _status(again)]


def rendezvous_killed(config: Config, folder: Path) -> Any:
    """The command on the host of the rendezvous is killed; then both are given again."""
    first, second = _two_hosts()
    config = _on_two_hosts(config)
    here, there = _commands(first, second, config, folder)
    with held_after(config, 7):
        here.kill()
    ended = _status(there)
    again = _commands(first, second, config, folder, "again_")
    return [ended, *map(_status, again)]


def stopped(config: Config, folder: Path) -> Any:
    """The command on the host of the rendezvous is told to end; then both are given again."""
    first, second = _two_hosts()
    config = _on_two_hosts(config)
    here, there = _commands(first, second, config, folder)
    with held_after(config, 7):
        here.terminate()
        time.sleep(0.5)
    ended = [_status(here), _status(there)]
    again = _commands(first, second, config, folder, "again_")
    return [*ended, *map(_status, again)]


def stays_alone(config: Config, folder: Path) -> Any:
    """Only one of the commands is ever given: in one pair of hosts here, in another one there."""
    config = _on_two_hosts(config, rendezvous_timeout=2.0)
    other = replace(config, run=replace(config.run, name="other"))
    (first, _), (_, second) = _two_hosts(), _two_hosts()
    began = time.monotonic()
    here = _command(first, config, folder / "1.log")
    there = _command(second, other, folder / "2.log")
    return [_status(here), _status(there), time.monotonic() - began]


SCENES = (
    *(one_machine, undisturbed, cut, given_up, killed, rendezvous_killed, stopped),
    *(stays_alone, fails_twice),
)


def play(corpus: str, work: str) -> None:
    """Play all scenes; each leaves its statuses in `statuses.json`, and what was said in logs."""
    # Not at the top: `nmt.cli` has to come before torch.
    import torch  # noqa: PLC0415

    from benchmarks.soak_ranks import fork_workers  # noqa: PLC0415

    tempfile.tempdir = work
    module: Any = train_module
    module.prepare = lambda *arguments: Path(corpus)
    fork_workers()
    let_updates_be_held()
    # What the first trainer of a process imports takes seconds: once for all that are forked.
    alone = Process(0, 1, torch.device("cpu"))
    Trainer(tiny_config(Path(work)), PreparedCorpus(Path(corpus)), alone)
    scenes = [_fork(_play, scene, Path(work) / scene.__name__) for scene in SCENES]
    with _nobody_left():
        assert [_status(scene, 100) for scene in scenes] == [0] * len(SCENES)


def _play(scene: Callable[[Config, Path], Any], folder: Path) -> None:
    folder.mkdir()
    with _nobody_left():
        write_json(folder / "statuses.json", scene(tiny_config(folder), folder))


@contextmanager
def _nobody_left() -> Iterator[None]:
    """Kill what still runs at the end: a process waits for those that it has forked."""
    try:
        yield
    finally:
        for process in multiprocessing.active_children():
            process.kill()
