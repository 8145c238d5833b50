"""Open the folder of a run: create it, or check that it belongs to the experiment."""

import logging
import os
import platform
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from nmt.base import layout
from nmt.base.errors import UserError
from nmt.base.files import remove, temporary_path, write_json
from nmt.base.system import commit, processor_name, versions
from nmt.config import (
    BleuTokenizer,
    Compilation,
    Config,
    Layout,
    differing_values,
    is_free_key,
    save_config,
    to_plain,
)
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.evaluate import corpus_test_set, with_evaluation
from nmt.metrics.known_test_sets import identify
from nmt.metrics.scores import bleu_metric
from nmt.run_folder import Run
from nmt.training import distributed, fresh_model
from nmt.training.measured_library import measure_library
from nmt.training.memory_probe import first_epoch, resolve_auto
from nmt.training.updater import choose_updates

logger = logging.getLogger(__name__)

_PACKAGES = ("torch", "numpy", "sentencepiece", "datasets", "pyarrow", "sacrebleu", "safetensors")

# Keys, or their beginnings, that never change in a run, even if `run.accept_changes` names them:
# those of the data, its order, the model and the optimizer.
_FIXED_KEYS = (
    *("corpus.", "tokenizer.", "model.", "training.seed", "optimizer.name", "optimizer.lora_"),
    # The best checkpoint so far was chosen by these.
    *("training.validation_metric", "evaluation.bleu_tokenizer"),
    *("batching.layout", "batching.target_tokens_per_update"),
    *("batching.max_source_length", "batching.max_target_length"),
)


def environment(corpus_folder: Path, config: Config) -> dict[str, Any]:
    """Return `environment.json`: an id for trackers; code, packages, hardware and data of a run."""
    processes, local_processes = distributed.num_processes(config.training)
    return {
        "run_id": secrets.token_hex(4),
        "commit": commit(),
        "python": platform.python_version(),
        "packages": versions(_PACKAGES),
        "machine": platform.machine(),
        "processor": processor_name(),
        "cpu_library": measure_library(config.model.width, config.model.feed_forward_width),
        "processes": processes,
        "threads": distributed.threads_per_process(config.training.num_threads, local_processes),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "corpus": corpus_folder.name,
        "initial_weights": fresh_model.initial_weights(config),
    }


def check_configuration(config: Config) -> tuple[Config, list[str]]:
    """Compare an experiment with the configuration stored in its run folder, if there is one.

    Returns:
        The experiment, in which stored values replace `tokens_per_micro_batch=auto`,
        `layout=auto`, `compile=auto`, `bleu_tokenizer=auto` and `num_threads=0`; and a line for
        each difference that `run.accept_changes` allows.

    Raises:
        UserError: there is a difference that `run.accept_changes` does not allow.
    """
    run = Run(config.run_folder)
    if not run.has_begun:
        return config, []
    stored = run.config
    batching, training = config.batching, config.training
    if batching.is_auto:
        tokens = stored.batching.tokens_per_micro_batch
        batching = replace(batching, tokens_per_micro_batch=tokens)
    if batching.layout is Layout.auto:
        batching = replace(batching, layout=stored.batching.layout)
    if training.compile is Compilation.auto:
        training = replace(training, compile=stored.training.compile)
    evaluation = config.evaluation
    if evaluation.bleu_tokenizer is BleuTokenizer.auto:
        evaluation = replace(evaluation, bleu_tokenizer=stored.evaluation.bleu_tokenizer)
    has_same_processes = training.num_processes == stored.training.num_processes
    if not training.num_threads and has_same_processes:  # the number of threads changes rounding
        training = replace(training, num_threads=stored.training.num_threads)
    config = replace(config, batching=batching, training=training, evaluation=evaluation)
    differences = {
        key: f"{key}: the run has {old}, you asked for {new}"
        for key, (old, new) in differing_values(to_plain(stored), to_plain(config)).items()
        if not is_free_key(key)
    }
    accepted = set(config.run.accept_changes.replace(",", " ").split())
    fixed = [key for key in differences if key.startswith(_FIXED_KEYS)]
    refused = fixed or [key for key in differences if key not in accepted]
    if refused:
        keys = ",".join(sorted(accepted.union(refused)))
        remedy = f"to continue the run with the new values, add run.accept_changes={keys}"
        if fixed:
            remedy = "these keys define the data, the model, the optimizer or the chosen checkpoint"
        lines = "".join(f"\n  {differences[key]}" for key in refused)
        raise UserError(
            f"{config.run_folder} was started with a different configuration:{lines}\n{remedy};"
            " to train another model, choose another run.name"
        )
    return config, list(differences.values())


