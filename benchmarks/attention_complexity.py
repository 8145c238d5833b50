"""Table 1 of the paper: time, memory and path lengths of four kinds of layers.

    python -m benchmarks.attention_complexity [longest=4096] [picture=FILE.png]

Measures the forward and backward pass of one layer on one sentence of n positions: the CPU time on
one thread, and how far memory rises during the pass. Attention is measured without its projections
W^Q, W^K, W^V and W^O, which the formulas leave out. Exponents are fitted by least squares on
logarithms, over the four largest sizes (three for the kernel).

Full attention is measured twice: with torch's fused kernel, which stores no weights, and with
dropout on the weights, for which torch has no fused kernel on CPUs.
"""

import ctypes
import itertools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.figures import print_table, write_result
from benchmarks.setting import run_alone
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import ModelConfig, checked_dataclass
from nmt.model.attention import MultiHeadAttention
from nmt.model.comparators.window import WindowAttention
from nmt.training.memory import peak_memory, release_freed_memory, resident_memory

_HEAD_WIDTH = 64  # as in the paper's models
_CLEAR_PEAK = Path("/proc/self/clear_refs")
_MMAP_THRESHOLD = -3  # of mallopt(3)


@checked_dataclass
class Arguments:
    """Sizes of the layers."""

    longest: int = 4096
    """Largest length; it is halved six times for the others."""
    width: int = 128
    """Width d; exponents of the width are fitted up to eight times this."""
    window: int = 64
    """Positions r of restricted self-attention."""
    kernel: int = 3
    """Width k of the kernel of the convolution."""
    seconds: float = 0.5
    """CPU time for which each measurement is repeated, at least three times; the fastest counts."""
    out: str = ""
    """Result file; the default is a dated file in benchmarks/results."""
    picture: str = ""
    """File for a plot over the length, .png or .svg; empty for none."""


@dataclass(frozen=True)
class Sizes:
    """n, d, r and k of Table 1."""

    length: int
    width: int
    window: int
    kernel: int


@dataclass(frozen=True)
class Kind:
    """A kind of layer.

    Attributes:
        formula: operations of a layer, as in Table 1.
        exponents: exponent of each size in that formula; `memory`: of the length in the memory.
        make: returns inputs and layer.
        path: formula and value of the maximum path length between two positions.
    """

    formula: str
    exponents: Mapping[str, int]
    make: Callable[[Sizes], tuple[list[Tensor], Callable[..., Tensor]]]
    path: tuple[str, Callable[[Sizes], float]]


