"""Interrupt trainings many times, continue them, and compare with an uninterrupted one.

    python -m benchmarks.soak [kills=200] [signals=0] [troubles=0] [seed=1] [text=DIR] [updates=40]

A small model is trained for `updates` updates, on `text`, or on generated text if there is no such
folder. `kills` is the
number of SIGKILLs: half of them at random times, half at named points (benchmarks/soak_points.py).
`signals` is the number of SIGTERM and SIGINT, in turn, in each phase, preparation included. The
exit status is checked, and the exit may take at most 10 seconds. `troubles` is the number of
failures of one of two processes, of several kinds, with a restart of both processes in every second
round; the time until the other one ends is checked. Every run is continued to its end, and its
files are compared with those of an uninterrupted run: weights, optimizer, counters, metrics,
translations, scores. They are not compared after two kinds of failure that change them: a skipped
update, and micro-batches that were halved because memory ran out.

Trainings are forked from a process that has imported everything, so that they start at once.
"""

import itertools
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.figures import print_table, write_result
from benchmarks.soak_points import PHASES, POINTS, Point
from benchmarks.soak_ranks import FAILURES, MEMORY_RUNS_OUT, fork_workers, inject_failure, survives
from benchmarks.soak_runs import POLL_SECONDS, Install, Run, contents, difference
from nmt import run_folder
from nmt.base.files import read_lines, write_lines
from nmt.cli.application import application
from nmt.cli.common import run_command
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
    checked_dataclass,
)

_KILLS_A_RUN = 6
_MAX_EXIT_SECONDS = 10


@checked_dataclass
class Arguments:
    """Kills in all, signals per phase, failures of a process in all; `text` is aligned text."""

    kills: int = 200
    signals: int = 0
    troubles: int = 0
    seed: int = 1
    text: str = "../shared/data/multi30k"
    updates: int = 40
    threads: int = 2
    result: str = ""


