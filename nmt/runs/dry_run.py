"""Report what a training would take, without training."""

from dataclasses import replace
from pathlib import Path

from data_prep.dry_run import read_samples
from data_prep.own_tokenizer import open_own, own_models
from data_prep.prepare import find_prepared
from data_prep.progress import Reporter
from nmt.base import layout
from nmt.base.log import set_up_logging
from nmt.config import Config, CorpusSource
from nmt.runs.opening import check_configuration
from nmt.tracking.trackers import check_trackers
from nmt.trained_model import load_trained_model
from nmt.training import distributed, fresh_model
from nmt.training.dry_run import log_cost


def dry_run(config: Config) -> None:
    """Log size, memory and time of a training; of several processes, only the first one does.

    Raises:
        UserError: the training would refuse its trackers, its run folder, its tokenizer or its
            initial model.
    """
    if distributed.is_launched():
        distributed.check_launcher()
    layout.check_links_stay_inside(config.run_folder)
    set_up_logging()
    check_trackers(config.tracking)
    check_configuration(config)
    if not distributed.is_main_process():
        return
    training = distributed.with_num_threads(config.training, config.run.parallel_runs)
    tokenizer = config.tokenizer
    if models := own_models(tokenizer, config.corpus):
        tokenizer = replace(tokenizer, vocabulary_size=open_own(models[-1]).vocabulary_size)
    corpus_folder = find_prepared(config.corpus, config.tokenizer, config.corpora_folder)
    if corpus_folder:
        fresh_model.check(config, corpus_folder)
    else:
        if config.corpus.source is CorpusSource.folder:
            read_samples(config.corpus, config.corpora_folder, Reporter(), config.evaluation)
        if config.training.initial_model:
            load_trained_model(Path(config.training.initial_model))
    log_cost(replace(config, training=training, tokenizer=tokenizer), corpus_folder)
