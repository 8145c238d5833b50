"""Prepare a corpus: clean, learn subwords, write shards; nothing where nothing has changed.

python -m nmt.cli.prepare [experiment=NAME] [corpus=PRESET] [key=value] …
"""

from data_prep.prepare import prepare as prepare_corpus
from nmt.cli.common import name_files
from nmt.cli.compose import run_composed
from nmt.config import Config


def prepare(config: Config) -> None:
    """Prepare the experiment's corpus."""
    folder = prepare_corpus(config.corpus, config.tokenizer, config.corpora_folder)
    name_files([folder, folder / "report.html"])


if __name__ == "__main__":
    run_composed(prepare)