def _attention(
    sizes: Sizes, window: int = 0, dropout: float = 0.0
) -> tuple[list[Tensor], Callable[..., Tensor]]:
    num_heads = max(1, sizes.width // _HEAD_WIDTH)
    config = ModelConfig(
        width=sizes.width,
        num_heads=num_heads,
        attention_dropout=dropout,
        attention_window=window,
    )
    inputs = [torch.randn(1, num_heads, sizes.length, sizes.width // num_heads) for _ in "qkv"]
    if window:
        return inputs, WindowAttention(config, None).attend_near
    return inputs, MultiHeadAttention(config).attend


def _recurrence(sizes: Sizes) -> tuple[list[Tensor], Callable[..., Tensor]]:
    layer = nn.LSTM(sizes.width, sizes.width)
    return [torch.randn(sizes.length, 1, sizes.width)], lambda inputs: layer(inputs)[0]


def _convolution(sizes: Sizes) -> tuple[list[Tensor], Callable[..., Tensor]]:
    layer = nn.Conv1d(sizes.width, sizes.width, sizes.kernel, padding=sizes.kernel // 2)
    return [torch.randn(1, sizes.width, sizes.length)], layer


_ONE = "1", lambda _: 1.0
KINDS = {
    "self-attention, fused": Kind("n²·d", {"length": 2, "width": 1, "memory": 1}, _attention, _ONE),
    "self-attention, weights stored": Kind(
        "n²·d",
        {"length": 2, "width": 1, "memory": 2},
        lambda s: _attention(s, dropout=0.1),
        _ONE,
    ),
    "self-attention, restricted": Kind(
        "r·n·d",
        {"length": 1, "width": 1, "window": 1, "memory": 1},
        lambda s: _attention(s, window=s.window),
        ("n/r", lambda s: s.length / s.window),
    ),
    "recurrent (LSTM)": Kind(
        "n·d²", {"length": 1, "width": 2, "memory": 1}, _recurrence, ("n", lambda s: s.length)
    ),
    "convolutional": Kind(
        "k·n·d²",
        {"length": 1, "width": 2, "kernel": 1, "memory": 1},
        _convolution,
        ("log_k(n)", lambda s: math.log(s.length, s.kernel)),
    ),
}


def _work(kind: Kind, sizes: Sizes) -> Callable[[], None]:
    """Return the forward and backward pass of a new layer, run once."""
    torch.manual_seed(0)
    inputs, layer = kind.make(sizes)
    for tensor in inputs:
        tensor.requires_grad_()

    def work() -> None:
        torch.autograd.backward(layer(*inputs).sum())

    work()
    return work


def measure_seconds(kind: Kind, sizes: Sizes, at_least: float) -> float:
    """Return the shortest CPU time of at least three runs, together of at least `at_least` s."""
    work, times = _work(kind, sizes), [time.process_time()]
    while len(times) < 4 or times[-1] - times[0] < at_least:
        work()
        times.append(time.process_time())
    return min(end - start for start, end in itertools.pairwise(times))


def sweeps(arguments: Arguments, kind: Kind) -> dict[str, list[Sizes]]:
    """Return the sizes to measure, by the one that varies."""
    longest = Sizes(arguments.longest, arguments.width, arguments.window, arguments.kernel)
    middle = replace(longest, length=max(1, longest.length // 8))
    found = {
        "length": [replace(longest, length=longest.length >> half) for half in range(6, -1, -1)],
        "width": [replace(middle, width=longest.width * factor) for factor in (1, 2, 4, 8)],
        "window": [replace(longest, window=longest.window * factor) for factor in (1, 2, 4, 8)],
        "kernel": [replace(middle, kernel=longest.kernel * factor) for factor in (1, 3, 9)],
    }
    return {name: sizes for name, sizes in found.items() if name in kind.exponents}


def measure_megabytes(arguments: Arguments) -> dict[str, dict[int, float]]:
    """Measure how far a pass raises resident memory, by kind and length; NaN if not on Linux.

    It changes how this process allocates memory: by default, the C library keeps freed memory, and
    memory that is used again would not count.
    """
    torch.set_num_threads(1)
    if _CLEAR_PEAK.exists():
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 16)
    found: dict[str, dict[int, float]] = {}
    for name, kind in KINDS.items():
        found[name] = {}
        for sizes in sweeps(arguments, kind)["length"]:
            work, found[name][sizes.length] = _work(kind, sizes), math.nan
            if _CLEAR_PEAK.exists():
                found[name][sizes.length] = min(_added_megabytes(work) for _ in range(3))
    return found


def _added_megabytes(work: Callable[[], None]) -> float:
    release_freed_memory()
    _CLEAR_PEAK.write_text("5", encoding="utf-8")
    before = resident_memory()
    work()
    return (peak_memory() - before) / 1e6


def measure(arguments: Arguments) -> dict[str, dict[str, dict[int, float]]]:
    """Measure all kinds: seconds by each size in their formula, and megabytes by the length."""
    megabytes = run_alone(measure_megabytes, arguments)
    torch.set_num_threads(1)
    found: dict[str, dict[str, dict[int, float]]] = {}
    for name, kind in KINDS.items():
        found[name] = {
            varied: {
                getattr(sizes, varied): measure_seconds(kind, sizes, arguments.seconds)
                for sizes in points
            }
            for varied, points in sweeps(arguments, kind).items()
        } | {"memory": megabytes[name]}
    return found


def exponent(points: Mapping[int, float]) -> float:
    """Fit p of y = c · x^p by least squares on logarithms, over the last four points."""
    x, y = np.array(list(points.items()))[-4:].T
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def summary(
    kind: Kind, measured: Mapping[str, Mapping[int, float]], arguments: Arguments
) -> dict[str, Any]:
    """Return the measurements of a kind, its theoretical exponents and the fitted ones."""
    path, path_length = kind.path
    return {
        "operations": kind.formula,
        "theory": kind.exponents,
        "fitted": {varied: exponent(points) for varied, points in measured.items()},
        "path": path,
        "longest path": path_length(sweeps(arguments, kind)["length"][-1]),
        "measured": measured,
    }


def print_summaries(summaries: Mapping[str, Mapping[str, Any]]) -> None:
    """Print time and memory over the length, then exponents and path lengths."""
    rows = []
    for name, one in summaries.items():
        fitted = {
            varied: f"{found:.2f} ({one['theory'][varied]})"
            for varied, found in one["fitted"].items()
        }
        third = fitted.get("window") or fitted.get("kernel", "")
        operations, path = f"O({one['operations']})", f"{one['path']} = {one['longest path']:.1f}"
        rows.append(
            [name, operations, fitted["length"], fitted["width"], third, fitted["memory"], path]
        )
    for title, varied, factor in ("CPU time, ms", "length", 1e3), ("memory, MB", "memory", 1.0):
        measured = {name: one["measured"][varied] for name, one in summaries.items()}
        lengths = next(iter(measured.values()))
        print_table(
            title,
            ["", *(f"n = {length:,}" for length in lengths)],
            [
                [name, *(f"{value * factor:,.3g}" for value in points.values())]
                for name, points in measured.items()
            ],
        )
    columns = ["", "operations", "n", "d", "r or k", "memory, n", "longest path"]
    print_table("exponents: fitted (theory)", columns, rows)


def draw(path: Path, summaries: Mapping[str, Mapping[str, Any]]) -> None:
    """Plot time and memory over the length, on logarithmic axes."""
    from matplotlib.figure import Figure  # noqa: PLC0415 -- slow to import

    figure = Figure(figsize=(10, 4), layout="constrained")
    panels = (("length", "CPU time, ms", 1e3), ("memory", "peak memory, MB", 1.0))
    for axes, (varied, title, factor) in zip(figure.subplots(1, 2), panels, strict=True):
        lengths: list[int] = []
        for marker, (name, one) in zip("osD^v", summaries.items(), strict=True):
            lengths, values = map(list, zip(*one["measured"][varied].items(), strict=True))
            y = [value * factor for value in values]
            axes.plot(lengths, y, marker=marker, markersize=4, linewidth=1.3, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axes.set_xlabel("length n")
        axes.set_title(title, loc="left", fontsize=10)
        axes.yaxis.set_major_formatter("{x:,.6g}")
        axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=120)


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the benchmark."""
    measured = measure(arguments)
    summaries = {name: summary(kind, measured[name], arguments) for name, kind in KINDS.items()}
    print_summaries(summaries)
    out = Path(arguments.out) if arguments.out else None
    write_result("attention-complexity", {"kinds": summaries}, out)
    if arguments.picture:
        draw(Path(arguments.picture), summaries)


if __name__ == "__main__":
    run_command(main)
