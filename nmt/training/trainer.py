"""The training loop."""

import contextlib
import logging
import time
from dataclasses import replace

from nmt.base.errors import UserError
from nmt.base.layout import CHECKPOINTS_FOLDER
from nmt.base.system import num_cores
from nmt.config import Config
from nmt.data.batching import trainable_pairs
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import UpdateLoader, UpdateWork
from nmt.model.transformer import count_parameters
from nmt.trained_model import special_ids
from nmt.training.checkpoint import CheckpointStore
from nmt.training.distributed import Process, lost_connection
from nmt.training.fresh_model import new_model
from nmt.training.memory import release_freed_memory
from nmt.training.metrics import GradientMonitor, MetricSums, RunningMetrics, SkippedUpdates
from nmt.training.optimizer import build_optimizer
from nmt.training.run_log import RunLog
from nmt.training.signals import Interruption
from nmt.training.training_state import MicroBatchSize, TrainingState
from nmt.training.updater import Gradient, OutOfMemory, Updater
from nmt.training.validation import Validator

logger = logging.getLogger(__name__)


class MemoryLimitError(Exception):
    """Memory ran out on one of several ranks; a restart uses smaller micro-batches."""


class Trainer:
    """Trains one run, from its last checkpoint if there is one; trackers know it by `run_id`."""

    def __init__(
        self, config: Config, corpus: PreparedCorpus, process: Process, run_id: str = "run"
    ) -> None:
        self.config = config
        self.process = process
        self.run_id = run_id
        self.model = new_model(config, corpus, process.device)
        self.train_pairs = corpus.train()
        tokenizers = self.model.source_tokenizer, self.model.target_tokenizer
        source_ids, target_ids = map(special_ids, tokenizers)
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
            config.run_folder / CHECKPOINTS_FOLDER,
            config.training.validate_every,
            config.training.average_checkpoints,
        )
        self.state = self._restore()
        asked = config.batching.max_micro_batch_tokens
        self.micro_batch_size = process.broadcast(MicroBatchSize.read(config.run_folder, asked))
        self.loader.max_micro_batch_tokens = self.micro_batch_size.used
        sums = self.state.metrics
        monitor = GradientMonitor(
            config.training.max_gradient_spike, sums.mean_norm, sums.num_norms, process.device
        )
        self._updater = Updater(config, self.model.transformer, self.optimizer, monitor, process)
        self._metrics = RunningMetrics(sums, monitor, process)
        self.validator = Validator(corpus, self.model, config.decoding)
        self._saved_update = self.state.update
        self._start = time.monotonic()  # of training, less the time of earlier starts
        # Only the main process has these.
        self._log: RunLog | None = None
        self._skipped: SkippedUpdates | None = None
        if process.is_main_process:
            self._skipped = SkippedUpdates(config, self.loader, tokenizers, self.state.update)
            self._report_size()

    def run(self) -> TrainingState:
        """Train until a limit is reached.

        Raises:
            Interruption: a signal arrived; the last complete update is saved.
            MemoryLimitError: memory ran out on this rank, one of several.
        """
        with contextlib.ExitStack() as stack:
            if self.process.is_main_process:
                log = RunLog(self.config, self.run_id, self.state)
                self._log = stack.enter_context(contextlib.closing(log))
            interruption = stack.enter_context(Interruption.watched())
            try:
                self._loop(interruption)
                self._exit_if_signalled(interruption)  # while the last state was written
            except Interruption:
                self._save_before_exit()
                raise
            except Exception as error:
                if interruption.signal_number and lost_connection(error):
                    interruption.exit()  # the launcher ends all ranks
                raise
        return self.state

    def update(self, work: UpdateWork) -> Gradient:
        """Compute a gradient and take the optimizer step, without metrics and checkpoints."""
        gradient = self._updater.gradient(work, lambda: None)
        self._updater.step(gradient, self.state.update + 1)
        return gradient

    def _loop(self, interruption: Interruption) -> None:
        training = self.config.training
        self.model.transformer.train()
        self._start = time.monotonic() - self.state.seconds
        if self.state.validation_due:
            self._validate(interruption)
        self._metrics.start_clock()
        works = self.loader.updates(self.state.position)
        is_done = self._is_done()
        while not is_done:
            work = next(works)
            try:
                gradient = self._updater.gradient(
                    work, lambda: self._exit_if_signalled(interruption)
                )
            except OutOfMemory as error:
                self._halve_micro_batches(error)
                works = self.loader.updates(self.state.position)
                continue
            self._step(work, gradient)
            if self.state.update % training.log_every == 0:
                sums = self._read_metrics()
                if self._log is not None:
                    self._log.updates(self.state, work.epoch, sums)
                self._metrics.restart()
            is_done = self._is_done()
            if self.state.update % training.validate_every == 0 or is_done:
                self.state = replace(self.state, validation_due=True)
                self._save()
                self._validate(interruption)
                self._metrics.start_clock()
                is_done = self._is_done()

    def _step(self, work: UpdateWork, gradient: Gradient) -> None:
        """Change weights and state together; signals are only recorded here."""
        update = self.state.update + 1
        is_skipped = self._updater.step(gradient, update)
        self._metrics.add(update, work, gradient.loss, gradient.norm, is_skipped)
        self.state = replace(
            self._with_time(self.state),
            update=update,
            position=work.next_position,
            target_tokens=self.state.target_tokens + work.num_target_tokens,
        )
        if self._log is not None:
            self._log.step(update)

    def _halve_micro_batches(self, error: OutOfMemory) -> None:
        """Use smaller micro-batches from this update on; several ranks restart for that."""
        if error.rows == 1:
            raise UserError(
                f"{error}; not even one pair fits: lower batching.max_source_length and"
                " batching.max_target_length, or train a smaller model"
            )
        largest, update = self.loader.padded_tokens(self.state.position), self.state.update + 1
        self.micro_batch_size = self.micro_batch_size.halved(largest, update)
        self.micro_batch_size.write(self.config.run_folder)
        message = (
            f"update {update:,}: {error}; from here on micro-batches are halved, to at most"
            f" {self.micro_batch_size.used:,} padded tokens, and the run is no longer bit-exact"
        )
        if self.process.world_size > 1:
            raise MemoryLimitError(f"{message}; all processes restart from the last checkpoint")
        logger.warning(message)
        # The micro-batches of skipped updates are looked up before the size changes.
        self._read_metrics()
        self.loader.max_micro_batch_tokens = self.micro_batch_size.used

    def _exit_if_signalled(self, interruption: Interruption) -> None:
        """Exit on all ranks in the same round if any rank has received a signal."""
        if self.process.any(bool(interruption.signal_number)):
            interruption.exit()

    def _validate(self, interruption: Interruption) -> None:
        """Validate in the main process; all ranks get the new state."""
        state = None
        if self._log is not None:
            # After a signal the validation remains due, as the checkpoint records.
            with contextlib.suppress(Interruption), interruption.immediately():
                state = self._validated(self._log)
        received, state = self.process.broadcast((interruption.signal_number, state))
        if state is None:
            interruption.signal_number = interruption.signal_number or received
            interruption.exit()
        self.state = state
        if self.process.is_main_process:
            self.store.update_state(self.state)
        release_freed_memory()

    def _validated(self, log: RunLog) -> TrainingState:
        """Validate and return the state after that."""
        with log.validating(len(self.validator.sources)) as advance:
            result = self.validator.validate(advance)
        state = self._with_time(self.state)
        rank = list(result.rank(self.config.training.validation_metric))
        is_best = not state.best_rank or rank > state.best_rank
        log.validation(state.update, result, is_best)
        state = replace(state, validation_due=False)
        if is_best:
            return replace(
                state, best_rank=rank, best_update=state.update, validations_without_best=0
            )
        return replace(state, validations_without_best=state.validations_without_best + 1)

    def _with_time(self, state: TrainingState) -> TrainingState:
        """The state with the current times."""
        seconds = time.monotonic() - self._start
        more = max(0.0, seconds - state.seconds) * self.process.world_size
        return replace(state, seconds=seconds, device_seconds=state.device_seconds + more)

    def _read_metrics(self) -> MetricSums:
        """Read the sums of all ranks, and report the updates skipped since the last call."""
        sums, skipped = self._metrics.read()
        if self._skipped is not None:
            self._skipped.report(skipped, sums.skipped_in_a_row)
        return sums

    def _save(self) -> None:
        """Write a checkpoint, after the records of the updates before it."""
        self.state = replace(self.state, metrics=self._read_metrics())
        if self._log is not None:
            self._log.flush()
            self.store.save(self.model.transformer, self.optimizer, self.state)
        self.process.barrier()
        self._saved_update = self.state.update

    def _save_before_exit(self) -> None:
        if self.state.update > self._saved_update:
            self._save()
        if self._log is not None and self._saved_update:
            logger.info("saved at update %s; the same command continues", f"{self._saved_update:,}")

    def _restore(self) -> TrainingState:
        """Load the newest intact checkpoint, if there is one."""
        newest = self.process.broadcast(
            self.store.newest() if self.process.is_main_process else None
        )
        if not newest:
            return TrainingState()
        if newest not in self.store.updates():
            raise UserError(
                f"process {self.process.rank} cannot read {self.store.path(newest)}: all hosts"
                " need the same folder run.outputs"
            )
        return self.store.load(newest, self.model.transformer, self.optimizer)

    def _is_done(self) -> bool:
        training, state = self.config.training, self.state
        if state.update >= training.max_updates:
            return True
        if 0 < training.patience <= state.validations_without_best:
            return True
        is_late = 0 < training.max_minutes * 60 <= state.seconds
        return training.max_minutes > 0 and self.process.any(
            self.process.is_main_process and is_late
        )

    def _report_size(self) -> None:
        pairs = self.train_pairs
        lengths = pairs.source_lengths, pairs.target_lengths
        kept = len(trainable_pairs(*lengths, self.config.batching))
        if kept < len(pairs):
            logger.info(
                "%s of %s pairs are longer than batching.max_source_length or max_target_length"
                " and are left out",
                f"{len(pairs) - kept:,}",
                f"{len(pairs):,}",
            )
        logger.info(
            "training %.2f million parameters with %d process(es) on %s in %s",
            count_parameters(self.model.transformer) / 1e6,
            self.process.world_size,
            self.process.device.type,
            self._updater.precision.name,
        )
        if self.process.world_size > 1 and self.process.device.type == "cpu":
            logger.warning(
                "no GPU is available: %d processes share %d CPU cores",
                self.process.world_size,
                num_cores(),
            )
