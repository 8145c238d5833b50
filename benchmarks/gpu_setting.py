"""Device and amount of work of the benchmark of GPUs."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import torch

# Nats per target token, absolute. float32 sums differ in their order between devices.
TOLERANCE = 1e-3
_LEAST_SECONDS = 5.0  # in which nothing can be measured


class NoTimeError(Exception):
    """No time is left for another measurement."""


@dataclass(frozen=True)
class Sizes:
    """Amount of work; `models` and `decoder` are presets of models, changed by `overrides`."""

    models: tuple[str, ...] = ("base", "big")
    decoder: str = "base"
    overrides: tuple[str, ...] = ()
    vocabulary: int = 37_000
    pairs: int = 40_000
    target_tokens: int = 25_000
    micro_batch: int = 32_768
    warm_up: int = 10
    updates: int = 40
    sentences: int = 2_000
    length: int = 30
    batch_size: int = 128
    agreement_pairs: int = 4_000
    agreement_updates: int = 24
    agreement_tokens: int = 1_024


TINY = Sizes(
    models=("tiny",),
    decoder="tiny",
    overrides=("model.width=32", "model.num_encoder_layers=1", "model.num_decoder_layers=1"),
    vocabulary=90,
    pairs=200,
    target_tokens=256,
    micro_batch=256,
    warm_up=1,
    updates=2,
    sentences=4,
    length=4,
    batch_size=4,
    agreement_pairs=200,
    agreement_updates=8,
    agreement_tokens=256,
)


@dataclass(frozen=True)
class Setting:
    """Device, amount of work, temporary folder and deadline, which the parts share."""

    device: str
    sizes: Sizes
    folder: Path
    deadline: float
    # Target tokens/s by model, way to train and target tokens per update.
    speeds: dict[tuple[str, str, int], float] = field(default_factory=dict)

    @property
    def is_cuda(self) -> bool:
        """Whether GPUs are measured."""
        return self.device == "cuda"

    def limit(self, seconds: float) -> float:
        """Return the time limit of a measurement that should take at most `seconds`.

        Raises:
            NoTimeError: the deadline is near.
        """
        left = self.deadline - time.monotonic()
        if left < _LEAST_SECONDS:
            raise NoTimeError
        return min(seconds, left)


def synchronize(device: str) -> None:
    """Wait for a GPU."""
    if device == "cuda":
        torch.cuda.synchronize()
