"""The end of a run: chosen weights, model folder, scores and report."""

import logging
from dataclasses import asdict

from pydantic import TypeAdapter

from nmt.base import layout
from nmt.base.files import write_json, write_lines
from nmt.base.progress import progress_bar
from nmt.config import Config, CorpusSource, ValidationMetric, to_plain
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.evaluate import Evaluation, evaluate_run
from nmt.evaluation.model_card import Facts, TrainingData, model_card
from nmt.evaluation.report import write_report
from nmt.model.cost import training_flops
from nmt.tracking.tracker import CompletedRun, Tracker
from nmt.trained_model import load_weights, save_trained_model
from nmt.training.optimizer import step_flops
from nmt.training.trainer import Trainer
from nmt.training.validation import ValidationResult
from nmt.translation.translator import Translator

logger = logging.getLogger(__name__)


def finish(
    config: Config, corpus: PreparedCorpus, trainer: Trainer, tracker: Tracker
) -> list[Evaluation]:
    """Choose weights; write the model folder, evaluations, report and `result.json`."""
    chosen, result = _choose_weights(config.training.validation_metric, trainer)
    logger.info("chosen on validation: %s", chosen)
    translator = Translator(trainer.model, config.decoding, logger.warning)
    evaluations = evaluate_run(translator, corpus, config.run_folder)
    state = trainer.state
    vocabulary_size = trainer.model.target_tokenizer.vocabulary_size
    flops = training_flops(config.model, vocabulary_size, state.metrics.processed)
    flops += state.update * step_flops(config.optimizer, trainer.model.network)
    scores = {
        "chosen": chosen,
        "valid": {"loss": result.loss, "bleu": result.bleu},
        "generated_corpus": config.corpus.source is CorpusSource.phrasebook,
        "training_data": [asdict(each) for each in _training_data(config, corpus)],
        "decoding": to_plain(config.decoding),
        "test_sets": {e.test_set.name: e.to_json() for e in evaluations},
        "cost": {
            "training_flops": flops,
            "device_hours": state.device_seconds / 3600,
            "target_tokens": state.target_tokens,
        },
    }
    facts = TypeAdapter(Facts).validate_python(scores)
    readme = model_card(trainer.model, facts)
    save_trained_model(trainer.model, config.run_folder / layout.MODEL_FOLDER, scores, readme)
    complete = {
        **scores,
        "updates": state.update,
        "target_tokens": state.target_tokens,
        "training_seconds": state.seconds,
    }
    if trainer.micro_batch_size.times:
        complete["halved_micro_batches"] = asdict(trainer.micro_batch_size)
    write_report(config.run_folder, complete, trainer.model, corpus)
    # Before `result.json` exists: if the run is killed in between, its end is tracked again.
    tracker.completed(CompletedRun(config.run_folder, corpus.folder, complete))
    write_json(config.run_folder / layout.RESULT_FILE, complete)
    return evaluations


def _training_data(config: Config, corpus: PreparedCorpus) -> list[TrainingData]:
    """Return the sources of the corpus, with the number of pairs that cleaning has kept."""
    name, sources = config.corpus.name, config.corpus.sources
    pairs = corpus.manifest.get("sources") or {name: len(corpus.train())}
    licences = {name: config.corpus.licence, **{key: s.licence for key, s in sources.items()}}
    return [TrainingData(key, number, licences.get(key, "")) for key, number in pairs.items()]


def _choose_weights(metric: ValidationMetric, trainer: Trainer) -> tuple[str, ValidationResult]:
    """Load the weights that are best on validation: those of a checkpoint, or an average.

    The average of the last checkpoints (Vaswani et al. 2017, section 6.1) is usually better than
    each of them, but not after early stopping. Return a description of the weights, and their
    validation result.
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
    return chosen, results[chosen]
