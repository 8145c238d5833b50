"""One run from a prepared corpus to a scored model folder."""

import logging
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nmt.config import (
    FREE_KEYS,
    Config,
    CorpusSource,
    ValidationMetric,
    differing_keys,
    load_config,
    save_config,
    to_plain,
)
from nmt.data.corpus import PreparedCorpus
from nmt.decoding.translator import Translator
from nmt.errors import UserError
from nmt.evaluation.evaluate import Evaluation, evaluate_run
from nmt.evaluation.report import write_report
from nmt.files import read_json, write_json
from nmt.model.cost import training_flops
from nmt.trained_model import CONFIG_FILE, load_weights, save_trained_model
from nmt.training import distributed
from nmt.training.environment import environment
from nmt.training.optimizer import step_flops
from nmt.training.probe import resolve_auto
from nmt.training.signals import Interruption
from nmt.training.trainer import Trainer
from nmt.training.validation import ValidationResult

logger = logging.getLogger(__name__)

RUN_CONFIG_FILE = "config.yaml"
ENVIRONMENT_FILE = "environment.json"
RESULT_FILE = "result.json"

# Keys that fix the order of the data or the shape of what is in a checkpoint: nobody can continue
# with others.
_FIXED_KEYS = (
    *("corpus.", "tokenizer.", "model.", "training.seed", "optimizer.name"),
    *("batching.target_tokens_per_update", "batching.max_source_length"),
    "batching.max_target_length",
)


def is_complete(run_folder: Path) -> bool:
    """Whether the run has ended and its model folder is written."""
    return (run_folder / RESULT_FILE).is_file()


def read_result(run_folder: Path) -> dict[str, Any]:
    """What a completed run left in `result.json`."""
    result: dict[str, Any] = read_json(run_folder / RESULT_FILE)
    return result


def open_run(config: Config, corpus_folder: Path) -> Config:
    """Make the run's folder, or check that the one that is there belongs to this experiment.

    Returns:
        The experiment with a number where `auto` was asked for: found now, or when it began.

    Raises:
        UserError: the folder was made by another configuration or on another corpus, or memory has
            no room for one sentence.
    """
    folder = config.run_folder
    stored_path = folder / RUN_CONFIG_FILE
    environment_path = folder / ENVIRONMENT_FILE
    if stored_path.is_file():
        stored = load_config(Config, stored_path)
        if config.batching.is_auto:
            tokens = stored.batching.tokens_per_micro_batch
            batching = replace(config.batching, tokens_per_micro_batch=tokens)
            config = replace(config, batching=batching)
        accepted = _accepted_changes(config, stored)
        corpus_name = read_json(environment_path)["corpus"]
        if corpus_name != corpus_folder.name:
            raise UserError(
                f"{folder} was trained on {corpus_name}, but the corpus is now"
                f" {corpus_folder.name}: its text or its cleaning has changed; choose another"
                " run.name"
            )
        if accepted:
            for line in accepted:
                logger.info("accepted from here on (stored != asked): %s", line)
            if is_complete(folder):
                logger.info("%s was complete; it goes on", folder)
                (folder / RESULT_FILE).unlink()
            save_config(config, stored_path)
        return config
    if config.batching.is_auto:
        config = resolve_auto(config, PreparedCorpus(corpus_folder))
    write_json(environment_path, environment(corpus_folder, config.training))
    save_config(config, stored_path)
    return config


def _accepted_changes(config: Config, stored: Config) -> list[str]:
    """What differs from the run's own configuration, all of it accepted by the user by name.

    Raises:
        UserError: something is not, or cannot be accepted.
    """
    folder = config.run_folder
    differing = [key for key in differing_keys(stored, config) if not key.startswith(FREE_KEYS)]
    accepted = {key.strip() for key in config.run.accept_changes.split(",") if key.strip()}
    for key in accepted:
        if key.startswith(_FIXED_KEYS) and not key.startswith(FREE_KEYS):
            raise UserError(
                f"run.accept_changes={key}: a run cannot go on with another {key}, which fixes the"
                " order of its data or the shape of its model; choose another run.name"
            )
    refused = [line for line in differing if line.partition(":")[0] not in accepted]
    if refused:
        raise UserError(
            f"{folder} was made by another configuration (stored != asked):\n  "
            + "\n  ".join(refused)
            + "\nchoose another run.name, or remove that folder to start over"
        )
    return differing


