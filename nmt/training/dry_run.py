"""Cost of a training before it starts: parameters, FLOPs, epochs, and measured time and memory."""

import logging
import math
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch

from nmt.config import Config, ValidationMetric
from nmt.data.corpus import PreparedCorpus
from nmt.data.plan import EpochPlan
from nmt.model.build import count_parameters, meta_model
from nmt.model.cost import Processed, training_flops
from nmt.training import distributed
from nmt.training.fresh_model import new_model
from nmt.training.memory_probe import first_epoch, heaviest_shapes, measure_updates, resolve_auto
from nmt.training.optimizer import step_flops
from nmt.training.updater import choose_updates
from nmt.training.validation import valid_text
from nmt.translation.translator import Translator

logger = logging.getLogger(__name__)

# Number of updates of the plan whose largest micro-batches are measured.
_NUM_MEASURED = 3
# Maximum number of updates of the plan over which the mean work is taken.
_MAX_UPDATES = 200


def log_cost(config: Config, corpus_folder: Path | None) -> None:
    """Log what training would take; `corpus_folder` is None if the corpus is not prepared."""
    logger.info("dry run: nothing is trained")
    corpus = PreparedCorpus(corpus_folder) if corpus_folder else None
    config = choose_updates(config)
    plan, sizes = first_epoch(config, corpus)
    if config.batching.is_auto:
        config = resolve_auto(config, plan, sizes)
    plan = replace(plan, max_micro_batch_tokens=config.batching.max_micro_batch_tokens)
    network = meta_model(config.model, *sizes)
    gradient_flops, padding = _mean_work(config, plan, sizes[1])
    flops = gradient_flops + step_flops(config.optimizer, network)
    updates = config.training.max_updates
    _log("parameters", f"{count_parameters(network):,}")
    _log("FLOPs", f"{flops:.3g} per update, {flops * updates:.3g} in all")
    epoch = (
        f"{plan.num_updates:,} updates, {len(plan.order):,} pairs, {100 * padding:.1f} % padding;"
        f" training: {updates:,} updates, {updates / plan.num_updates:.1f} epochs"
    )
    if corpus is None:
        epoch = (
            "unknown: the corpus is not prepared (`make prepare` prepares it); all sentences are"
            f" assumed to have {plan.target_lengths[0]} tokens"
        )
    _log("epoch", epoch)
    _log_measured(config, corpus, plan, sizes, gradient_flops)


def _log(name: str, text: str) -> None:
    logger.info(f"{name:<12} {text}")


def _mean_work(config: Config, plan: EpochPlan, vocabulary_size: int) -> tuple[float, float]:
    """Return the mean FLOPs of the gradient of an update, and the share of padding."""
    updates = range(0, plan.num_updates, -(-plan.num_updates // _MAX_UPDATES))
    processes, _ = distributed.num_processes(config.training)
    parts = [part for update in updates for part in plan.micro_batches(update, processes)]
    pairs = np.concatenate([part.pairs for part in parts])
    num_target_tokens = int(plan.target_lengths[pairs].sum())
    shapes = [part.shape for part in parts]
    processed = Processed.of(shapes, num_target_tokens, config.model.attention_window)
    tokens = int(plan.source_lengths[pairs].sum()) + num_target_tokens
    flops = training_flops(config.model, vocabulary_size, processed)
    return flops / len(updates), 1 - tokens / (processed.source + processed.target)


def _log_measured(
    config: Config,
    corpus: PreparedCorpus | None,
    plan: EpochPlan,
    sizes: tuple[int, int],
    mean_flops: float,
) -> None:
    """Measure and log memory and time; the gradient of an update takes `mean_flops` on average.

    The memory is measured with the heaviest micro-batches, and the time per FLOP with the largest
    micro-batch of each of three updates.
    """
    training = config.training
    numbers = np.linspace(0, plan.num_updates - 1, _NUM_MEASURED, dtype=int)
    processes, on_host = distributed.num_processes(training)
    shapes = [plan.micro_batches(number, processes)[0].shape for number in numbers]
    heaviest = heaviest_shapes(config, plan, plan.max_micro_batch_tokens)
    found = measure_updates(config, sizes, [heaviest, shapes])
    if found is None or not found.fits:
        _log("memory", f"{found or 'out of memory'}; lower batching.tokens_per_micro_batch")
        return
    _log("memory", str(found))
    num_target_tokens = sum(pairs * target for pairs, _, target in shapes)
    measured = Processed.of(shapes, num_target_tokens, config.model.attention_window)
    flops = training_flops(config.model, sizes[1], measured)
    evenness = plan.evenness(processes)
    gradient_seconds = found.gradient_seconds * mean_flops / flops / processes / evenness
    seconds = gradient_seconds + found.step_seconds
    total, validations = seconds * training.max_updates, "validation not included"
    threads = distributed.threads_per_process(training.num_threads, on_host)
    if corpus is not None:
        torch.set_num_threads(threads)
        validation = _validation_seconds(config, corpus)
        number = math.ceil(training.max_updates / training.validate_every)
        # At the end, the average is validated, and the best checkpoint if its BLEU is not known.
        number += training.average_checkpoints > 1
        number += training.validation_metric is ValidationMetric.loss
        total += number * validation
        validations = f"{number} validations of about {validation:.3g} s included"
    in_all = timedelta(seconds=round(total))
    _log("time", f"{seconds:.3g} s per update, about {in_all} in all, {validations}")
    device = f"{threads} CPU thread{'s' if threads > 1 else ''} if the cores are idle"
    if torch.cuda.is_available():
        device = torch.cuda.get_device_name()
    speed = f"{flops / found.gradient_seconds:.3g} FLOPs per second on {device}"
    if processes > 1:
        speed += f"; {processes} ranks, busy for {100 * evenness:.0f} % of the time"
        if not torch.cuda.is_available():
            logger.warning("no GPU is available: the time assumes cores for each process")
    _log("speed", speed)


def _validation_seconds(config: Config, corpus: PreparedCorpus) -> float:
    """Estimate the seconds to translate `valid`, by one batch with outputs of the mean length."""
    model = new_model(config, corpus, distributed.local_device())
    sources, references = valid_text(corpus)
    sample = sources[:: -(-len(sources) // config.decoding.batch_size)]
    tokens = sum(map(len, model.target_tokenizer.encode(references)))
    length = max(config.decoding.min_length, tokens // len(references) + 1)
    translator = Translator(model, replace(config.decoding, max_length=length))
    start = time.perf_counter()
    translator.translate(sample)
    return (time.perf_counter() - start) * len(sources) / len(sample)
