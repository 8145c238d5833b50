"""CPU time of the help of commands, which is that of their start without their work.

    python -m benchmarks.start_up

The time is that of the fastest of several starts, because other programs on the same cores make a
start longer. The result is written to benchmarks/results.
"""

import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage

from benchmarks.figures import Figure, figures_json, print_figures, write_result
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.cli.main import COMMANDS
from nmt.config import checked_dataclass

_AT_MOST = {"translate": 1.0, "train": 1.5}  # seconds


@checked_dataclass
class Arguments:
    """Arguments of the benchmark."""

    starts: int = 3


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the benchmark."""
    figures = [
        Figure(
            f"nmt {name} --help",
            min(_cpu_seconds(name) for _ in range(arguments.starts)),
            "s of CPU time",
            at_most=_AT_MOST.get(name),
        )
        for name in COMMANDS
    ]
    print_figures("start of commands", figures)
    write_result("start_up", {"figures": figures_json(figures)})


def _cpu_seconds(name: str) -> float:
    def spent() -> float:
        usage = getrusage(RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    command = [sys.executable, "-m", "nmt", name, "--help"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return spent() - before


if __name__ == "__main__":
    run_command(main)
