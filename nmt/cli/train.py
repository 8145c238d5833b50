"""Prepare the corpus where needed, train, choose the best weights, score them.

python -m nmt.cli.train [experiment=NAME] [group=PRESET] [key=value] …
python -m nmt.cli.train seeds=1,2,3 experiment=NAME
python -m nmt.cli.train run.dry_run=true …      what it would take, and nothing else
python -m nmt.cli.train --multirun sweep=peak_lr experiment=NAME
"""

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from data_prep.prepare import find_prepared, prepare
from nmt.cli.common import (
    EXIT_MENDABLE,
    console,
    exit_status,
    name_files,
    named_disk_faults,
    raise_at_termination,
    say_error,
    set_up_logging,
    show_scores,
    signals_as_themselves,
)
from nmt.cli.compose import run_composed
from nmt.cli.seeds import parse_seeds, take_seeds, train_seeds
from nmt.config import Config, CorpusSource, ValidationMetric
from nmt.errors import UserError
from nmt.evaluation import tables
from nmt.evaluation.evaluate import Evaluation
from nmt.files import exclusive
from nmt.training import distributed, experiment
from nmt.training.dry_run import dry_run
from nmt.training.signals import Interruption

# Not __name__, which is __main__ when the module is the command.
logger = logging.getLogger("nmt.cli")

_NUM_SAMPLES = 6


def train(config: Config) -> float | None:
    """Run one experiment; returns the validation metric, for sweepers that look for the best."""
    folder = config.run_folder
    if config.run.dry_run:
        set_up_logging()
        if distributed.is_first():
            dry_run(config, find_prepared(config.corpus, config.tokenizer, config.corpora_folder))
        return None
    if distributed.launched_by_cluster():
        _work_for_cluster(config)
        return None
    set_up_logging(folder / "train.log")
    # Several hosts share the folder; their rendezvous keeps them together.
    is_shared = config.training.num_hosts > 1
    lock = _alone_in(folder)
    with contextlib.nullcontext() if is_shared else lock:
        corpus_folder = prepare(config.corpus, config.tokenizer, config.corpora_folder)
        with _turn(config):
            config = experiment.open_run(config, corpus_folder)
        if experiment.is_complete(folder):
            _say_complete(folder)
        else:
            if config.training.num_processes == config.training.num_hosts == 1:
                _work(config, corpus_folder)
            else:
                _launch(config, corpus_folder)
            if not config.run.folder:  # the last combination of a sweep is not its best
                with _turn(config):
                    experiment.point_latest(config)
    result = experiment.read_result(folder)
    if "cost" in result:  # runs of an earlier version have none
        cost = result["cost"]
        logger.info(
            "cost: %.3g floating-point operations, %.2f device hours, %s target tokens",
            cost["training_flops"],
            cost["device_hours"],
            f"{cost['target_tokens']:,}",
        )
    for split, table in list(result["test_sets"].items())[:1]:
        logger.info(tables.bleu_line(split, table["bleu"]["score"], table["bleu"]["signature"]))
    if not result["test_sets"]:
        logger.info("valid BLEU %.2f  (the corpus has no test set)", result["valid"]["bleu"])
    is_bleu = config.training.validation_metric is ValidationMetric.bleu
    return float(result["valid"]["bleu" if is_bleu else "loss"])


def _work_for_cluster(config: Config) -> None:
    """As one worker of several, whose launcher has made the processes; the first has the lock."""
    is_first = distributed.is_first()
    with _alone_in(config.run_folder) if is_first else contextlib.nullcontext():
        corpus_folder = prepare(config.corpus, config.tokenizer, config.corpora_folder)
        has_worked = _worker(config, corpus_folder)
        if is_first and has_worked and not config.run.folder:
            experiment.point_latest(config)


def _alone_in(folder: Path) -> AbstractContextManager[None]:
    """Hold the lock of a run folder; UserError when another process does."""
    return exclusive(folder / ".lock", lambda: _refuse_busy(folder))


def _refuse_busy(folder: Path) -> None:
    raise UserError(f"another process is training in {folder}; wait for it, or choose a run.name")


def _say_complete(folder: Path) -> None:
    logger.info("%s is complete; choose another run.name to train again", folder)


def _turn(config: Config) -> AbstractContextManager[None]:
    """Hosts that share the folder write one after the other; a host alone holds its lock anyway."""
    if config.training.num_hosts == 1:
        return contextlib.nullcontext()
    folder = config.run_folder
    return exclusive(
        folder / ".lock",
        lambda: logger.info("%s: another process is at work in it; waiting for it", folder),
    )


