"""The end of a run: chosen weights, model folder, scores and report."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from data_prep.data_report import write_runs_page
from nmt.base import layout
from nmt.base.errors import DiskError
from nmt.base.files import read_lines, write_json, write_lines
from nmt.base.progress import progress_bar
from nmt.config import Config, CorpusSource, ValidationMetric, to_plain
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.comparison import target_words
from nmt.evaluation.evaluate import Evaluation, corpus_test_set, evaluate_run, with_evaluation
from nmt.evaluation.model_card import Facts, TrainingData, model_card
from nmt.evaluation.report import write_report
from nmt.model.build import count_parameters
from nmt.model.cost import training_flops
from nmt.pages.html_page import relative_link
from nmt.run_folder import Run
from nmt.tracking.tracker import CompletedRun, Tracker
from nmt.trained_model import (
    TrainedModel,
    load_weights,
    model_folder,
    save_trained_model,
    word_forms,
)
from nmt.training.optimizer import step_flops
from nmt.training.trainer import Trainer
from nmt.training.validation import ValidationResult
from nmt.translation.confidence import Confidence
from nmt.translation.glossary import MOST_WORDS, frequent_words

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChosenWeights:
    """The weights that the model now has: a description, and their validation result."""

    description: str
    valid: ValidationResult


def finish(
    config: Config, corpus: PreparedCorpus, trainer: Trainer, tracker: Tracker
) -> list[Evaluation]:
    """Choose weights; write the model folder, evaluations, report and `result.json`."""
    chosen = choose_weights(config.training.validation_metric, trainer)
    logger.info("chosen on validation: %s", chosen.description)
    run = Run(config.run_folder)
    test_sets = [
        with_evaluation(corpus_test_set(corpus, split), config.evaluation)
        for split in corpus.test_splits
    ]
    evaluations = evaluate_run(trainer.model, config.decoding, corpus, run, test_sets)
    confidence, quality = _confidence(run, corpus, trainer.model, evaluations)
    scores = _scores(corpus, trainer, chosen, evaluations)
    scores = {**scores, "confidence": quality} if quality else scores
    _save_model(corpus, trainer, scores, confidence)
    result = _result(scores, trainer)
    write_report(run, result, trainer.model, corpus)
    # Before `result.json` exists: if the run is killed in between, its end is tracked again.
    tracker.completed(CompletedRun(config.run_folder, corpus.folder, result))
    write_json(config.run_folder / layout.RESULT_FILE, result)
    try:
        write_runs_page(corpus.folder, corpus.folder.name, _runs_on(corpus, run.outputs))
    except DiskError as error:  # several users may share a corpus that one of them can write
        logger.warning("the run is not listed in the folder of the corpus: %s", error)
    return evaluations


def _confidence(
    run: Run, corpus: PreparedCorpus, model: TrainedModel, evaluations: Sequence[Evaluation]
) -> tuple[Confidence | None, dict[str, Any]]:
    """Fit the confidence on validation; also return how good it is on the first test set."""
    sources, references = corpus.read_text("valid")
    translations = read_lines(run.folder / layout.VALID_HYPOTHESES_FILE)
    confidence = Confidence.fit(model, sources, translations, references)
    if confidence is None or not evaluations:
        return confidence, {}
    first = evaluations[0]
    test_set = first.test_set
    quality = confidence.quality(model, test_set.sources, first.hypotheses, test_set.references[0])
    if quality:
        logger.info(
            "confidence on %s: calibration error of words %.1f %%, rank correlation of expected and"
            " actual chrF %.2f",
            test_set.name,
            100 * quality["calibration_error"],
            quality["rank_correlation"],
        )
    return confidence, {"test_set": test_set.name, **quality} if quality else {}


def _cost(trainer: Trainer) -> dict[str, Any]:
    """Return the cost of the training."""
    config, state, model = trainer.config, trainer.state, trainer.model
    vocabulary_size = model.target_tokenizer.vocabulary_size
    flops = training_flops(config.model, vocabulary_size, state.metrics.processed)
    return {
        "training_flops": flops + state.update * step_flops(config.optimizer, model.network),
        "device_hours": state.device_seconds / 3600,
        "target_tokens": state.target_tokens,
        "parameters": count_parameters(model.network),
    }


def _scores(
    corpus: PreparedCorpus, trainer: Trainer, chosen: ChosenWeights, scored: Sequence[Evaluation]
) -> dict[str, Any]:
    """Return `scores.json` of the model folder."""
    config = trainer.config
    return {
        "chosen": chosen.description,
        "valid": {"loss": chosen.valid.loss, "bleu": chosen.valid.bleu},
        "generated_corpus": config.corpus.source is CorpusSource.phrasebook,
        "training_data": [asdict(each) for each in _training_data(config, corpus)],
        "decoding": to_plain(config.decoding),
        "test_sets": {e.test_set.name: e.to_json() for e in scored},
        "cost": _cost(trainer),
    }


def _save_model(
    corpus: PreparedCorpus, trainer: Trainer, scores: dict[str, Any], confidence: Confidence | None
) -> None:
    """Write the model folder with its README, the target language's word forms and confidence."""
    model, facts = trainer.model, TypeAdapter(Facts).validate_python(scores)
    readme = model_card(model.config, count_parameters(model.network), facts)
    words = frequent_words(target_words(corpus))
    if initial := trainer.config.training.initial_model:
        words = list(dict.fromkeys([*words, *word_forms(model_folder(Path(initial)))]))[:MOST_WORDS]
    calibration = confidence.to_json() if confidence else None
    folder = trainer.config.run_folder / layout.MODEL_FOLDER
    save_trained_model(model, folder, scores, readme, words, calibration)