def run_experiment(config: Config, corpus_folder: Path) -> list[Evaluation] | None:
    """Train, choose the best weights, save the model folder and score it on every test set.

    Every process of a training calls this; the first one alone validates, chooses and writes.

    Returns:
        The evaluations, one a test set; None in all processes but the first.
    """
    process = distributed.join(config.training)
    # Only the first one has opened the run: what was asked for may be `auto` elsewhere.
    config = replace(config, batching=process.from_first(config.batching))
    corpus = PreparedCorpus(corpus_folder)
    trainer = Trainer(config, corpus, process, _run_id(config.run_folder))
    try:
        trainer.run()
    except Interruption:
        # All have agreed to end; the first one's store answers until the last has heard of it.
        distributed.leave()
        raise
    # Not after an error: others may still wait in a collective, which would make us wait for them.
    evaluations = _finish(config, corpus, trainer) if process.is_first else None
    process.wait_for_first()
    distributed.leave()
    return evaluations


def _run_id(folder: Path) -> str:
    """wandb's id of the run, the same over restarts."""
    path = folder / ENVIRONMENT_FILE
    values = read_json(path)
    if "run_id" not in values:
        raise UserError(
            f"{path}: has no run_id: the run was begun by an earlier version of this"
            " program; choose another run.name"
        )
    return str(values["run_id"])


def _finish(config: Config, corpus: PreparedCorpus, trainer: Trainer) -> list[Evaluation]:
    chosen, result = _choose_weights(config.training.validation_metric, trainer)
    logger.info("chosen on validation: %s (loss %.4f, BLEU %.2f)", chosen, result.loss, result.bleu)
    translator = Translator(trainer.model, config.decoding, logger.warning)
    evaluations = evaluate_run(translator, corpus, config, logger.info)
    progress = trainer.progress
    vocabulary_size = trainer.model.target_tokenizer.vocabulary_size
    flops = training_flops(config.model, vocabulary_size, progress.counts.processed)
    flops += progress.update * step_flops(config.optimizer, config.model)
    scores = {
        "chosen": chosen,
        "valid": {"loss": result.loss, "bleu": result.bleu},
        "generated_corpus": config.corpus.source is CorpusSource.phrasebook,
        "decoding": to_plain(config.decoding),
        "test_sets": {e.test_set.name: e.to_json() for e in evaluations},
        "cost": {
            "training_flops": flops,
            "device_hours": progress.device_seconds / 3600,
            "target_tokens": progress.target_tokens,
        },
    }
    save_trained_model(trainer.model, config.run_folder / "model", scores)
    complete = {
        **scores,
        "updates": progress.update,
        "target_tokens": progress.target_tokens,
        "training_seconds": progress.seconds,
    }
    if progress.halvings.times:
        complete["halved_micro_batches"] = asdict(progress.halvings)
    outputs = Path(config.run.outputs)
    write_report(config.run_folder, complete, trainer.model, corpus, outputs)
    write_json(config.run_folder / RESULT_FILE, complete)
    return evaluations


def _choose_weights(metric: ValidationMetric, trainer: Trainer) -> tuple[str, ValidationResult]:
    """Put the weights that are best on validation into the model: one checkpoint, or an average.

    The average of the last checkpoints (Vaswani et al. 2017, section 6.1) is usually better than
    each of them, but not after early stopping: hence the comparison.
    """
    store, transformer = trainer.store, trainer.model.transformer
    best, regular = trainer.progress.best_update, store.regular_updates()
    whole = store.whole(sorted({best, *regular}))
    last = [update for update in regular if update in whole]
    candidates: dict[str, Sequence[int]] = {}
    if best in whole:
        candidates[f"checkpoint of update {best:,}"] = [best]
    if len(last) > 1 or (last and not candidates):
        candidates[f"average of the last {len(last)} checkpoints"] = last
    results: dict[str, ValidationResult] = {}
    for name, members in candidates.items():
        load_weights(transformer, store.average(list(members)), store.folder)
        results[name] = trainer.validator.validate()
        logger.info("%s: valid loss %.4f, BLEU %.2f", name, results[name].loss, results[name].bleu)
    chosen = max(results, key=lambda name: results[name].rank(metric))
    load_weights(transformer, store.average(list(candidates[chosen])), store.folder)
    return chosen, results[chosen]


def point_latest(config: Config) -> Path:
    """Make `outputs/latest` lead to this run, relative, so that the outputs can be moved."""
    outputs = Path(config.run.outputs)
    link = outputs / "latest"
    temporary = outputs / f".latest.{os.getpid()}.tmp"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(os.path.relpath(config.run_folder, outputs))
    os.replace(temporary, link)
    return link


def find_model(outputs: Path = Path("outputs")) -> Path:
    """The model folder of the last completed run.

    Raises:
        UserError: no run has been completed.
    """
    folder = outputs / "latest" / "model"
    if not (folder / CONFIG_FILE).is_file():
        raise UserError(
            f"{folder}: no such model folder: no run is complete yet; run `make train`, or name a"
            " model with MODEL="
        )
    return folder
