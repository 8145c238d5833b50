"""Step functions that are tables of probabilities."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nmt.config import DecodingConfig

EOS, BOS = 0, 1
REAL = (2, 3)
VOCABULARY = 4

Prefix = tuple[int, ...]


@dataclass
class Prefixes:
    """A search state that is the prefix of every row, its sentence first."""

    rows: list[Prefix]

    def reorder(self, rows: Tensor) -> "Prefixes":
        self.rows = [self.rows[int(row)] for row in rows]
        return self

    def append(self, fresh: "Prefixes") -> "Prefixes":
        self.rows += fresh.rows
        return self

    def covered(self) -> Tensor:
        return torch.tensor([covered(row[2:]) for row in self.rows])


def covered(ids: Prefix) -> float:
    """A coverage for the sake of argument: what follows a larger token covers nothing new."""
    best, lost = 0, 0.0
    for token in ids:
        lost += 0.0 if token > best else 0.4
        best = max(best, token)
    return -lost


@dataclass
class Table:
    """Logits for every prefix of every sentence: fixed ones, else random but always the same."""

    seed: int = 0
    fixed: dict[Prefix, list[float]] = field(default_factory=dict)
    """Probabilities after these prefixes, sentence and BOS left out."""
    vocabulary: int = VOCABULARY
    steps: int = 0

    def logits(self, prefix: Prefix) -> Tensor:
        if prefix[2:] in self.fixed:
            return torch.tensor(self.fixed[prefix[2:]]).log()
        number = sum((token + 1) * 11**place for place, token in enumerate(prefix))
        generator = torch.Generator().manual_seed((1_000_003 * self.seed + number) % 2**62)
        return 1.5 * torch.randn(self.vocabulary, generator=generator)

    def __call__(self, tokens: Tensor, state: Prefixes) -> tuple[Tensor, Prefixes]:
        self.steps += 1
        pairs = zip(state.rows, tokens.tolist(), strict=True)
        state = Prefixes([(*row, token) for row, token in pairs])
        return torch.stack([self.logits(row) for row in state.rows]), state


def covering(max_length: int, **changes: Any) -> DecodingConfig:
    """A beam that holds every prefix and every way to end."""
    return DecodingConfig(beam_size=VOCABULARY * len(REAL) ** max_length, **changes)
