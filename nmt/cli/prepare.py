"""Prepare a corpus: clean, learn subwords, write shards. An unchanged corpus is not prepared again.

python -m nmt.cli.prepare [experiment=NAME] [corpus=PRESET] [key=value] …

run.dry_run=true reads the first pairs of each source, and shows how many of them the filters of the
configuration and of each preset of `cleaning` would drop. It prepares nothing, but keeps downloads.
"""

from data_prep.dry_run import dry_run
from data_prep.prepare import prepare as prepare_corpus
from data_prep.progress import Reporter
from nmt.base.layout import REPORT_FILE
from nmt.base.log import print_written
from nmt.cli.compose import CONFIG_FOLDER, presets, run_composed
from nmt.config import CleaningConfig, Config, load_config


def prepare(config: Config) -> None:
    """Prepare the corpus of an experiment; in a dry run, only count what filters would drop."""
    if config.run.dry_run:
        folder = CONFIG_FOLDER / "cleaning"
        cleanings = {
            name: load_config(CleaningConfig, folder / f"{name}.yaml")
            for name in presets()["cleaning"]
        }
        dry_run(config.corpus, cleanings, config.corpora_folder, Reporter())
        return
    folder = prepare_corpus(
        config.corpus, config.tokenizer, config.corpora_folder, work=config.prepare
    )
    print_written([folder, folder / REPORT_FILE])


if __name__ == "__main__":
    run_composed(prepare, groups=("corpus", "prepare", "tokenizer", "run"))
