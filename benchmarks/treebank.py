"""Turn a treebank into the text of `experiment=parsing`.

    python -m benchmarks.treebank trees="wsj_0200.mrg wsj_0201.mrg …" out=DIR/train

The files have trees in brackets, each on one or more lines. The command writes DIR/train.en (the
words), DIR/train.lin (linearised trees) and DIR/train.tree (the trees, one a line).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.brackets import Tree, linearise, read_tree
from nmt.base.errors import UserError
from nmt.base.files import iterate_lines, to_lines, write_texts
from nmt.base.log import print_written
from nmt.cli.application import application
from nmt.cli.common import parse_folders, run_command
from nmt.config import checked_dataclass


@checked_dataclass
class Arguments:
    """Input and output."""

    trees: str
    """Files of trees, separated by spaces."""
    out: str
    """Folder and name of the split, such as DIR/train."""


def one_a_line(lines: Iterable[str]) -> Iterator[str]:
    """Join the lines of each tree."""
    begun, depth = "", 0
    for line in lines:
        begun = f"{begun} {line.strip()}".strip()
        depth += line.count("(") - line.count(")")
        if begun and depth == 0:
            yield begun
            begun = ""
    if begun:
        yield begun


def read_treebank(path: Path) -> Iterator[tuple[str, Tree]]:
    """Yield each tree of a file as text and as a `Tree`; trees without words are left out."""
    for number, text in enumerate(one_a_line(iterate_lines(path)), start=1):
        try:
            tree = read_tree(text)
        except ValueError as error:
            raise UserError(f"{path}: tree {number}: {error}") from None
        if tree.words:
            yield text, tree


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the command."""
    found = [
        (text, tree, _linearised(path, text, tree))
        for path in parse_folders(arguments.trees)
        for text, tree in read_treebank(path)
    ]
    texts = {
        Path(f"{arguments.out}.en"): [" ".join(tree.words) for _, tree, _ in found],
        Path(f"{arguments.out}.lin"): [form for *_, form in found],
        Path(f"{arguments.out}.tree"): [text for text, *_ in found],
    }
    write_texts({path: to_lines(lines) for path, lines in texts.items()})
    print_written(list(texts))


def _linearised(path: Path, text: str, tree: Tree) -> str:
    try:
        return linearise(tree)
    except ValueError as error:
        raise UserError(f"{path}: {error}: {text[:80]}") from None


if __name__ == "__main__":
    run_command(main)
