"""Print the rows of the paper's Table 3 with their numbers of parameters, and train nothing.

python -m nmt.cli.table3 experiment=paper_scale|laptop_scale [key=value] …
"""

from nmt.base.log import console
from nmt.cli.compose import run_composed
from nmt.config import Config
from nmt.evaluation.table3 import SIZE_COLUMNS, size_rows, vocabulary_note
from nmt.evaluation.tables import new_table


def print_rows(config: Config) -> None:
    """Print the rows at the scale of the experiment."""
    size = config.tokenizer.vocabulary_size
    title = f"Table 3 with a vocabulary of {size:,}; parameters in millions"
    table = new_table(title, *SIZE_COLUMNS, texts=["row"])
    for row in size_rows(config):
        table.add_row(*row)
    console.print(table)
    if note := vocabulary_note(config):
        console.print(note)


if __name__ == "__main__":
    run_composed(print_rows, groups=("model", "tokenizer"))
