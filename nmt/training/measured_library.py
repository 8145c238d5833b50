"""Choice of the library for matrix products on a CPU, by measurement."""

import time

import torch

from nmt.model.cpu import Linear
from nmt.model.cpu_library import LIBRARIES, overriding_library, select_library

_NUM_ROWS = 256  # of the input of the layer that is measured


def measure_library(width: int, inner_width: int) -> str:
    """Return the library that computes the products of a linear layer (D to F) faster on this CPU.

    The choice is oneDNN if it is more than 1.25 times as fast as torch's own library. On the CPUs
    that were measured, the factor was either about 2 or below 1.2, so repeated measurements on a
    machine agree. Where it was below 1.2, oneDNN was slower in a whole update. The run stores the
    result because the libraries round differently. NMT_CPU_LIBRARY overrides it; see
    `overriding_library`.
    """
    if library := overriding_library():
        return library
    layer, inputs = Linear(width, inner_width), torch.ones(_NUM_ROWS, width, requires_grad=True)
    seconds: dict[str, list[float]] = {name: [] for name in LIBRARIES}
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the CPU time of one thread does not depend on other processes
    for _ in range(3):
        for name, times in seconds.items():
            select_library(name)
            started = time.thread_time()
            outputs = layer(inputs)
            outputs.backward(torch.ones_like(outputs))
            times.append(time.thread_time() - started)
    torch.set_num_threads(num_threads)
    by_torch, by_onednn = (min(times[1:]) for times in seconds.values())  # the first is a warm-up
    return "onednn" if by_torch > 1.25 * by_onednn else "torch"
