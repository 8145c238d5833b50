"""Kill a training again and again, continue it, and compare with one that was left alone.

    python -m benchmarks.soak [kills=200] [signals=0] [troubles=0] [seed=1] [text=DIR]

A small model is trained on real text. Half of the kills fall at random moments, the other half at
named points (benchmarks/soak_points.py); each is a SIGKILL. `signals` sends so many SIGTERM and
SIGINT, in turn, in each phase besides, preparation included, and looks at the exit status and how
long it took. `troubles` lets one of two processes fail so often, in several ways, and looks how
long the others take to end; every second round the launcher starts them again. Every run is
continued to its end, and everything that it leaves is compared with what a run leaves that nobody
touched: weights, optimizer, counters, metrics, translations, scores. Two troubles are lived
through and change that: a refused update, and micro-batches that memory has halved.

Trainings are forked from a process that has imported everything, so that a start takes no seconds.
"""

import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.soak_points import PHASES, POINTS, Point
from benchmarks.soak_ranks import TROUBLES, fork_workers, is_lived_through, make_trouble
from benchmarks.soak_runs import OFTEN, Install, Run, contents, difference
from benchmarks.written import write_result
from nmt.cli.common import parse_arguments, run_command
from nmt.config import (
    BatchingConfig,
    Config,
    CorpusConfig,
    CorpusSource,
    DecodingConfig,
    ModelConfig,
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
    TokenizerConfig,
    TrainingConfig,
)
from nmt.files import read_lines, write_lines
from nmt.training.experiment import is_complete, read_result

_KILLS_A_RUN = 6


@dataclass(frozen=True)
class Arguments:
    """How many kills in all, signals a phase, troubles in all; `text` holds aligned text."""

    kills: int = 200
    signals: int = 0
    troubles: int = 0
    seed: int = 1
    text: str = "../shared/data/multi30k"
    threads: int = 2
    result: str = ""


