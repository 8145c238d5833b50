"""Step functions that are tables of probabilities, small enough to enumerate."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nmt.config import DecodingConfig
from nmt.search.hypothesis import Hypothesis, length_penalty
from nmt.search.request import Request, TargetIds
from nmt.search.search import beam_search

EOS, BOS = 0, 1
ORDINARY = (2, 3)
VOCABULARY_SIZE = 4

Prefix = tuple[int, ...]


@dataclass
class Prefixes:
    """Search state that consists of the sentence and the tokens of every row."""

    rows: list[Prefix]

    def reorder(self, rows: Tensor) -> "Prefixes":
        return Prefixes([self.rows[int(row)] for row in rows])


@dataclass
class Table:
    """Logits for every prefix of every sentence: fixed ones, else random but reproducible.

    Attributes:
        seed: seed of the random logits.
        fixed: probabilities after these prefixes, given without sentence and BOS.
        vocabulary_size: number of tokens.
        num_steps: number of calls so far.
    """

    seed: int = 0
    fixed: dict[Prefix, list[float]] = field(default_factory=dict)
    vocabulary_size: int = VOCABULARY_SIZE
    num_steps: int = 0

    def logits(self, prefix: Prefix) -> Tensor:
        if prefix[2:] in self.fixed:
            return torch.tensor(self.fixed[prefix[2:]]).log()
        number = sum((token + 1) * 11**index for index, token in enumerate(prefix))
        generator = torch.Generator().manual_seed((1_000_003 * self.seed + number) % 2**62)
        return 1.5 * torch.randn(self.vocabulary_size, generator=generator)

    def __call__(self, tokens: Tensor, state: Prefixes) -> tuple[Tensor, Prefixes]:
        self.num_steps += 1
        pairs = zip(state.rows, tokens.tolist(), strict=True)
        state = Prefixes([(*row, token) for row, token in pairs])
        return torch.stack([self.logits(row) for row in state.rows]), state


def config(**changes: Any) -> DecodingConfig:
    """Options that allow the empty translation."""
    return DecodingConfig(**{"min_length": 0, **changes})


def exhaustive(max_length: int, **changes: Any) -> DecodingConfig:
    """Options with a beam that holds every prefix and every finished hypothesis."""
    beam_size = VOCABULARY_SIZE * len(ORDINARY) ** max_length
    return config(beam_size=beam_size, **changes)


def search(
    table: Table,
    options: DecodingConfig,
    *requests: Request,
    sentences: list[int] | None = None,
    banned: tuple[int, ...] = (BOS,),
    **more: Any,
) -> list[list[Hypothesis]]:
    """Search with a table; sentence n has the number n unless `sentences` has others."""
    state = Prefixes([(number,) for number in sentences or range(len(requests))])
    return beam_search(table, state, options, TargetIds(BOS, EOS, banned), requests, **more)


def enumerate_all(table: Table, max_length: int, options: DecodingConfig) -> list[Hypothesis]:
    """Return every translation of at most `max_length` tokens, EOS included, best first."""
    found = []
    for length in range(max_length):
        for ids in itertools.product(ORDINARY, repeat=length):
            log_probs = [
                float(table.logits((0, BOS, *ids[:index])).log_softmax(0)[token])
                for index, token in enumerate((*ids, EOS))
            ]
            score = sum(log_probs) / length_penalty(length + 1, options)
            found.append(Hypothesis(list(ids), sum(log_probs), score, log_probs))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)
