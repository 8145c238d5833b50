"""Show how a model divides text into pieces.

nmt subwords text=TEXT [model=FOLDER] [side=target]
"""

from enum import StrEnum

from nmt.base.errors import printable
from nmt.cli.application import application
from nmt.cli.models import model_folder, open_model
from nmt.config import checked_dataclass

Side = StrEnum("Side", "source target")


@checked_dataclass
class _Arguments:
    text: str
    """The text; its lines are divided one by one."""
    model: str = ""
    """Model or run folder (default: the last completed run)."""
    side: Side = Side.source
    """Side whose vocabulary is used, if source and target have separate ones."""


@application(_Arguments)
def main(arguments: _Arguments) -> None:
    """Run the command."""
    model = open_model(model_folder(arguments.model), "cpu")
    is_source = arguments.side is Side.source
    tokenizer = model.source_tokenizer if is_source else model.target_tokenizer
    for text in arguments.text.split("\n"):
        [ids] = tokenizer.encode([text])
        [decoded] = tokenizer.decode([ids])
        pieces, words = tokenizer.pieces(ids), text.split()
        per_word = f", {len(ids) / len(words):.2f} per word" if words else ""
        print(printable(" ".join(pieces)))
        print(" ".join(map(str, ids)))
        print(f"{len(ids)} pieces{per_word}")
        if decoded != text:
            print(printable(f"decoded: {decoded}"))
