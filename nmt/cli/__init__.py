"""The commands: one module each, thin; run them with `python -m nmt.cli.<command>`."""

import os

# All are read when torch is first imported. Its C++ code would print its stack when the connection
# to another process is lost, which is reported in one line.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
# Threads that wait for each other spin for some microseconds only: by default they spin for so long
# that other processes on the same cores make training ten times slower.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")
