"""The training loop."""

import contextlib
import logging
import time
from dataclasses import replace

import torch

from nmt.config import Config
from nmt.data.batching import trainable_pairs
from nmt.data.corpus import ParallelCorpus, PreparedCorpus
from nmt.data.loader import UpdateLoader, UpdateWork
from nmt.errors import UserError, first_line
from nmt.model.transformer import count_parameters
from nmt.trained_model import special_ids
from nmt.training.checkpoint import CheckpointStore, Halvings, Progress
from nmt.training.distributed import Process
from nmt.training.fresh_model import new_model
from nmt.training.guard import GradientGuard
from nmt.training.optimizer import build_optimizer
from nmt.training.refusals import REFUSED_FILE, RefusalLog
from nmt.training.room import give_back_freed
from nmt.training.run_log import RunLog
from nmt.training.signals import Interruption
from nmt.training.tally import Tally
from nmt.training.updater import Gradient, OutOfMemory, Updater, is_out_of_memory
from nmt.training.validation import ValidationResult, Validator

logger = logging.getLogger(__name__)


class Trainer:
    """Trains one run, from its last checkpoint if there is one.

    Args:
        config: the experiment.
        corpus: its prepared corpus.
        process: this process among those that train together.
        run_id: the tracker's id of the run.
    """

    def __init__(
        self, config: Config, corpus: PreparedCorpus, process: Process, run_id: str = "run"
    ) -> None:
        self.config = config
        self.process = process
        self.run_id = run_id
        self.model = new_model(config, corpus, process.device)
        self.train_pairs = corpus.train()
        self._check_pairs(self.train_pairs)
        tokenizers = self.model.source_tokenizer, self.model.target_tokenizer
        source_ids, target_ids = (special_ids(tokenizer) for tokenizer in tokenizers)
        self.loader = UpdateLoader(
            self.train_pairs,
            config.batching,
            config.training.seed,
            source_ids,
            target_ids,
            process.rank,
            process.world_size,
        )
        self.optimizer = build_optimizer(self.model.transformer, config.optimizer)
        self.store = CheckpointStore(
            config.run_folder / "checkpoints",
            config.training.validate_every,
            config.training.average_checkpoints,
        )
        self.progress = self._restored()
        asked = config.batching.max_micro_batch_tokens
        self.loader.max_micro_batch_tokens = self.progress.halvings.limit(asked)
        counts = self.progress.counts
        guard = GradientGuard(
            config.training.max_gradient_spike, counts.mean_norm, counts.num_norms, process.device
        )
        self._updater = Updater(
            config,
            self.model.transformer,
            self.optimizer,
            guard,
            process,
        )
        self._tally = Tally(counts, guard, process, config.training.num_passes)
        self._refusals = RefusalLog(
            config.run_folder / REFUSED_FILE,
            self.loader,
            tokenizers,
            process,
            self.progress.update,
            config.training.max_refused_in_a_row,
        )
        self.validator = Validator(corpus, self.model, config.decoding)
        self._saved_update = self.progress.update
        self._started = time.monotonic()  # as if there had been no restarts

    def run(self) -> Progress:
        """Train until a limit is reached or the user interrupts.

        Raises:
            Interruption: a signal came; the last complete update is saved.
            UserError: training has diverged, memory cannot hold one pair, or a file cannot be
                written.
        """
        log = None
        if self.process.is_first:
            log = RunLog(self.config, self.run_id, self.progress)
        try:
            if log is not None:
                size = count_parameters(self.model.transformer)
                log.start(self.process, size, self._updater.precision.name, self.progress)
            with Interruption.watched(is_launched=self.process.world_size > 1) as interruption:
                try:
                    self._loop(log, interruption)
                    self._stop_if_told(interruption)  # while the last counters were written
                except Interruption:
                    if not interruption.is_urgent:
                        self._leave(log)
                    raise
            if log is not None:
                log.end(self.progress)
        finally:
            if log is not None:
                log.close()
        return self.progress

    def update(self, work: UpdateWork) -> Gradient:
        """One optimizer step: what training does between validations, without its books."""
        gradient = self._updater.gradient(work, lambda: None)
        self._updater.step(gradient, self.progress.update + 1)
        return gradient

    def _loop(self, log: RunLog | None, interruption: Interruption) -> None:
        training = self.config.training
        self.model.transformer.train()
        self._started = time.monotonic() - self.progress.seconds
        if self.progress.validation_due:
            self._validate(log, interruption)
        self._tally.start_clock()
        works = self.loader.updates(self.progress.position)
        is_over = self._is_over()
        while not is_over:
            work = next(works)
            try:
                with self._droppable(interruption):
                    gradient = self._updater.gradient(
                        work, lambda: self._stop_if_told(interruption)
                    )
            except OutOfMemory as error:
                self._halve(error)
                works = self.loader.updates(self.progress.position)
                continue
            self._step(work, gradient)
            if self.progress.update % training.log_every == 0:
                self._record(log, work)
            is_over = self._is_over()
            if self.progress.update % training.validate_every == 0 or is_over:
                self.progress = replace(self.progress, validation_due=True)
                self._save(log)
                self._validate(log, interruption)
                self._tally.start_clock()
                is_over = self._is_over()

    def _step(self, work: UpdateWork, gradient: Gradient) -> None:
        """Change weights and books together; signals are only noted here."""
        update = self.progress.update + 1
        is_refused = self._updater.step(gradient, update)
        self._tally.add(update, work, gradient, is_refused)
        self.progress = replace(
            self._timed(self.progress),
            update=update,
            position=work.next_position,
            target_tokens=self.progress.target_tokens + work.num_target_tokens,
        )

    def _halve(self, error: OutOfMemory) -> None:
        """Make micro-batches smaller, from the update on that memory was too small for."""
        if error.rows == 1:
            raise UserError(
                f"{error}; lower batching.max_source_length and batching.max_target_length, or"
                " train a smaller model: not even one pair fits"
            )
        # While the micro-batches of refused updates are still cut as they were.
        counts, refused = self._tally.read()
        self._refusals.report(refused, counts)
        asked, before = self.config.batching.max_micro_batch_tokens, self.progress.halvings
        # A row longer than the limit goes alone; what is made smaller is the limit all the same.
        largest = self.loader.padded_tokens(self.progress.position)
        used = min(largest, self.loader.max_micro_batch_tokens) // 2
        self.loader.max_micro_batch_tokens = used
        update = self.progress.update + 1
        halvings = Halvings(before.times + 1, asked, used, before.first_update or update)
        self.progress = replace(self.progress, halvings=halvings)
        if self.process.is_first:
            logger.warning(
                "update %s: %s; it is made again in micro-batches of half the size, at most %s"
                " padded tokens, and so are all from here on: the run is no longer bit-exact",
                f"{update:,}",
                error,
                f"{used:,}",
            )

    def _droppable(self, interruption: Interruption) -> contextlib.AbstractContextManager[None]:
        """While gradients are made nothing is lost by leaving; several processes agree first."""
        return interruption.at_once() if self.process.world_size == 1 else contextlib.nullcontext()

    def _stop_if_told(self, interruption: Interruption) -> None:
        """Leave at the same micro-batch, whichever process was told to."""
        if self.process.any(bool(interruption.signal_number)):
            interruption.end()

    def _validate(self, log: RunLog | None, interruption: Interruption) -> None:
        """Validate on the first process; all get its counters."""
        judged = None
        if self.process.is_first:
            # A signal leaves the validation due: the checkpoint before it says so.
            with contextlib.suppress(Interruption), interruption.at_once():
                judged = self._judged(log, self._validated())
        self.process.wait_for_first()
        told, judged = self.process.from_first((interruption.signal_number, judged))
        if judged is None:
            interruption.signal_number = interruption.signal_number or told
            interruption.end()
        self.progress = judged
        if self.process.is_first:
            self.store.note(self.progress)
        give_back_freed()

    def _validated(self) -> ValidationResult:
        try:
            return self.validator.validate()
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise UserError(
                f"out of memory in validation: {first_line(error)}; lower decoding.batch_size, or"
                " set decoding.num_workers=1 on a CPU, which decodes a batch each worker at once:"
                " neither changes a translation, and the same command with them goes on"
            ) from None

    def _judged(self, log: RunLog | None, result: ValidationResult) -> Progress:
        progress = self.progress
        rank = list(result.rank(self.config.training.validation_metric))
        is_best = not progress.best_rank or rank > progress.best_rank
        assert log is not None
        log.validation(progress.update, result, is_best)
        return replace(
            self._timed(progress),
            best_rank=rank if is_best else progress.best_rank,
            best_update=progress.update if is_best else progress.best_update,
            validations_without_best=0 if is_best else progress.validations_without_best + 1,
            validation_due=False,
        )

    def _timed(self, progress: Progress) -> Progress:
        """The same with the times as they are now."""
        seconds = time.monotonic() - self._started
        more = max(0.0, seconds - progress.seconds) * self.process.world_size
        return replace(progress, seconds=seconds, device_seconds=progress.device_seconds + more)

    def _save(self, log: RunLog | None) -> None:
        """Write a checkpoint; what the log says of the updates before it is on the disk then."""
        counts, refused = self._tally.read()
        self._refusals.report(refused, counts)
        self.progress = replace(self.progress, counts=counts)
        if log is not None:
            log.flush()
            self.store.save(self.model.transformer, self.optimizer, self.progress)
        self.process.wait_for_first()
        self._saved_update = self.progress.update

    def _leave(self, log: RunLog | None) -> None:
        """Save the last complete update."""
        if self.progress.update > self._saved_update:
            self._save(log)
        if self.process.is_first and self._saved_update:
            logger.info("saved at update %s; the same command continues", f"{self._saved_update:,}")

    def _restored(self) -> Progress:
        """What the newest whole checkpoint says, with its weights and optimizer in place."""
        newest = self.process.from_first(self.store.newest() if self.process.is_first else None)
        if not newest:
            return Progress()
        if newest not in self.store.updates():
            raise UserError(
                f"{self.store.path(newest)} cannot be seen by process {self.process.rank}: all"
                " hosts have to share the folder run.outputs"
            )
        return self.store.load(newest, self.model.transformer, self.optimizer)

    def _record(self, log: RunLog | None, work: UpdateWork) -> None:
        counts, refused = self._tally.read()
        self._refusals.report(refused, counts)
        if log is not None:
            log.updates(self.progress, work, counts)
        self._tally.restart()

    def _is_over(self) -> bool:
        training, progress = self.config.training, self.progress
        if progress.update >= training.max_updates:
            return True
        if training.patience and progress.validations_without_best >= training.patience:
            return True
        if not training.max_minutes:
            return False
        # By the first process's clock.
        is_late = progress.seconds >= training.max_minutes * 60
        return self.process.any(self.process.is_first and is_late)

    def _check_pairs(self, pairs: ParallelCorpus) -> None:
        lengths = pairs.source_lengths, pairs.target_lengths
        eligible = len(trainable_pairs(*lengths, self.config.batching))
        if self.process.is_first and eligible < len(pairs):
            logger.info(
                "%s of %s pairs are longer than batching.max_source_length or max_target_length"
                " and are left out",
                f"{len(pairs) - eligible:,}",
                f"{len(pairs):,}",
            )
