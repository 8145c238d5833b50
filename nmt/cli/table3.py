"""Print the rows of the paper's Table 3 with their numbers of parameters.

nmt table3 experiment=paper_scale|laptop_scale [key=value] …

Nothing is trained.
"""

from omegaconf import DictConfig

from nmt.cli.application import application
from nmt.cli.compose import to_config
from nmt.config import Config


@application(Config, primary="config", groups=("model", "tokenizer"))
def main(composed: DictConfig) -> None:
    """Print the rows at the scale of the experiment."""
    from nmt.base.log import console
    from nmt.base.tables import new_table
    from nmt.evaluation.table3 import SIZE_COLUMNS, size_rows, vocabulary_note

    config = to_config(composed)
    size = config.tokenizer.vocabulary_size
    title = f"Table 3 with a vocabulary of {size:,}; parameters in millions"
    console.print(new_table(title, *SIZE_COLUMNS, texts=["row"], rows=size_rows(config)))
    if note := vocabulary_note(config):
        console.print(note)