@dataclass
class Row:
    """Results of one phase or point."""

    interruptions: int = 0
    lost_updates: int = 0
    runs: int = 0
    different: list[str] = field(default_factory=list)
    bad_exits: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the benchmark; exit with 1 if an update was lost, a file differs or an exit was bad."""
    started = time.monotonic()
    # A shell lets background processes ignore SIGINT, and trainings would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked = {name: getattr(arguments, name) for name in ("kills", "signals", "troubles")}
    asked = {name: number for name, number in asked.items() if number}
    text = arguments.text if Path(arguments.text).is_dir() else "generated text"
    print(f"seed {arguments.seed}, {asked}, {text}", file=sys.stderr)
    rows: dict[str, Row] = defaultdict(Row)
    random = Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        config = _config(arguments, Path(folder))
        if arguments.kills or arguments.signals:
            soak = Soak(config, random, rows)
            soak.repeat()
            soak.kill_at_points(arguments.kills // 2)
            soak.kill_at_random_times(arguments.kills - arguments.kills // 2)
            soak.signal_in_phases(arguments.signals)
        if arguments.troubles or arguments.signals:
            training = replace(config.training, num_processes=2, num_threads=1)
            two = Soak(
                replace(config, training=training), random, rows, "two processes", fork_workers
            )
            two.signal_in_phases(arguments.signals)
            two.fail_processes(arguments.troubles)
        seconds = time.monotonic() - started
    _print(rows, seconds)
    path = Path(arguments.result) if arguments.result else None
    write_result(f"soak-{'-'.join(asked)}", _summary(arguments, rows, seconds), path)
    if any(row.lost_updates or row.different or row.bad_exits for row in rows.values()):
        raise SystemExit(1)


def _config(arguments: Arguments, folder: Path) -> Config:
    """Return a training of some seconds, with several epochs, validations and checkpoints."""
    text = Path(arguments.text)
    corpus = CorpusConfig(num_train=1200, num_valid=16, num_test=16)
    if text.is_dir():
        sizes = {"train": 1200, "valid": 16, "test_2016_flickr": 16}
        for split, size in sizes.items():
            for language in ("en", "de"):
                lines = read_lines(text / f"{split}.{language}")[:size]
                write_lines(folder / "text" / f"{split}.{language}", lines)
        corpus = CorpusConfig(name="soak", source=CorpusSource.folder, path=str(folder / "text"))
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
            max_updates=arguments.updates,
            validate_every=arguments.updates // 5,
            average_checkpoints=2,
            log_every=3,
            num_threads=arguments.threads,
        ),
        decoding=DecodingConfig(beam_size=2, max_length_ratio=1.0, max_length_offset=2),
        run=RunConfig(outputs=str(folder / "outputs")),
    )


class Soak:
    """Interrupted runs, which are compared with an uninterrupted one.

    Args:
        config: the training; each run gets its own name.
        random: the source of random times.
        rows: the results, by phase or point.
        label: beginning of the names of the rows.
        install: patches the program in each process that trains.
    """

    def __init__(
        self,
        config: Config,
        random: Random,
        rows: dict[str, Row],
        label: str = "",
        install: Install | None = None,
    ) -> None:
        self._config = config
        self._random = random
        self._rows = rows
        self._label = f"{label}, " if label else ""
        self._install = install
        self._numbers = itertools.count(1)
        self._duration = 0.0  # seconds of an uninterrupted run
        untouched = self._new_run()
        untouched.attempt().end()  # also prepares the corpus
        self._expected = contents(untouched.folder)
        # A run compares its scores with those of the best earlier run, so there must be none.
        shutil.rmtree(untouched.folder)

    def repeat(self) -> None:
        """Measure the time of an uninterrupted run, and compare its files with those of another."""
        again = self._new_run()
        started = time.monotonic()
        again.attempt().end()
        self._duration = time.monotonic() - started
        self._compare(again, [f"{self._label}nothing: two uninterrupted runs"])

    def kill_at_points(self, kills: int) -> None:
        """Kill at named points, about equally often at each."""
        for number, (name, point) in enumerate(POINTS.items()):
            wanted = (kills + number) // len(POINTS)
            row = self._rows[name] if wanted else Row()
            misses = 0
            while row.interruptions < wanted:
                run, before = self._new_run(), row.interruptions
                while run.interruptions < _KILLS_A_RUN and row.interruptions < wanted:
                    # Some points are passed only once.
                    passing = 1 if misses else self._random.choice((1, 1, 1, 2, 3))
                    child = run.attempt(_killer(point, passing))
                    if child.wait() == 0:
                        break
                    assert child.status == -signal.SIGKILL, child.log()
                    run.record_interruption(child)
                    row.interruptions += 1
                misses += row.interruptions == before
                assert misses < 3, f"{name} is never reached"
                self._finish(run, [name])

    def kill_at_random_times(self, kills: int) -> None:
        """Kill after random times, and record the phase of each kill."""
        while kills > 0:
            run, names = self._new_run(), set()
            while run.interruptions < min(kills, _KILLS_A_RUN):
                child = run.attempt()
                if child.wait(self._random.uniform(0.0, 0.6 * self._duration)) == 0:
                    break
                child.send(signal.SIGKILL)
                child.wait()
                run.record_interruption(child)
                name = f"at random, in: {child.phase}"
                self._rows[name].interruptions += 1
                names.add(name)
            kills -= run.interruptions
            self._finish(run, sorted(names))

    def signal_in_phases(self, signals: int) -> None:
        """Send SIGTERM and SIGINT in turn in each phase."""
        for phase in PHASES if signals else ():
            name = f"{self._label}signals, in: {phase}"
            row, run = self._rows[name], self._new_run()
            while row.interruptions < signals:
                if phase == "preparation":  # needs outputs without a prepared corpus
                    run = self._new_run(outputs=f"fresh{row.interruptions}")
                child = run.attempt()
                if not child.wait_for(phase, self._random.uniform(0.0, 0.05)):
                    self._finish(run, [name])
                    run = self._new_run()
                    continue
                number = (signal.SIGTERM, signal.SIGINT)[row.interruptions % 2]
                sent = time.monotonic()
                child.send(number)
                if child.wait() == 0:
                    continue  # it had ended
                row.seconds.append(time.monotonic() - sent)
                row.interruptions += 1
                run.record_interruption(child)
                if child.status != 128 + number or row.seconds[-1] > _MAX_EXIT_SECONDS:
                    after = f"{number.name}: {child.status} after {row.seconds[-1]:.1f} s"
                    row.bad_exits.append(f"{after}: {child.log()[-500:]}")
                if phase == "preparation":
                    self._finish(run, [name])
            if phase != "preparation":
                self._finish(run, [name])

    def fail_processes(self, troubles: int) -> None:
        """Make one of two processes fail; the other one must not hang."""
        for number in range(troubles):
            failure = FAILURES[number % len(FAILURES)]
            restarts = number // len(FAILURES) % 2
            training = replace(self._config.training, max_restarts=restarts)
            config = replace(self._config, training=training)
            run = self._new_run(config=config)
            name = f"one of two: {failure}" + ", restarted" * restarts
            self._rows[name].interruptions += 1
            self._fail_process(run, name, failure, bool(restarts))

    def _fail_process(self, run: Run, name: str, failure: str, restarts: bool) -> None:
        row = self._rows[name]
        last = self._config.training.max_updates - 2
        rank, update = self._random.randrange(2), self._random.randrange(2, last)
        random = Random(self._random.random())

        child = run.attempt(lambda: inject_failure(failure, rank, update, random))
        while child.update < update and child.wait(POLL_SECONDS) is None:
            pass
        reached = time.monotonic()
        status = child.wait()
        row.seconds.append(time.monotonic() - reached)
        is_done = restarts or survives(failure)
        log = child.log()
        if is_done != (status == 0) or row.seconds[-1] > 60:
            row.bad_exits.append(f"{status} after {row.seconds[-1]:.1f} s: {log[-700:]}")
        if failure == "an exception" and not _is_first_traceback(log, "InjectedError", rank):
            row.bad_exits.append(f"the first traceback is not of rank {rank}: {log[-700:]}")
        run.record_interruption(child)
        if failure == MEMORY_RUNS_OUT:
            if not is_done:
                run.attempt().end()
            if not _is_halved_once(run.folder, log):
                row.bad_exits.append(f"micro-batches were not halved once: {log[-700:]}")
        if not survives(failure) and failure != MEMORY_RUNS_OUT:
            run.attempt().end()
            self._compare(run, [name])
        else:
            shutil.rmtree(run.folder)

    def _finish(self, run: Run, names: list[str]) -> None:
        """Continue a run to its end, and compare it with the uninterrupted one."""
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
        count = sum(row.interruptions for row in self._rows.values())
        verdict = "identical" if not different else f"DIFFERENT: {different[:4]}"
        text = f"{', '.join(names)}: {run.lost_updates} updates lost, {verdict}"
        print(f"{count} interruptions; {text}", file=sys.stderr)

    def _new_run(self, outputs: str = "", config: Config | None = None) -> Run:
        config = config or self._config
        run = replace(config.run, name=f"soak{config.training.num_processes}_{next(self._numbers)}")
        if outputs:
            run = replace(run, outputs=f"{run.outputs}/{outputs}")
        return Run(replace(config, run=run), bool(outputs), self._install)


def _is_first_traceback(log: str, message: str, rank: int) -> bool:
    """Return whether the first traceback of a log is that of `rank`."""
    start = log.find("Traceback (most recent call last)")
    head = log[:start].rstrip().splitlines()[-1:]
    return message in log and f"process {rank} failed" in "".join(head)


def _is_halved_once(folder: Path, log: str) -> bool:
    """Return whether the run is complete, and halved its micro-batches and logged it once."""
    run = run_folder.Run(folder)
    halved: Any = run.result.get("halved_micro_batches", {}) if run.is_complete else {}
    is_logged = log.count("from here on micro-batches are halved") == 1
    return is_logged and halved.get("times") == 1


def _killer(point: Point, passing: int) -> Install:
    """Return a patch that kills the process when a point is passed for the n-th time."""

    def interrupt() -> None:
        nonlocal passing
        passing -= 1
        if passing == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return lambda: point(interrupt)


def _print(rows: dict[str, Row], seconds: float) -> None:
    columns = ["phase or point", "interruptions", "runs", "lost updates", "identical"]
    lines = []
    for name, row in rows.items():
        slowest = f"{max(row.seconds):.1f} s" if row.seconds else ""
        bad = f", {len(row.bad_exits)} bad exits" if row.bad_exits else ""
        counts = map(str, (row.interruptions, row.runs, row.lost_updates))
        lines.append([name, *counts, ("no" if row.different else "yes") + bad, slowest])
    print_table("Interruptions and their effects", [*columns, "slowest exit"], lines)
    for name, row in rows.items():
        for text in [*row.different[:5], *row.bad_exits[:5]]:
            print(f"{name}: {text}", file=sys.stderr)
    interruptions = sum(row.interruptions for row in rows.values())
    lost = sum(row.lost_updates for row in rows.values())
    print(
        f"{interruptions} interruptions, {lost} updates lost, {seconds / 60:.1f} minutes",
        file=sys.stderr,
    )


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
                "interruptions": row.interruptions,
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