def _result(scores: dict[str, Any], trainer: Trainer) -> dict[str, Any]:
    """Return `result.json` of the run."""
    state = trainer.state
    result = {
        **scores,
        "updates": state.update,
        "target_tokens": state.target_tokens,
        "training_seconds": state.seconds,
    }
    if trainer.micro_batch_size.times:
        result["halved_micro_batches"] = asdict(trainer.micro_batch_size)
    return result


def _training_data(config: Config, corpus: PreparedCorpus) -> list[TrainingData]:
    """Return the sources of the corpus, with the number of pairs that cleaning has kept."""
    name, sources = config.corpus.name, config.corpus.sources
    pairs = corpus.manifest.get("sources") or {name: len(corpus.train())}
    licences = {name: config.corpus.licence, **{key: s.licence for key, s in sources.items()}}
    return [TrainingData(key, number, licences.get(key, "")) for key, number in pairs.items()]


def _runs_on(corpus: PreparedCorpus, outputs: Path) -> list[tuple[Any, ...]]:
    """Return the rows of `write_runs_page` for the complete runs on a corpus, the last one first.

    Runs that cannot be read are left out.
    """
    found = [*outputs.glob(f"{layout.RUNS_FOLDER}/*"), *outputs.glob(f"{layout.SWEEPS_FOLDER}/*/*")]
    rows = []
    for run in sorted(map(Run, found), key=lambda run: (-run.completed, run.full_name)):
        known = run.known_corpus if run.final else None
        if known and run.final and known.folder.name == corpus.folder.name:
            address = relative_link(corpus.folder, run.folder / layout.REPORT_FILE)
            date = f"{datetime.fromtimestamp(run.completed):%Y-%m-%d %H:%M}"
            valid = run.final["valid"]
            rows.append((run.full_name, address, date, run.updates, valid["loss"], valid["bleu"]))
    return rows


def choose_weights(metric: ValidationMetric, trainer: Trainer) -> ChosenWeights:
    """Load the weights that are best on validation: those of a checkpoint, or an average.

    The average of the last checkpoints (Vaswani et al. 2017, section 6.1) is usually better than
    each of them, but not after early stopping.
    """
    store, network = trainer.store, trainer.model.network
    intact, best = set(store.intact()), trainer.state.best_update
    last = store.last_updates(trainer.config.training.average_checkpoints)
    candidates: dict[str, list[int]] = {}
    if best in intact:
        candidates[f"checkpoint of update {best:,}"] = [best]
    if len(last) > 1 or (last and not candidates):
        candidates[f"average of the last {len(last)} checkpoints"] = last
    results: dict[str, ValidationResult] = {}
    path = trainer.config.run_folder / layout.VALID_HYPOTHESES_FILE
    for name, members in candidates.items():
        if members == [best] and metric is ValidationMetric.bleu and path.is_file():
            # The state has the loss and BLEU of this checkpoint, and the file has its hypotheses.
            bleu, negative_loss = trainer.state.best_rank
            results[name] = ValidationResult(-negative_loss, bleu)
        else:
            load_weights(network, store.average(members), store.folder)
            with progress_bar("validating", len(trainer.validator.sources)) as advance:
                results[name] = trainer.validator.validate(advance)
        logger.info("%s: valid loss %.4f, BLEU %.2f", name, results[name].loss, results[name].bleu)
    chosen = max(results, key=lambda name: results[name].rank(metric))
    if results[chosen].hypotheses:  # else the file has those of the best checkpoint
        write_lines(path, results[chosen].hypotheses)
    load_weights(network, store.average(candidates[chosen]), store.folder)
    return ChosenWeights(chosen, results[chosen])
