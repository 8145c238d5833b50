"""The training loop."""

import contextlib
import logging
import time
from dataclasses import replace

from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.base.layout import CHECKPOINTS_FOLDER, SKIPPED_UPDATES_FILE, VALID_HYPOTHESES_FILE
from nmt.base.signals import Interruption
from nmt.config import Config
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Prefetcher, UpdateLoader, UpdateWork
from nmt.tracking.file_tracker import drop_later_records
from nmt.tracking.tracker import Tracker
from nmt.training.checkpoint import CheckpointStore, MicroBatchSize, TrainingState
from nmt.training.distributed import Process, lost_connection
from nmt.training.fresh_model import new_model
from nmt.training.memory import release_freed_memory
from nmt.training.metrics import MetricSums, RunningMetrics, record_skipped
from nmt.training.optimizer import build_optimizer
from nmt.training.run_log import RunLog, log_size
from nmt.training.updater import Gradient, OutOfMemory, Updater, start_tokens_on
from nmt.training.validation import Validator

logger = logging.getLogger(__name__)


class MemoryLimitError(Exception):
    """Memory ran out on one of several ranks; a restart uses smaller micro-batches."""


class Trainer:
    """Trains one run, from its last checkpoint if there is one."""

    def __init__(self, config: Config, corpus: PreparedCorpus, process: Process) -> None:
        self.config = config
        self.process = process
        self.model = new_model(config, corpus, process.device)
        self.train_pairs = corpus.train()
        mixing = corpus.mixing(config.corpus.mixing)
        self.loader = UpdateLoader(
            self.train_pairs,
            config.batching,
            config.training.seed,
            *self.model.tokenizers,
            rank=process.rank,
            world_size=process.world_size,
            mixing=mixing,
            start_tokens=start_tokens_on(process.device),
        )
        self.optimizer = build_optimizer(self.model.network, config.optimizer)
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
        self._updater = Updater(config, self.model.network, self.optimizer, process, sums)
        window = config.model.attention_window
        self._metrics = RunningMetrics(sums, self._updater.monitor, process, window)
        tokenizer = config.evaluation.tokenizer_of(config.corpus.target_language)
        self.validator = Validator(corpus, self.model, config.decoding, tokenizer)
        self._saved_update = self.state.update
        self._skipped_file = config.run_folder / SKIPPED_UPDATES_FILE
        # `run` replaces these; only the main process has a log.
        self._interruption = Interruption()
        self._log: RunLog | None = None
        if process.is_main_process:
            precision = self._updater.precision
            log_size(config.batching, self.train_pairs, mixing, self.model, process, precision)

    def run(self, tracker: Tracker | None = None) -> TrainingState:
        """Train until a limit is reached.

        In the main process, `metrics.jsonl` and the tracker receive the metrics.

        Raises:
            Interruption: a signal arrived; the last complete update is saved.
            MemoryLimitError: memory ran out on this rank, one of several.
        """
        with contextlib.ExitStack() as stack:
            if self.process.is_main_process:
                drop_later_records(self._skipped_file, self.state.update)
                log = RunLog(self.config, self.state, tracker or Tracker())
                self._log = stack.enter_context(contextlib.closing(log))
            self._interruption = stack.enter_context(Interruption.watched())
            try:
                self._loop()
                self._exit_if_signalled()  # a signal may arrive while the last state is written
            except Interruption:
                if self.state.update > self._saved_update:
                    self._save()
                if self._log is not None and self._saved_update:
                    saved = self._saved_update
                    logger.info(f"saved at update {saved:,}; the same command continues")
                raise
            except Exception as error:
                if self._interruption.signal_number and lost_connection(error):
                    self._interruption.exit()  # the launcher ends all ranks
                raise
        return self.state

    def update(self, work: UpdateWork) -> Gradient:
        """Compute a gradient and take the optimizer step, without metrics and checkpoints."""
        gradient = self._updater.gradient(work, lambda: None)
        self._updater.step(gradient, self.state.update + 1)
        return gradient

    def _loop(self) -> None:
        training = self.config.training
        self.model.network.train()
        self._start = time.monotonic() - self.state.seconds
        if self.state.validation_due:
            self._validate()
        self._metrics.start_clock()
        is_cuda = self.process.device.type == "cuda"
        make_work = (Prefetcher(self.loader) if is_cuda else self.loader).work
        is_done = self._is_done()
        while not is_done:
            work = make_work(self.state.position)
            try:
                gradient = self._updater.gradient(work, self._exit_if_signalled)
            except OutOfMemory as error:
                self._halve_micro_batches(error)
                continue
            self._step(work, gradient)
            if self.state.update % training.log_every == 0:
                sums = self._read_metrics()
                if self._log is not None:
                    self._log.updates(self.state, work.position.epoch, sums)
                self._metrics.sums = sums.restarted()
            is_done = self._is_done()
            if self.state.update % training.validate_every == 0 or is_done:
                self.state = replace(self.state, validation_due=True)
                self._save()
                self._validate()
                self._metrics.start_clock()
                is_done = self._is_done()

    def _step(self, work: UpdateWork, gradient: Gradient) -> None:
        """Change weights and state together; a signal in between is only recorded."""
        update = self.state.update + 1
        is_skipped = self._updater.step(gradient, update)
        self._metrics.add(update, work, gradient.loss, gradient.norm, is_skipped)
        self.state = replace(
            self._with_time(),
            update=update,
            position=work.next_position,
            target_tokens=self.state.target_tokens + work.num_target_tokens,
        )
        if self._log is not None:
            self._log.step(update)

    def _halve_micro_batches(self, error: OutOfMemory) -> None:
        """Use smaller micro-batches from this update on.

        Raises:
            MemoryLimitError: there are several ranks; all of them restart with the smaller size.
            UserError: one pair does not fit.
        """
        if error.rows == 1:
            raise UserError(
                f"{error}; not even one {error.kind} fits: lower batching.max_source_length and"
                " batching.max_target_length, or train a smaller model"
            )
        largest, update = self.loader.padded_tokens(self.state.position), self.state.update + 1
        folder = self.config.run_folder
        self.micro_batch_size = self.micro_batch_size.halved(largest, update, folder)
        message = (
            f"update {update:,}: {error}; from here on micro-batches are halved, to at most"
            f" {self.micro_batch_size.used:,} padded tokens, and the run is no longer bit-exact"
        )
        if self.process.world_size > 1:
            raise MemoryLimitError(f"{message}; all processes restart from the last checkpoint")
        logger.warning(message)
        self.loader.max_micro_batch_tokens = self.micro_batch_size.used

    def _exit_if_signalled(self) -> None:
        """Exit on all ranks in the same round if any rank has received a signal."""
        if self.process.any(bool(self._interruption.signal_number)):
            self._interruption.exit()

    def _validate(self) -> None:
        """Validate in the main process; all ranks get the result."""
        result = None
        if self._log is not None:
            # A signal ends the validation; the checkpoint records that it is still due.
            with (
                contextlib.suppress(Interruption),
                self._interruption.immediately(),
                self._log.validating(len(self.validator.sources)) as advance,
            ):
                result = self.validator.validate(advance)
        number, result = self.process.broadcast((self._interruption.signal_number, result))
        if result is None:
            raise Interruption(number)
        rank = list(result.rank(self.config.training.validation_metric))
        best = self.state.best_rank
        is_best = not best or rank > best
        # The loss breaks a tie of two checkpoints, but is no improvement of the metric.
        has_improved = not best or rank[0] > best[0]
        state = replace(self._with_time(), validation_due=False)
        if is_best:
            state = replace(state, best_rank=rank, best_update=state.update)
        without_best = 0 if has_improved else state.validations_without_best + 1
        self.state = replace(state, validations_without_best=without_best)
        if self._log is not None:
            self._log.validation(state, result, has_improved)
            if is_best:
                write_lines(self.config.run_folder / VALID_HYPOTHESES_FILE, result.hypotheses)
            self.store.update_state(self.state)
        release_freed_memory()

    def _with_time(self) -> TrainingState:
        """Return the training state with updated times."""
        seconds = time.monotonic() - self._start
        device_seconds = (seconds - self.state.seconds) * self.process.world_size
        device_seconds += self.state.device_seconds
        return replace(self.state, seconds=seconds, device_seconds=device_seconds)

    def _read_metrics(self) -> MetricSums:
        """Read the sums of all ranks and report skipped updates; UserError if they are too many."""
        sums, skipped = self._metrics.read()
        if skipped and self._log is not None:
            for item in skipped:
                record_skipped(item, self._skipped_file, self.loader, self.model)
            text = f"{len(skipped)} newly skipped, {sums.skipped} in all"
            self._log.alert(self.state.update, "skipped updates", text)
        if 0 < self.config.training.max_skipped_in_a_row <= sums.skipped_in_a_row:
            message = (
                f"training has diverged: {sums.skipped_in_a_row} updates in a row were skipped, up"
                f" to update {self.state.update:,}; their sentences are in {self._skipped_file}."
                " Lower schedule.peak_learning_rate, raise schedule.warmup_updates or, if the norms"
                " look normal, raise training.max_gradient_spike, and continue with"
                " run.accept_changes=KEY; if the sentences look wrong, clean the corpus and start"
                " another run"
            )
            if self._log is not None:
                self._log.alert(self.state.update, "training has diverged", message)
            raise UserError(message)
        return sums

    def _save(self) -> None:
        """Write a checkpoint, after the records of the updates before it."""
        self.state = replace(self.state, metrics=self._read_metrics())
        if self._log is not None:
            self._log.flush()
            self.store.save(self.model.network, self.optimizer, self.state)
        self.process.barrier()
        self._saved_update = self.state.update

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
        return self.store.load(newest, self.model.network, self.optimizer)

    def _is_done(self) -> bool:
        training, state = self.config.training, self.state
        if state.update >= training.max_updates:
            return True
        if 0 < training.patience <= state.validations_without_best:
            return True
        is_late = self.process.is_main_process and state.seconds >= training.max_minutes * 60
        return training.max_minutes > 0 and self.process.any(is_late)
