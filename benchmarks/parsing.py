"""Table 4 of the paper: labelled bracketing F1 of parsing models, by the rules of EVALB.

    python -m benchmarks.parsing runs="FOLDER FOLDER …" trees=DIR/test.tree

Each run was trained with `experiment=parsing` and has translated the test set. The file `trees` has
the correct trees in brackets, and the name of this test set. EVALB leaves out words whose tags mark
them as punctuation.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.brackets import (
    BracketCounts,
    Tree,
    add_counts,
    count_brackets,
    read_linearised,
)
from benchmarks.figures import print_table, write_result
from benchmarks.treebank import read_treebank
from nmt.base.errors import UserError
from nmt.cli.application import application
from nmt.cli.common import parse_folders, run_command
from nmt.config import checked_dataclass
from nmt.run_folder import Run

_SHORT = 40  # words; EVALB's second summary


@checked_dataclass
class Arguments:
    """The runs and their test set."""

    runs: str
    """Run folders, separated by spaces, such as those of three seeds."""
    trees: str
    """File of correct trees, in brackets."""
    out: str = ""
    """Result file; the default is a dated file in benchmarks/results."""


def score(gold: Sequence[Tree], predicted: Sequence[str]) -> tuple[BracketCounts, BracketCounts]:
    """Count the constituents of all sentences, and of those of up to 40 words.

    Raises:
        UserError: a prediction is not a tree over the words of its sentence.
    """
    counts = []
    for number, (tree, text) in enumerate(zip(gold, predicted, strict=True), start=1):
        try:
            found = read_linearised(text, tree.words, tree.tags)
        except ValueError as error:
            raise UserError(f"translation {number}: {error}; set decoding.trees=true") from None
        counts.append(count_brackets(tree, found))
    short = [one for one, tree in zip(counts, gold, strict=True) if len(tree.words) <= _SHORT]
    return add_counts(counts), add_counts(short)


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the command."""
    path = Path(arguments.trees)
    gold = [tree for _, tree in read_treebank(path)]
    rows, result = [], {}
    for run in parse_folders(arguments.runs):
        texts = Run(run).texts(path.stem)
        if texts.sources != [" ".join(tree.words) for tree in gold]:
            raise UserError(f"{run}: its test set {path.stem} has other sentences than {path}")
        every, short = score(gold, texts.hypotheses)
        result[run.name] = {
            name: {**asdict(counts), "f1": counts.f1}
            for name, counts in (("all", every), (f"up to {_SHORT} words", short))
        }
        values = every.precision, every.recall, every.f1, short.f1, 100 * every.exact / len(gold)
        rows.append([run.name, *(f"{value:.2f}" for value in values)])
    columns = ["", "precision", "recall", "F1", f"F1, ≤ {_SHORT} words", "exact, %"]
    f1 = [one["all"]["f1"] for one in result.values()]
    if len(f1) > 1:
        mean = f"{statistics.mean(f1):.2f} ± {statistics.stdev(f1):.2f}"
        rows.append(["mean ± standard deviation", "", "", mean, "", ""])
    print_table(f"{path.name}, {len(gold)} sentences", columns, rows)
    out = Path(arguments.out) if arguments.out else None
    write_result("parsing", {"trees": path.name, "runs": result}, out)


if __name__ == "__main__":
    run_command(main)
