"""Prepare a corpus: clean, learn subwords, write shards. An unchanged corpus is not prepared again.

python -m nmt.cli.prepare [experiment=NAME] [corpus=PRESET] [key=value] …
"""

from data_prep.prepare import prepare as prepare_corpus
from nmt.base.layout import REPORT_FILE
from nmt.cli.compose import run_composed
from nmt.config import Config
from nmt.runs.log import print_written


def prepare(config: Config) -> None:
    """Prepare the corpus of an experiment."""
    folder = prepare_corpus(config.corpus, config.tokenizer, config.corpora_folder)
    print_written([folder, folder / REPORT_FILE])


if __name__ == "__main__":
    run_composed(prepare, groups=("corpus", "tokenizer", "run"))
