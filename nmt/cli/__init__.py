"""The commands: one module each, thin; run them with `python -m nmt.cli.<command>`."""

import os

# Read when torch is first imported: its C++ parts would print their stack wherever another process
# is gone, which we say in one line.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
