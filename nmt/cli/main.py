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
from pathlib import Path

from nmt.base.errors import UserError
from nmt.cli.common import run_command

_NAMES = (
    "train prepare adapt translate evaluate score serve attend subwords backtranslate export import"
    " report sweep-report table3 reproduce dashboard"
)
COMMANDS = {name: name.replace("-", "_") for name in _NAMES.split()} | {"import": "import_model"}
"""The module of each command."""

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
    print("\n".join(f"  {name:15}{_summary(module)}" for name, module in COMMANDS.items()))


def _summary(module: str) -> str:
    """Return the first line of a module, that of its docstring, without importing it."""
    with Path(__file__).with_name(f"{module}.py").open(encoding="utf-8") as lines:
        return next(lines).strip('"\n')


def imported(name: str) -> Callable[[], None]:
    """Import one command and return its function; that of an unknown name raises UserError."""
    if name in COMMANDS:
        command: Callable[[], None] = importlib.import_module(f"nmt.cli.{COMMANDS[name]}").main
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