@dataclass
class Row:
    """What happened in one phase or at one point."""

    strikes: int = 0
    lost_updates: int = 0
    runs: int = 0
    different: list[str] = field(default_factory=list)
    bad_exits: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def main() -> None:
    """Run the soak; leaves with 1 when anything was lost or differs."""
    arguments = parse_arguments(Arguments, str(__doc__))
    started = time.monotonic()
    # In the background a shell lets us ignore it, and so would the trainings that are sent it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked = {name: getattr(arguments, name) for name in ("kills", "signals", "troubles")}
    asked = {name: number for name, number in asked.items() if number}
    print(f"seed {arguments.seed}, {asked}", file=sys.stderr)
    rows: dict[str, Row] = defaultdict(Row)
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        config = _config(arguments, Path(folder))
        if arguments.kills or arguments.signals:
            soak = Soak(config, chance, rows)
            soak.kill_at_points(arguments.kills // 2)
            soak.kill_at_random_times(arguments.kills - arguments.kills // 2)
            soak.signal_in_phases(arguments.signals)
        if arguments.troubles or arguments.signals:
            training = replace(config.training, num_processes=2, num_threads=1)
            two = Soak(
                replace(config, training=training), chance, rows, "two processes", fork_workers
            )
            two.signal_in_phases(arguments.signals)
            two.trouble_processes(arguments.troubles)
        seconds = time.monotonic() - started
    _print(rows, seconds)
    path = Path(arguments.result) if arguments.result else None
    write_result(f"soak-{'-'.join(asked)}", _summary(arguments, rows, seconds), path)
    if any(row.lost_updates or row.different or row.bad_exits for row in rows.values()):
        raise SystemExit(1)


def _config(arguments: Arguments, folder: Path) -> Config:
    """A training of some seconds: four epochs, five validations, checkpoints that are pruned."""
    text = Path(arguments.text)
    corpus = CorpusConfig(num_train=1200, num_valid=16, num_test=16)
    if text.is_dir():
        sizes = {"train": 1200, "valid": 16, "test_2016_flickr": 16}
        for split, size in sizes.items():
            for language in ("en", "de"):
                lines = read_lines(text / f"{split}.{language}")[:size]
                write_lines(folder / "text" / f"{split}.{language}", lines)
        corpus = CorpusConfig("soak", CorpusSource.folder, path=str(folder / "text"))
    return Config(
        corpus=corpus,
        tokenizer=TokenizerConfig(vocabulary_size=600),
        model=ModelConfig(
            width=32,
            num_encoder_layers=1,
            num_decoder_layers=1,
            num_heads=2,
            feed_forward_width=64,
            dropout=0.1,
        ),
        optimizer=OptimizerConfig(),
        schedule=ScheduleConfig(peak_learning_rate=5e-3, warmup_updates=10),
        batching=BatchingConfig(
            target_tokens_per_update=2048,
            tokens_per_micro_batch=512,
            max_source_length=64,
            max_target_length=64,
        ),
        training=TrainingConfig(
            max_updates=40,
            validate_every=8,
            average_checkpoints=2,
            log_every=3,
            num_threads=arguments.threads,
        ),
        decoding=DecodingConfig(beam_size=2, max_length_ratio=1.0, max_length_offset=2),
        run=RunConfig(outputs=str(folder / "outputs")),
    )


class Soak:
    """Runs that are struck, and one that is not.

    Args:
        config: the training; each run gets a name of its own.
        chance: where random moments come from.
        rows: where what happens is counted.
        label: begins the names of the rows.
        install: patches the program in each process that trains.
    """

    def __init__(
        self,
        config: Config,
        chance: random.Random,
        rows: dict[str, Row],
        label: str = "",
        install: Install | None = None,
    ) -> None:
        self._config = config
        self._chance = chance
        self._rows = rows
        self._label = f"{label}, " if label else ""
        self._install = install
        self._numbers = itertools.count(1)
        untouched = self._new_run()
        untouched.attempt().end()  # prepares the corpus, too
        self._expected = contents(untouched.folder)
        # Runs are compared with the best earlier one of their folder: there must be none.
        shutil.rmtree(untouched.folder)
        again = self._new_run()
        started = time.monotonic()
        again.attempt().end()
        self._duration = time.monotonic() - started
        self._compare(again, [f"{self._label}nothing: two untouched runs"])

    def kill_at_points(self, kills: int) -> None:
        """Kill so often at named points, as evenly as may be, run after run."""
        for number, point in enumerate(POINTS):
            wanted = (kills + number) // len(POINTS)
            row = self._rows[point.name] if wanted else Row()
            misses = 0
            while row.strikes < wanted:
                run, before = self._new_run(), row.strikes
                while run.strikes < _KILLS_A_RUN and row.strikes < wanted:
                    # Some points are passed once only.
                    passing = 1 if misses else self._chance.choice((1, 1, 1, 2, 3))
                    child = run.attempt(_killer(point, passing))
                    if child.wait() == 0:
                        break
                    assert child.status == -signal.SIGKILL, child.log()
                    run.struck(child)
                    row.strikes += 1
                misses += row.strikes == before
                assert misses < 3, f"{point.name} is never met"
                self._finish(run, [point.name])

    def kill_at_random_times(self, kills: int) -> None:
        """Kill so often after random times, and note the phase that each falls in."""
        while kills > 0:
            run, names = self._new_run(), set()
            while run.strikes < min(kills, _KILLS_A_RUN):
                child = run.attempt()
                if child.wait(self._chance.uniform(0.0, 0.6 * self._duration)) == 0:
                    break
                child.send(signal.SIGKILL)
                child.wait()
                run.struck(child)
                name = f"at random, in: {child.phase}"
                self._rows[name].strikes += 1
                names.add(name)
            kills -= run.strikes
            self._finish(run, sorted(names))

    def signal_in_phases(self, signals: int) -> None:
        """Send SIGTERM and SIGINT in turn in each phase."""
        for phase in PHASES if signals else ():
            name = f"{self._label}signals, in: {phase}"
            row, run = self._rows[name], self._new_run()
            while row.strikes < signals:
                if phase == "preparation":  # the corpus of the others is there already
                    run = self._new_run(outputs=f"fresh{row.strikes}")
                child = run.attempt()
                if not child.wait_for(phase, self._chance.uniform(0.0, 0.05)):
                    self._finish(run, [name])
                    run = self._new_run()
                    continue
                number = (signal.SIGTERM, signal.SIGINT)[row.strikes % 2]
                sent = time.monotonic()
                child.send(number)
                if child.wait() == 0:
                    continue  # it had come to its end
                row.seconds.append(time.monotonic() - sent)
                row.strikes += 1
                run.struck(child)
                if child.status != 128 + number:
                    row.bad_exits.append(f"{number.name}: {child.status}: {child.log()[-500:]}")
                if phase == "preparation":
                    self._finish(run, [name])
            if phase != "preparation":
                self._finish(run, [name])

    def trouble_processes(self, troubles: int) -> None:
        """Let one of two processes fail; the other one must not hang."""
        for number in range(troubles):
            trouble = TROUBLES[number % len(TROUBLES)]
            restarts = number // len(TROUBLES) % 2
            training = replace(self._config.training, max_restarts=restarts)
            config = replace(self._config, training=training)
            run = self._new_run(config=config)
            name = f"one of two: {trouble}" + ", restarted" * restarts
            self._rows[name].strikes += 1
            self._trouble(run, name, trouble, bool(restarts))

    def _trouble(self, run: Run, name: str, trouble: str, restarts: bool) -> None:
        row = self._rows[name]
        rank, update = self._chance.randrange(2), self._chance.randrange(2, 38)
        chance = random.Random(self._chance.random())

        child = run.attempt(lambda: make_trouble(trouble, rank, update, chance))
        while child.update < update and child.wait(OFTEN) is None:
            pass
        met = time.monotonic()
        status = child.wait()
        row.seconds.append(time.monotonic() - met)
        is_done = restarts or is_lived_through(trouble)
        said = child.log()
        if is_done != (status == 0) or row.seconds[-1] > 60:
            row.bad_exits.append(f"{status} after {row.seconds[-1]:.1f} s: {said[-700:]}")
        if trouble == "an exception" and not _is_first_told(said, "MadeUpError: made up", rank):
            row.bad_exits.append(f"process {rank}'s traceback is not the first: {said[-700:]}")
        if trouble == "out of memory in a micro-batch" and not _is_halved_once(run.folder, said):
            row.bad_exits.append(f"not halved once and for all: {said[-700:]}")
        run.struck(child)
        # What is lived through changes what comes out.
        if not is_lived_through(trouble):
            run.attempt().end()
            self._compare(run, [name])
        else:
            shutil.rmtree(run.folder)

    def _finish(self, run: Run, names: list[str]) -> None:
        """Continue a run to its end, and compare it with the one that was left alone."""
        run.attempt().end()
        self._compare(run, names)

    def _compare(self, run: Run, names: list[str]) -> None:
        found = contents(run.folder)
        different = [
            key
            for key in sorted(self._expected.keys() | found.keys())
            if difference(self._expected.get(key), found.get(key))
        ]
        for name in names:
            row = self._rows[name]
            row.runs += 1
            row.lost_updates += run.lost_updates
            row.different += different
            row.bad_exits += run.losses
        shutil.rmtree(run.config.run.outputs if run.is_apart else run.folder)
        strikes = sum(row.strikes for row in self._rows.values())
        verdict = "identical" if not different else f"DIFFERENT: {different[:4]}"
        text = f"{strikes} strikes; {', '.join(names)}: {run.lost_updates} updates lost, {verdict}"
        print(text, file=sys.stderr)

    def _new_run(self, outputs: str = "", config: Config | None = None) -> Run:
        config = config or self._config
        run = replace(config.run, name=f"soak{config.training.num_processes}_{next(self._numbers)}")
        if outputs:
            run = replace(run, outputs=f"{run.outputs}/{outputs}")
        return Run(replace(config, run=run), bool(outputs), self._install)


def _is_first_told(said: str, message: str, rank: int) -> bool:
    """Whether the first traceback that is shown is that of `rank`."""
    place = said.find("Traceback (most recent call last)")
    head = said[:place].rstrip().splitlines()[-1:]
    return message in said and f"process {rank} has failed" in "".join(head)


def _is_halved_once(folder: Path, said: str) -> bool:
    """Whether all of a run was made, its micro-batches halved once, and both told to the user."""
    result = read_result(folder) if is_complete(folder) else {}
    is_told = said.count("is made again in micro-batches of half the size") == 1
    return is_told and result.get("halved_micro_batches", {}).get("times") == 1


def _killer(point: Point, passing: int) -> Install:
    """What installs a kill at the first, second … time that a point is passed."""

    def strike() -> None:
        nonlocal passing
        passing -= 1
        if passing == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return lambda: point.install(strike)


def _print(rows: dict[str, Row], seconds: float) -> None:
    table = Table(title="Strikes, and what they changed", title_justify="left")
    table.add_column("phase or point")
    for name in ("strikes", "runs", "lost updates", "identical", "slowest exit"):
        table.add_column(name, justify="right")
    for name, row in rows.items():
        slowest = f"{max(row.seconds):.1f} s" if row.seconds else ""
        bad = f", {len(row.bad_exits)} bad exits" if row.bad_exits else ""
        table.add_row(
            name,
            str(row.strikes),
            str(row.runs),
            str(row.lost_updates),
            ("no" if row.different else "yes") + bad,
            slowest,
        )
    console = Console(stderr=True, width=100)
    console.print(table)
    for name, row in rows.items():
        for text in [*row.different[:5], *row.bad_exits[:5]]:
            console.print(f"{name}: {text}", markup=False, soft_wrap=True)
    strikes = sum(row.strikes for row in rows.values())
    lost = sum(row.lost_updates for row in rows.values())
    console.print(f"{strikes} strikes, {lost} updates lost, {seconds / 60:.1f} minutes")


def _summary(arguments: Arguments, rows: dict[str, Row], seconds: float) -> dict[str, Any]:
    return {
        "kills": arguments.kills,
        "signals_a_phase": arguments.signals,
        "troubles": arguments.troubles,
        "seed": arguments.seed,
        "threads": arguments.threads,
        "seconds": round(seconds, 1),
        "rows": {
            name: {
                "strikes": row.strikes,
                "runs": row.runs,
                "lost_updates": row.lost_updates,
                "identical": not row.different,
                "bad_exits": len(row.bad_exits),
                "slowest_exit_seconds": round(max(row.seconds, default=0.0), 2),
            }
            for name, row in rows.items()
        },
    }


if __name__ == "__main__":
    run_command(main)