def _check_max_updates(config: Config, run: Run) -> None:
    """Raise UserError for a new `max_updates` with which a complete run cannot continue.

    The run has more updates, or another limit, which is unchanged, ended it early.
    """
    stored = run.config.training
    if stored.max_updates == config.training.max_updates:
        return
    result = run.result
    if config.training.max_updates < result["updates"]:
        raise UserError(
            f"{config.run_folder} has {result['updates']:,} updates, more than"
            f" training.max_updates={config.training.max_updates}"
        )
    is_out_of_time = 0 < stored.max_minutes * 60 <= result["training_seconds"]
    key = "max_minutes" if is_out_of_time else "patience"
    is_same = getattr(stored, key) == getattr(config.training, key)
    if result["updates"] < stored.max_updates and is_same:
        raise UserError(
            f"{config.run_folder} ended early, after {result['updates']:,} updates, by"
            f" training.{key}; change that key as well (0 means no limit), and add it to"
            " run.accept_changes"
        )


def open_run(config: Config, corpus_folder: Path) -> Config:
    """Create the run folder, or check that the existing one belongs to this experiment.

    Returns:
        The experiment, in which values replace `tokens_per_micro_batch=auto`, `layout=auto`,
        `compile=auto`, `bleu_tokenizer=auto` and `num_threads=0`.
    """
    folder = config.run_folder
    config, changes = check_configuration(config)
    run = Run(folder)
    if not run.has_begun:
        fresh_model.check(config, corpus_folder)
        training = distributed.with_num_threads(config.training, config.run.parallel_runs)
        config = choose_updates(replace(config, training=training))
        corpus = PreparedCorpus(corpus_folder)
        config = _with_bleu_tokenizer(config, corpus)
        epoch = first_epoch(config, corpus)  # an error leaves no run
        if config.batching.is_auto:
            config = resolve_auto(config, *epoch)
        write_json(folder / layout.ENVIRONMENT_FILE, environment(corpus_folder, config))
        save_config(config, folder / layout.CONFIG_FILE)
        return config
    stored = run.environment
    if stored["corpus"] != corpus_folder.name:
        raise UserError(
            f"{folder} was trained on {stored['corpus']}, but the corpus is now"
            f" {corpus_folder.name}, because the text, its cleaning or the tokenizer has changed;"
            " choose another run.name"
        )
    fresh_model.check_initial_weights(config, stored.get("initial_weights", ""))
    if changes:
        for line in changes:
            logger.info("changed from here on: %s", line)
        if run.is_complete:
            _check_max_updates(config, run)
            logger.info("%s was complete; training continues", folder)
            (folder / layout.RESULT_FILE).unlink()
        remove(folder / layout.EVALUATION_FOLDER)  # of other weights
        # `finish` takes this file for that of the best checkpoint. It may be of averaged weights.
        (folder / layout.VALID_HYPOTHESES_FILE).unlink(missing_ok=True)
        save_config(config, folder / layout.CONFIG_FILE)
    return config


def _with_bleu_tokenizer(config: Config, corpus: PreparedCorpus) -> Config:
    """Replace `bleu_tokenizer=auto`.

    Raises:
        UserError: the tokeniser does not work, or a test set has blank references.
    """
    evaluation = config.evaluation
    tokenizer = BleuTokenizer(evaluation.tokenizer_of(config.corpus.target_language))
    bleu_metric(tokenizer)
    for split in ("valid", *corpus.test_splits):
        test = with_evaluation(corpus_test_set(corpus, split), evaluation)
        for warning in identify(split, test.direction[1], test.references, tokenizer).warnings:
            logger.warning(f"{split}: {warning}")
    return replace(config, evaluation=replace(evaluation, bleu_tokenizer=tokenizer))


def point_latest(config: Config) -> None:
    """Point the link `latest` to this run by a relative path, so that the outputs can be moved."""
    outputs = Path(config.run.outputs)
    latest = outputs / layout.LATEST_LINK
    if latest.is_dir() and not latest.is_symlink():
        logger.warning(f"{latest} is a folder and stays; rename it to get a link to the last run")
        return
    with temporary_path(latest) as temporary:
        temporary.symlink_to(os.path.relpath(config.run_folder, outputs))
        os.replace(temporary, latest)
