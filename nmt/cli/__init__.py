"""The commands `nmt COMMAND`, one module each, and what they share."""

import os
import sys

# torch reads these variables when it is first imported.

# We report a lost connection between processes in one line; torch would add a C++ stack trace.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
# Limit how long threads spin while they wait for each other: with the default, other processes on
# the same cores make training ten times slower.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")

# Python sets argv[0] to "-m" while it imports the package of a module to be run with -m.
if sys.argv[0] == "-m":
    print(
        "error: python -m nmt.cli.COMMAND is now nmt COMMAND, or python -m nmt COMMAND",
        file=sys.stderr,
    )
    sys.exit(2)
