"""Judge a GPU machine: correctness, speed and memory of training and decoding, unattended.

    python -m benchmarks.gpu [device=cuda] [tiny=false] [minutes=8] ["parts=packed …"] [out=FILE]

The parts, the most important first; each can be measured alone:

  packed      packed and captured updates of the paper's base and big models, and of an eighth of
              an update of the base model: speed and memory
  kernels     the kernels that take most of the time of an update
  losses      packed updates have the losses of a CPU, and depend on their seed only
  decoding    the torch engine with and without fixed shapes, beside Hugging Face's `generate` and
              CTranslate2, with the same weights and translations of the same length; and whether
              translations depend on shapes, batch or order
  throughput  other ways to compute updates, and `torch.nn.Transformer` in buckets and packed
  agreement   training on one and on all GPUs has the losses of a CPU, and a training that was
              killed by SIGKILL continues with the same losses: small model, float32, no dropout

Nothing is downloaded and no text is needed: `agreement` has made-up words, the other parts random
tokens with the lengths of WMT14. Every measurement runs in a process of its own with a time limit;
one that fails does not stop the other parts. Each line is printed and written to a JSON file at
once, and a table is printed at the end; the exit status is 1 if a line fails. `device=cpu
tiny=true` tests all parts.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from benchmarks import gpu_training
from benchmarks.figures import Figure, figures_json, print_figures, write_result
from benchmarks.gpu_agreement import agreement
from benchmarks.gpu_decoding import decoding
from benchmarks.gpu_setting import TINY, TOLERANCE, NoTimeError, Setting, Sizes
from nmt.base.errors import UserError
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import checked_dataclass


@checked_dataclass
class Arguments:
    """See the docstring of the module."""

    device: str = "cuda"
    tiny: bool = False
    minutes: float = 8.0
    parts: str = "packed kernels losses decoding throughput agreement"
    out: str = ""


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the benchmark."""
    if arguments.device not in {"cpu", "cuda"}:
        raise UserError(f"device={arguments.device} is unknown; choose cuda or cpu")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        raise UserError("device=cuda: torch finds no GPU; check nvidia-smi and torch.version.cuda")
    parts = arguments.parts.split()
    if unknown := [part for part in parts if part not in PARTS]:
        raise UserError(f"parts={unknown[0]} is unknown; choose from {' '.join(PARTS)}")
    started = time.monotonic()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        sizes = TINY if arguments.tiny else Sizes()
        deadline = started + 60 * arguments.minutes
        setting = Setting(arguments.device, sizes, Path(folder), deadline)
        for part in parts:
            for figure in _figures(part, setting):
                print(figure, file=sys.stderr, flush=True)
                figures.append(figure)
                _write(setting, figures, time.monotonic() - started, arguments.out)
    _write(setting, figures, time.monotonic() - started, arguments.out, is_final=True)
    print_figures(f"{torch.cuda.device_count() or 1} × {_device_name(setting)}", figures)
    failed = [figure.name for figure in figures if figure.status == "fail"]
    print(f"{len(failed)} of {len(figures)} lines fail", file=sys.stderr)
    if failed:
        raise SystemExit(1)


def _figures(part: str, setting: Setting) -> Iterator[Figure]:
    """Yield the figures of a part; if it fails, the last one says why."""
    try:
        yield from PARTS[part](setting)
    except NoTimeError:
        yield Figure(f"rest of {part}", None, note="no time left", is_skipped=True)
    except Exception as error:
        yield Figure(part, None, note=f"{type(error).__name__}: {error}")


def _device_name(setting: Setting) -> str:
    return torch.cuda.get_device_name(0) if setting.is_cuda else "cpu"


def _write(
    setting: Setting, figures: list[Figure], seconds: float, out: str, is_final: bool = False
) -> None:
    """Write the figures so far to the JSON file."""
    result = {
        "device": _device_name(setting),
        "num_gpus": torch.cuda.device_count(),
        "seconds": round(seconds, 1),
        "tolerance": TOLERANCE,
        "sizes": vars(setting.sizes),
        "figures": figures_json(figures),
    }
    write_result(f"gpu-{setting.device}", result, Path(out) if out else None, is_final)


PARTS: dict[str, Callable[[Setting], Iterator[Figure]]] = {
    "packed": gpu_training.packed,
    "losses": gpu_training.losses,
    "decoding": decoding,
    "throughput": gpu_training.throughput,
    "kernels": gpu_training.kernels,
    "agreement": agreement,
}

if __name__ == "__main__":
    run_command(main)
