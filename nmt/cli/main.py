"""The command `nmt`: runs one of the commands `nmt COMMAND key=value …`.

`nmt COMMAND --help` describes the keys of a command, `nmt COMMAND --hydra-help` the flags.
Tab completion in bash: eval "$(nmt -sc install=bash)"; zsh and fish likewise.
"""

import difflib
import gc
import importlib
import os
import sys
from collections.abc import Callable

from nmt.base.errors import UserError
from nmt.cli.common import run_command

COMMANDS = {
    "train": "prepare the corpus if needed, train, choose the best weights, score them",
    "prepare": "prepare a corpus: clean, learn subwords, write shards",
    "adapt": "fine-tune a model on text of your own, and compare it with the original",
    "translate": "translate a file line by line",
    "evaluate": "score models on a test set, and compare them",
    "score": "score given translations by their probability",
    "serve": "serve models: a web page and an HTTP API",
    "attend": "show the attention of all layers and heads",
    "subwords": "show how a model divides text into pieces",
    "backtranslate": "make training pairs from text in the target language",
    "export": "convert a model for another program",
    "import": "import a model of Marian, OPUS-MT or Hugging Face",
    "report": "write the report of a completed run again",
    "sweep-report": "rank the runs of a sweep, at any time",
    "table3": "print the rows of the paper's Table 3 with their numbers of parameters",
    "reproduce": "train the seeds of a known score, and compare the mean",
    "dashboard": "write a workspace of Weights & Biases with the charts of the runs",
}
MODULES = {"import": "import_model", "sweep-report": "sweep_report"}
_COMPLETION = ("-sc", "--shell-completion")


def main() -> None:
    """Run the command that the first argument names."""
    # What the imports create lives until the end of the command. Garbage collections find nothing
    # in it, but take a third of the time of a short command. `run_command` enables them again.
    gc.disable()
    name = next(iter(sys.argv[1:]), "--help")
    if name in _COMPLETION:
        command = _completion()
    elif name in ("-h", "--help"):
        command = _print_help
    else:
        del sys.argv[1]
        command = imported(name)
    run_command(command)


def _print_help() -> None:
    print(str(__doc__))
    print("\n".join(f"  {name:15}{line}" for name, line in COMMANDS.items()))


def imported(name: str) -> Callable[[], None]:
    """Import the module of a command, and no other; a wrong name is an error of the function."""
    if name in COMMANDS:
        command: Callable[[], None]
        command = importlib.import_module(f"nmt.cli.{MODULES.get(name, name)}").main
        return command

    def refuse() -> None:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        fix = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(COMMANDS)}"
        raise UserError(f"{name!r} is not a command; {fix}")

    return refuse


def _completion() -> Callable[[], None]:
    """Complete the name of a command here; the keys of a command are completed by the command."""
    if not any(argument.startswith("query=") for argument in sys.argv):  # install or uninstall
        return imported("train")
    program, _, rest = os.environ.get("COMP_LINE", "").partition(" ")
    name, blank, rest = rest.lstrip().partition(" ")
    if blank:
        os.environ["COMP_LINE"] = f"{program} {rest}"
        return imported(name)
    matches = [command for command in COMMANDS if command.startswith(name)]
    return lambda: print("\n".join(matches))
