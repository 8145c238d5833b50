"""The training loop."""

import contextlib
import logging
import math
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nmt.config import Config, Precision
from nmt.data.batch import Batch, collate
from nmt.data.batching import eligible_pairs
from nmt.data.corpus import ParallelCorpus, PreparedCorpus
from nmt.data.loader import UpdateLoader, UpdateWork
from nmt.errors import UserError
from nmt.model.transformer import Transformer, count_parameters
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel, TrainedModelConfig, special_ids
from nmt.training.checkpoint import CheckpointStore, Progress
from nmt.training.distributed import Process
from nmt.training.loss import SummedLoss
from nmt.training.optimizer import build_optimizer
from nmt.training.run_log import RunLog
from nmt.training.schedule import learning_rate
from nmt.training.signals import Interruption
from nmt.training.throughput import Throughput
from nmt.training.validation import Validator

logger = logging.getLogger(__name__)


class Trainer:
    """Trains one run, from its last checkpoint if there is one.

    Args:
        config: the experiment.
        corpus: its prepared corpus.
        process: this process among those that train together.
    """

    def __init__(self, config: Config, corpus: PreparedCorpus, process: Process) -> None:
        self.config = config
        self.process = process
        self.model = new_model(config, corpus, process.device)
        self.train_pairs = corpus.train()
        self._check_pairs(self.train_pairs)
        self.loader = UpdateLoader(
            self.train_pairs,
            config.batching,
            config.training.seed,
            special_ids(self.model.source_tokenizer),
            special_ids(self.model.target_tokenizer),
            process.rank,
            process.world_size,
        )
        self.optimizer = build_optimizer(self.model.transformer, config.optimizer)
        self.store = CheckpointStore(
            config.run_folder / "checkpoints",
            config.training.validate_every,
            config.training.average_checkpoints,
        )
        restored = self.store.load_last(self.model.transformer, self.optimizer)
        run_id = process.from_first(secrets.token_hex(4))
        self.progress = restored or Progress(run_id=run_id)
        objective = SummedLoss(self.model.transformer, config.training.label_smoothing)
        self.objective: nn.Module = objective
        if process.world_size > 1:
            self.objective = DistributedDataParallel(objective)
        self.validator = Validator(corpus, self.model, config.decoding)
        self.precision = _precision(config.training.precision, process.device)

    def run(self) -> Progress:
        """Train until a limit is reached or the user interrupts.

        Raises:
            Interruption: a signal came; the last complete update is saved.
            UserError: the loss is no longer a number.
        """
        log = RunLog(self.config, self.progress) if self.process.is_first else None
        try:
            if log is not None:
                size = count_parameters(self.model.transformer)
                log.start(self.process, size, self.precision.name, self.progress)
            with Interruption.watched() as interruption:
                self._loop(log, interruption)
        finally:
            if log is not None:
                log.close()
        return self.progress

    def _loop(self, log: RunLog | None, interruption: Interruption) -> None:
        training = self.config.training
        self.model.transformer.train()
        throughput = Throughput()
        started = time.monotonic() - self.progress.seconds
        if self._is_over():
            return
        for work in self.loader.updates(self.progress.position):
            loss, gradient_norm = self.update(work)
            throughput.add(work, loss)
            self.progress = replace(
                self.progress,
                update=self.progress.update + 1,
                position=work.next_position,
                target_tokens=self.progress.target_tokens + work.num_target_tokens,
                seconds=time.monotonic() - started,
            )
            if self.progress.update % training.log_every == 0:
                self._record(log, throughput, work, float(gradient_norm))
            is_over, is_interrupted = self._agree(interruption)
            if self.progress.update % training.validate_every == 0 or is_over:
                self._validate(log)
                throughput.restart()
                self.progress = replace(self.progress, seconds=time.monotonic() - started)
                is_over, is_interrupted = self._agree(interruption)
                self._save()
            elif is_interrupted:
                self._save()
            if is_over:
                return
            if is_interrupted:
                if self.process.is_first:
                    update = f"{self.progress.update:,}"
                    logger.info("saved at update %s; the same command continues", update)
                interruption.end()

    def _agree(self, interruption: Interruption) -> tuple[bool, bool]:
        """Whether training is over, by the first process's clock, and whether any was interrupted.

        All processes leave at the same update, whichever of them was told to.
        """
        told = (self.process.is_first and self._is_over(), bool(interruption.signal_number))
        device = self.process.device if self.process.world_size > 1 else None
        is_over, is_interrupted = self.process.sum(torch.tensor(told, device=device).int()).tolist()
        return bool(is_over), bool(is_interrupted)

    def update(self, work: UpdateWork) -> tuple[Tensor, Tensor]:
        """One optimizer step.

        Returns:
            This process's loss, summed over its target tokens, and the norm of the gradient of all.
        """
        self.optimizer.zero_grad(set_to_none=True)
        # The loss is a sum, divided once by the tokens of the whole update. Data-parallel training
        # averages gradients over processes, so the sum over them needs the factor world_size.
        scale = self.process.world_size / work.num_target_tokens
        total = torch.zeros((), device=self.process.device)
        for number, batch in self._micro_batches(work):
            is_last = number == max(1, len(work.micro_batches)) - 1
            with self._gradients_shared(is_last), self._autocast():
                loss = self.objective(batch.to(self.process.device))
                (loss * (scale if work.micro_batches else 0.0)).backward()
            total += loss.detach() if work.micro_batches else 0.0
        max_norm = self.config.optimizer.max_gradient_norm or math.inf
        norm = nn.utils.clip_grad_norm_(self.model.transformer.parameters(), max_norm)
        rate = learning_rate(
            self.progress.update + 1, self.config.schedule, self.config.training.max_updates
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return total, norm

    def _micro_batches(self, work: UpdateWork) -> Iterator[tuple[int, Batch]]:
        """This process's micro-batches, each after seeding the chance that falls in it.

        A process without work gets one empty-handed batch, whose loss is multiplied by zero: it has
        to take part when gradients are shared.
        """
        seed = self.config.training.seed
        for place, micro_batch in enumerate(work.micro_batches):
            _seed_generators(seed, work.epoch, work.update_in_epoch, micro_batch.number)
            yield place, micro_batch.batch
        if not work.micro_batches:
            tokenizers = self.model.source_tokenizer, self.model.target_tokenizer
            yield 0, collate([([], [])], *(special_ids(tokenizer) for tokenizer in tokenizers))

    @contextlib.contextmanager
    def _gradients_shared(self, is_last: bool) -> Iterator[None]:
        if isinstance(self.objective, DistributedDataParallel) and not is_last:
            with self.objective.no_sync():
                yield
        else:
            yield

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        return torch.autocast(
            self.process.device.type, torch.bfloat16, enabled=self.precision is Precision.bfloat16
        )

    def _validate(self, log: RunLog | None) -> None:
        """Validate on the first process; all get its counters."""
        progress = self.progress
        if self.process.is_first:
            result = self.validator.validate()
            rank = result.rank(self.config.training.validation_metric)
            is_best = progress.best_rank is None or rank > progress.best_rank
            progress = replace(
                progress,
                best_rank=rank if is_best else progress.best_rank,
                best_update=progress.update if is_best else progress.best_update,
                validations_without_best=0 if is_best else progress.validations_without_best + 1,
            )
            assert log is not None
            log.validation(progress.update, result, is_best)
        self.progress = self.process.from_first(progress)

    def _save(self) -> None:
        if self.process.is_first:
            self.store.save(self.model.transformer, self.optimizer, self.progress)

    def _record(
        self, log: RunLog | None, throughput: Throughput, work: UpdateWork, norm: float
    ) -> None:
        figures = throughput.summary(self.process)
        if not math.isfinite(figures.mean_loss) or not math.isfinite(norm):
            raise UserError(
                f"update {self.progress.update}: loss {figures.mean_loss}, gradient norm {norm}:"
                " training has diverged; lower schedule.peak_learning_rate or raise"
                " schedule.warmup_updates"
            )
        if log is not None:
            log.updates(self.progress, work, figures, norm)

    def _is_over(self) -> bool:
        training, progress = self.config.training, self.progress
        return (
            progress.update >= training.max_updates
            or bool(training.max_minutes and progress.seconds >= training.max_minutes * 60)
            or bool(training.patience and progress.validations_without_best >= training.patience)
        )

    def _check_pairs(self, pairs: ParallelCorpus) -> None:
        batching = self.config.batching
        eligible = len(eligible_pairs(pairs.source_lengths, pairs.target_lengths, batching))
        if not eligible:
            raise UserError(
                f"none of the {len(pairs)} training pairs fits in"
                f" batching.max_source_length={batching.max_source_length} and"
                f" batching.max_target_length={batching.max_target_length} tokens; raise them"
            )
        if self.process.is_first and eligible < len(pairs):
            logger.info(
                "%s of %s pairs are longer than batching.max_source_length or max_target_length"
                " and are left out",
                f"{len(pairs) - eligible:,}",
                f"{len(pairs):,}",
            )


def new_model(config: Config, corpus: PreparedCorpus, device: torch.device) -> TrainedModel:
    """A model with fresh weights, drawn from the run's seed alone."""
    source_tokenizer = Tokenizer(corpus.source_tokenizer)
    target_tokenizer = Tokenizer(corpus.target_tokenizer)
    torch.manual_seed(config.training.seed)
    transformer = Transformer(
        config.model, source_tokenizer.vocabulary_size, target_tokenizer.vocabulary_size
    )
    return TrainedModel(
        TrainedModelConfig(
            source_language=corpus.source_language,
            target_language=corpus.target_language,
            joint_vocabulary=config.tokenizer.joint,
            max_source_length=config.batching.max_source_length,
            model=config.model,
            decoding=config.decoding,
        ),
        transformer.to(device),
        source_tokenizer,
        target_tokenizer,
    )


def _seed_generators(*place: int) -> None:
    """Seed torch by a place in training: neither a restart nor more processes change chance."""
    torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> 1))


def _precision(asked: Precision, device: torch.device) -> Precision:
    if asked is not Precision.auto:
        return asked
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return Precision.bfloat16 if has_bfloat16 else Precision.float32
