"""Training beside other toolkits, each in a program of its own.

A folder of peers has, for each, a driver that trains the model of `benchmarks.setting` on Multi30k
by that toolkit's own loop, in about 4,096 target tokens an update; `setup.sh PEER` makes its
environment below PEERS_DIR, which is `.peers` in that folder unless the environment says otherwise.
`duel.py` there starts all of them and lets one compute at a time, some seconds each, so that all
meet the same noise of the machine; a file tells each how long it stood still.

Run as a program, this module is what trains ours there: the real loop, from preparing the text on.
What it tells is what the peers tell: one line of JSON, added to the file that BENCH_LOG names.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.setting import bench_config, prepared, train, trainer_of
from nmt.cli.common import parse_arguments, run_command
from nmt.config import ScheduleConfig, ScheduleName
from nmt.data.loader import UpdateWork
from nmt.errors import UserError
from nmt.training.room import peak_bytes
from nmt.training.trainer import Trainer
from nmt.training.updater import Gradient

OURS = "ours"
_REFERENCE = "ref"  # its environment prepares the text for all
_WARM_UP = 15
_SECONDS_A_TURN = 8


@dataclass(frozen=True)
class Arguments:
    """`steps` updates, five at least, on a folder of aligned text; speed is that of two thirds of
    them at least, without the first up to 15."""

    steps: int = 60
    text: str = "../shared/data/multi30k"
    threads: int = 2


def installed(folder: Path) -> list[str]:
    """Peers that have an environment, the reference first; none where that has none."""
    if not _python(folder, _REFERENCE).is_file():
        return []
    others = ("hf", "opennmt", "joeynmt")
    return [_REFERENCE, *(peer for peer in others if _python(folder, peer).is_file())]


def measure(folder: Path, arguments: Arguments) -> dict[str, dict[str, Any]]:
    """What each program told, by name, ours first; of those that fail, what they said is printed.

    Args:
        folder: of the peers.
        arguments: of all of them.
    """
    peers = installed(folder)
    folder = folder.resolve()
    with tempfile.TemporaryDirectory() as made:
        log, results = Path(made) / "log", Path(made) / "results.jsonl"
        environment = os.environ | {
            "PEERS_DIR": str(_environments(folder)),
            "BENCH_DATA": f"{made}/data",
            "BENCH_OUT": f"{made}/out",
            "BENCH_TEXT": str(Path(arguments.text).resolve()),
            "BENCH_LOG": str(results),
            "BENCH_THREADS": str(arguments.threads),
            "OMP_NUM_THREADS": str(arguments.threads),
            "CUDA_VISIBLE_DEVICES": "",
        }
        run = [str(folder / "run.sh"), "data"]
        subprocess.run(["bash", *run], env=environment, check=False, stdout=subprocess.DEVNULL)
        jobs = {OURS: _ours(arguments)}
        for peer in peers:
            jobs[peer] = _theirs(folder, peer, arguments.steps, Path(made) / peer)
        duel = [sys.executable, str(folder / "duel.py"), "--slice", str(_SECONDS_A_TURN)]
        named = [f"{name}={shlex.join(command)}" for name, command in jobs.items()]
        subprocess.run([*duel, "--dir", str(log), *named], env=environment, check=False)
        lines = results.read_text(encoding="utf-8").splitlines() if results.is_file() else []
        by_name = {result["peer"]: result for result in map(json.loads, lines)}
        for name in jobs.keys() - by_name.keys():
            said = log / f"{name}.log"
            words = said.read_text(encoding="utf-8")[-2000:] if said.is_file() else ""
            print(f"{name} told nothing: {words}", file=sys.stderr)
    kept = ("tok_s", "tok_s_halves", "useful_share", "rss_mib", "all_steps")
    return {name: {key: by_name[name].get(key) for key in kept} for name in jobs if name in by_name}


def main() -> None:
    """Train ours, as `duel.py` has it."""
    arguments = parse_arguments(Arguments, str(__doc__))
    if arguments.steps < 5:
        raise UserError(f"steps={arguments.steps}: five at least")
    with tempfile.TemporaryDirectory() as folder:
        config = bench_config(arguments.text, Path(folder))
        config = replace(
            config,
            # Those of the peers.
            schedule=ScheduleConfig(
                name=ScheduleName.inverse_square_root, peak_learning_rate=1.5e-3, warmup_updates=100
            ),
            training=replace(
                config.training, max_updates=arguments.steps, validate_every=arguments.steps
            ),
        )
        corpus = prepared(config)
        result = _trained(trainer_of(config, corpus, arguments.threads))
    with Path(os.environ["BENCH_LOG"]).open("a", encoding="utf-8") as log:
        log.write(json.dumps(result) + "\n")


def _trained(trainer: Trainer) -> dict[str, Any]:
    """Watch a training, update by update."""
    ends: list[float] = []
    tokens: list[int] = []
    places: list[int] = []
    step = Trainer._step

    def watched(self: Trainer, work: UpdateWork, gradient: Gradient) -> None:
        step(self, work, gradient)
        ends.append(_own_time())
        tokens.append(work.num_target_tokens)
        places.append(sum(part.batch.target_output.numel() for part in work.micro_batches))

    Trainer._step = watched  # type: ignore[method-assign]
    train(trainer)

    def rate(first: int, last: int) -> float:
        return round(sum(tokens[first:last]) / (ends[last - 1] - ends[first - 1]), 1)

    begin, end = min(_WARM_UP, len(ends) // 3), len(ends)
    middle = begin + (end - begin) // 2
    return {
        "peer": OURS,
        "tok_s": rate(begin, end),
        "tok_s_halves": [rate(begin, middle), rate(middle, end)],
        "useful_share": round(sum(tokens[begin:]) / sum(places[begin:]), 3),
        "rss_mib": peak_bytes() >> 20,
        "all_steps": len(ends),
    }


def _own_time() -> float:
    """Seconds, without those in which this program was made to stand still."""
    clock = os.environ.get("BENCH_CLOCK")
    stopped = Path(clock).read_text(encoding="utf-8") if clock else ""
    return time.time() - float(stopped or 0)


def _ours(arguments: Arguments) -> list[str]:
    keys = (f"{key}={value}" for key, value in vars(arguments).items())
    return [sys.executable, "-m", "benchmarks.beside_peers", *keys]


def _theirs(folder: Path, peer: str, steps: int, saved: Path) -> list[str]:
    scripts = {_REFERENCE: "ref/nmt.py", "hf": "hf/marian.py"}
    script = folder / scripts.get(peer, f"{peer}/drive.py")
    command = [str(_python(folder, peer)), str(script), "train", "--steps", str(steps)]
    # The reference saves and validates only where it is told to.
    return command if peer == _REFERENCE else [*command, "--save", str(saved)]


def _python(folder: Path, peer: str) -> Path:
    return _environments(folder) / peer / "venv" / "bin" / "python"


def _environments(folder: Path) -> Path:
    return Path(os.environ.get("PEERS_DIR", folder / ".peers")).resolve()


if __name__ == "__main__":
    run_command(main)
