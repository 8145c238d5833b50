"""Train one experiment from text to a scored model, in one process or several."""

import logging
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

import torch

from data_prep.prepare import prepare_corpus
from nmt.base import layout
from nmt.base.errors import BusyError, MemoryShortageError, UserError
from nmt.base.job_output import in_log_only, labelled
from nmt.base.locks import exclusive
from nmt.base.log import (
    console,
    converted_errors,
    print_error,
    print_line,
    print_written,
    set_up_logging,
)
from nmt.base.signals import Interruption
from nmt.config import Config, CorpusSource, ValidationMetric
from nmt.evaluation import tables
from nmt.run_folder import Run, describe_cost
from nmt.runs.experiment import run_experiment
from nmt.runs.opening import check_configuration, open_run, point_latest
from nmt.tracking.trackers import check_trackers
from nmt.training import distributed
from nmt.training.trainer import MemoryLimitError

logger = logging.getLogger(__name__)

_NUM_SAMPLES = 6
_SECONDS_BETWEEN_TRIES = 1.0  # to lock a GPU


def train(config: Config) -> float | None:
    """Run one experiment.

    Returns:
        The validation metric; None if torchrun launched this process.
    """
    folder = config.run_folder
    is_main, is_launched = distributed.is_main_process(), distributed.is_launched()
    if is_launched:
        distributed.check_launcher()
    layout.check_links_stay_inside(folder)
    if not is_launched:
        # Before anything is written, so that a command that is refused leaves no run folder.
        set_up_logging()
        check_trackers(config.tracking)
        check_configuration(config)
    corpus_folder = prepare_corpus(config)
    busy = BusyError(f"another process trains in {folder}; wait, or choose another run.name")
    lock = exclusive(folder / layout.LOCK_FILE, busy) if is_main else nullcontext()
    with lock, own_gpu(config):
        has_trained = (_worker if is_launched else _start)(config, corpus_folder)
        if is_main and not has_trained:
            logger.info("%s is complete; choose another run.name to train again", folder)
        elif is_main and not config.run.folder:  # the last run of a sweep is not its best
            point_latest(config)
    return None if is_launched else _report_result(config)


def _start(config: Config, corpus_folder: Path) -> bool:
    """Train in this process, or in several that it starts; False if the run had already ended."""
    set_up_logging(config.run_folder / layout.LOG_FILE)
    config = open_run(config, corpus_folder)
    if Run(config.run_folder).is_complete:
        return False
    if config.training.num_processes == 1:
        _run(config, corpus_folder)
    else:
        distributed.launch(config.training, _worker, config, corpus_folder)
    return True


def _worker(config: Config, corpus_folder: Path) -> bool:
    """Train as one of several processes, and report its errors; False if the run had ended."""
    is_main = distributed.is_main_process()
    set_up_logging(config.run_folder / layout.LOG_FILE if is_main else None)
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if restarts and is_main:
        logger.info("restart %d of %s", restarts, os.environ["TORCHELASTIC_MAX_RESTARTS"])
    try:
        label = labelled(config.run_folder.name) if config.run.folder else nullcontext()
        with label, converted_errors(), distributed.failures_in_order():
            process = distributed.join(config.training)
            if is_main:
                config = open_run(config, corpus_folder)
            if process.broadcast(is_main and Run(config.run_folder).is_complete):
                distributed.leave()
                return False
            _run(config, corpus_folder)
            return True
    except Interruption as error:
        sys.exit(error.exit_status)
    except Exception as error:
        is_known = isinstance(error, UserError | MemoryLimitError | distributed.LostProcessError)
        trace = f"process {os.environ['RANK']} failed:\n{traceback.format_exc()}"
        print_error(str(error) if is_known else trace)
        can_restart = not isinstance(error, UserError) or isinstance(error, MemoryShortageError)
        sys.exit(1 if can_restart else UserError.exit_status)


def _run(config: Config, corpus_folder: Path) -> None:
    """Train, then print scores and the files of the run; in a sweep, write them to its log."""
    evaluations = run_experiment(config, corpus_folder)
    if evaluations is None:
        return
    with in_log_only():
        if evaluations:
            console.print(tables.sample_table(evaluations[0], _NUM_SAMPLES))
        tables.print_scores(console, evaluations)
        if config.corpus.source is CorpusSource.phrasebook:
            print_line("Scores on generated text cannot be compared with those of other corpora.")
        paths = sorted(config.run_folder.iterdir())
        print_written(path for path in paths if not path.name.startswith("."))


def _report_result(config: Config) -> float:
    """Log cost and score of a completed run; return its validation metric."""
    result = Run(config.run_folder).result
    cost = describe_cost(result["cost"])
    score = f"valid BLEU {result['valid']['bleu']:.2f}  (the corpus has no test set)"
    for split, table in list(result["test_sets"].items())[:1]:
        score = tables.bleu_line(split, table["bleu"]["score"], table["bleu"]["signature"])
    with in_log_only():
        logger.info(f"cost: {cost}")
        logger.info(score)
    is_bleu = config.training.validation_metric is ValidationMetric.bleu
    return result["valid"]["bleu" if is_bleu else "loss"]


@contextmanager
def own_gpu(config: Config) -> Iterator[None]:
    """Reserve a GPU for the block if several runs share this machine; wait until one is free.

    All commands of this user see the locks, so several sweeps can share the GPUs.

    Raises:
        UserError: more parallel runs than GPUs.
    """
    if config.run.parallel_runs == 1 or not torch.cuda.is_available():
        yield
        return
    num_gpus = torch.cuda.device_count()
    if config.run.parallel_runs > num_gpus:
        raise UserError(
            f"run.parallel_runs={config.run.parallel_runs} is more than the {num_gpus} GPUs of this"
            f" machine; set run.parallel_runs={num_gpus} or less"
        )
    with ExitStack() as stack:
        index = _lock_gpu(num_gpus, stack)
        if index is None:
            logger.info("all GPUs are used by other runs; waiting for one")
        while index is None:
            time.sleep(_SECONDS_BETWEEN_TRIES)
            index = _lock_gpu(num_gpus, stack)
        os.environ["LOCAL_RANK"] = str(index)  # for distributed.local_device
        stack.callback(os.environ.pop, "LOCAL_RANK", None)
        yield


def _lock_gpu(num_gpus: int, stack: ExitStack) -> int | None:
    """Lock a GPU until the stack is closed, and return its index; None if none is free."""
    for index in range(num_gpus):
        # Named by the uuid, because the index depends on CUDA_VISIBLE_DEVICES.
        name = f"nmt-{os.getuid()}-{torch.cuda.get_device_properties(index).uuid}.lock"
        with suppress(BusyError):
            stack.enter_context(exclusive(Path(tempfile.gettempdir(), name), BusyError()))
            return index
    return None
