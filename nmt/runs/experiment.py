"""A run from its opened folder to a scored model: train, choose weights, evaluate, report."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from nmt.config import Config
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.evaluate import Evaluation
from nmt.model.cpu_library import select_library
from nmt.run_folder import Run
from nmt.runs.finish import finish
from nmt.tracking.samples import ValidationSamples
from nmt.tracking.tracker import Tracker
from nmt.tracking.trackers import open_trackers
from nmt.training import distributed
from nmt.training.trainer import Trainer
from nmt.training.validation import valid_text


def run_experiment(config: Config, corpus_folder: Path) -> list[Evaluation] | None:
    """Train, choose the best weights, save the model folder and score it on every test set.

    Every rank calls this; only rank 0 validates, chooses and writes.

    Returns:
        One evaluation per test set; None on other ranks.
    """
    evaluations = None
    with distributed.joined(config.training) as process:
        # Only rank 0 has opened the run and replaced `auto`.
        config = replace(config, batching=process.broadcast(config.batching))
        corpus, environment = PreparedCorpus(corpus_folder), Run(config.run_folder).environment
        select_library(environment["cpu_library"])
        trainer = Trainer(config, corpus, process)
        with _opened_tracker(config, corpus, trainer, environment["run_id"]) as tracker:
            trainer.run(tracker)
            if process.is_main_process:
                evaluations = finish(config, corpus, trainer, tracker)
    return evaluations


@contextmanager
def _opened_tracker(
    config: Config, corpus: PreparedCorpus, trainer: Trainer, run_id: str
) -> Iterator[Tracker]:
    """Open the trackers of `config.tracking` in the main process, and close them in any case."""
    tracker = Tracker()
    if trainer.process.is_main_process:
        samples = partial(ValidationSamples, trainer.model, *valid_text(corpus))
        # If the last update has yet to be validated, trackers drop it, and `RunLog` sends it again.
        last = trainer.state.update - trainer.state.validation_due
        tracker = open_trackers(config, run_id, last, samples)
    try:
        yield tracker
    except BaseException:
        tracker.close(has_failed=True)
        raise
    tracker.close()