def _launch(config: Config, corpus_folder: Path) -> None:
    try:
        distributed.launch(
            config.training,
            config.run_folder.name,
            _worker,
            config,
            corpus_folder,
            give_up=_give_up,
        )
    except SignalException as stopped:
        for worker in multiprocessing.active_children():
            worker.kill()  # still there only after a second Ctrl-C
        raise Interruption(stopped.sigval.value) from None
    except ChildFailedError as error:
        # The worker has said what is wrong, its traceback before anything else.
        failures = error.failures.values()
        for failure in failures:
            if failure.exitcode < 0:
                logger.error(
                    "process %d was killed by %s (SIGKILL often means that memory is out)",
                    failure.local_rank,
                    failure.signal_name(),
                )
        if all(failure.exitcode != EXIT_MENDABLE for failure in failures):
            logger.error("training has ended on all processes; the same command continues")
            raise SystemExit(1) from None
        raise SystemExit(EXIT_MENDABLE) from None


def _give_up(message: str) -> NoReturn:
    """End at once, from any thread, whatever the others wait for."""
    for worker in multiprocessing.active_children():
        worker.kill()
    say_error(message)
    os._exit(EXIT_MENDABLE)


def _worker(config: Config, corpus_folder: Path) -> bool:
    """What each process of a training runs; the first that fails alone says why.

    Returns:
        Whether there was something to do: False where the run was complete.
    """
    set_up_logging(config.run_folder / "train.log" if distributed.is_first() else None)
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if restarts and distributed.is_first():
        logger.info("restart %d of %d", restarts, config.training.max_restarts)
    raise_at_termination()
    try:
        with signals_as_themselves(), named_disk_faults():
            process = distributed.join(config.training)
            if process.is_first:
                config = experiment.open_run(config, corpus_folder)
            # Measuring for `auto` may take longer than a collective waits.
            process.wait_for_first()
            if process.from_first(experiment.is_complete(config.run_folder)):
                if process.is_first:
                    _say_complete(config.run_folder)
                distributed.leave()
                return False
            _work(config, corpus_folder)
            return True
    except (Interruption, KeyboardInterrupt) as error:
        sys.exit(exit_status(error))
    except Exception as error:
        if _is_to_say_why():
            say_error(str(error) if isinstance(error, UserError) else _failure(error))
        sys.exit(exit_status(error))


def _failure(error: Exception) -> str:
    """What to say of it: a loss in one line, anything else by its traceback."""
    rank, lost = os.environ.get("RANK", "0"), distributed.how_lost(error)
    if not lost:
        return f"process {rank} has failed:\n{traceback.format_exc()}"
    says = f"process {rank} has lost another one: {lost}"
    if distributed.num_restarts_left():
        says += "; once all are back, they go on from the last checkpoint"
    return says


def _is_to_say_why() -> bool:
    """Whether it is for this process, which has failed, to say why."""
    # Another process may have failed as well, and the launcher ends all: we are at our end anyway.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return distributed.first_to_fail()


def _work(config: Config, corpus_folder: Path) -> None:
    evaluations = experiment.run_experiment(config, corpus_folder)
    if evaluations is not None:
        _show(config, evaluations)


def _show(config: Config, evaluations: Sequence[Evaluation]) -> None:
    """The tables that a run ends with, and the files it wrote."""
    for evaluation in evaluations:
        if evaluation.phenomena is not None:
            console.print(tables.phenomena_table(evaluation))
    for evaluation in evaluations[:1]:
        console.print(tables.sample_table(evaluation, _NUM_SAMPLES))
    show_scores(evaluations)
    if config.corpus.source is CorpusSource.phrasebook:
        console.print("The phrasebook is generated: its BLEU compares with nothing.")
    folder = config.run_folder
    names = ["model", "report.html", "evaluation", "checkpoints"]
    names += ["metrics.jsonl", "train.log", "config.yaml"]
    name_files([folder / name for name in names if (folder / name).exists()])


def main() -> None:
    """Run the command: one run, or one for each of `seeds=`."""
    seeds = take_seeds()
    run_composed(train if seeds is None else lambda config: train_each(config, seeds))


def train_each(config: Config, seeds: str) -> None:
    """Train once for each of `seeds=`; a dry run says the same of them all, and says it once."""
    parsed = parse_seeds(seeds)
    if config.run.dry_run:
        train(config)
    else:
        train_seeds(config, parsed, train)


if __name__ == "__main__":
    # By the module's own name: what belongs to __main__ cannot be sent to a scheduler's jobs.
    from nmt.cli import train as by_name  # noqa: PLW0406 - another module than __main__

    by_name.main()
