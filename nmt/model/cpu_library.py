"""Selection of the library for matrix products on a CPU (docs/decisions/0017).

The value "torch" means torch's own library, which is MKL on x86.
"""

import functools
import os

import torch

from nmt.base.errors import UserError
from nmt.base.system import is_intel

LIBRARIES = ("torch", "onednn")

# Overrides every selection, to reproduce the results of a machine that uses the other library.
override = os.environ.get("NMT_CPU_LIBRARY", "")
_selected = ""


def overriding_library() -> str:
    """Return NMT_CPU_LIBRARY, empty if it is not set. Raise UserError if it names no library."""
    if override not in ("", *LIBRARIES):
        names = " or ".join(LIBRARIES)
        raise UserError(f"NMT_CPU_LIBRARY={override}: unknown library; use {names}")
    return override


@functools.cache
def default_library() -> str:
    """Return the library that uses the widest registers of this CPU."""
    # MKL uses 512-bit registers only on CPUs made by Intel.
    has_wide_registers = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return "onednn" if has_wide_registers and not is_intel() else "torch"


def select_library(name: str) -> None:
    """Use one of the libraries for products with unpacked weights in this process."""
    global _selected  # noqa: PLW0603 -- a property of the process, like the number of threads
    _selected = name


def library() -> str:
    """Return the library for products with unpacked weights."""
    return overriding_library() or _selected or default_library()


def library_of_packed_weights() -> str:
    """Return the library for decoding, on which `select_library` has no effect."""
    return overriding_library() or default_library()
