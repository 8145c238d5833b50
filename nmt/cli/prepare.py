"""Prepare a corpus: clean, learn subwords, write shards.

nmt prepare [experiment=NAME] [corpus=PRESET] [key=value] …

An unchanged corpus is not prepared again.
run.dry_run=true reads the first pairs of each source, and shows how many of them the filters of the
configuration and of each preset of `cleaning` would drop. It prepares nothing, but keeps downloads.
"""

from omegaconf import DictConfig

from data_prep.dry_run import dry_run
from data_prep.prepare import prepare_corpus
from data_prep.progress import Reporter
from nmt.base.layout import REPORT_FILE
from nmt.base.log import print_written
from nmt.cli.application import application
from nmt.cli.compose import compose_config, presets, to_config
from nmt.config import Config


@application(Config, primary="config", groups=("corpus", "prepare", "tokenizer", "run"))
def main(composed: DictConfig) -> None:
    """Prepare the corpus of an experiment; in a dry run, only count what filters would drop."""
    config = to_config(composed)
    if config.run.dry_run:
        names = presets("cleaning")
        cleanings = {name: compose_config([f"cleaning={name}"]).corpus.cleaning for name in names}
        dry_run(config.corpus, cleanings, config.corpora_folder, Reporter(), config.evaluation)
        return
    folder = prepare_corpus(config)
    print_written([folder, folder / REPORT_FILE])
