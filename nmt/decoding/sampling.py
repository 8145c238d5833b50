"""Sampling: each translation from a random stream of its own, whatever is decoded beside it."""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.config import DecodingConfig
from nmt.decoding.choice import best_of_sentences
from nmt.decoding.live import Choice, NextTokens
from nmt.decoding.task import Ids
from nmt.model.rows import RowGrid


def uniform(seed: int, source: Ids, sample: int, position: int) -> float:
    """A number in [0, 1) that nothing but its four arguments decides.

    It is counted, not drawn: a generator that several sentences share would give each what the
    others leave.
    """
    text = f"{seed} {sample} {position} {' '.join(map(str, source))}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53


def kept_probabilities(logits: Tensor, config: DecodingConfig) -> Tensor:
    """(N, V) probabilities to draw by: after temperature, top_k, top_p and epsilon, float64."""
    probabilities = (logits.double() / config.temperature).softmax(dim=-1)
    if not config.top_k and config.top_p == 1.0 and not config.epsilon:
        return probabilities  # a sort of V numbers a row costs ten times as much
    best, order = probabilities.sort(dim=-1, descending=True, stable=True)
    is_kept = torch.ones_like(best, dtype=torch.bool)
    if config.top_k:
        is_kept[:, config.top_k :] = False
    # A token stays while those before it do not come to p yet.
    is_kept &= (best.cumsum(dim=-1) - best < config.top_p) & (best >= config.epsilon)
    is_kept[:, 0] = True
    kept = torch.zeros_like(is_kept).scatter_(1, order, is_kept)
    # Banned tokens have probability 0, and what is left out is shared out among the rest.
    probabilities = probabilities.masked_fill(~kept, 0.0)
    return probabilities / probabilities.sum(dim=-1, keepdim=True)


@dataclass(frozen=True)
class SamplingChooser:
    """One token a row, drawn at random; the rows of a sentence do not compete."""

    config: DecodingConfig
    eos_id: int
    ranks_by_sum: bool = True

    @property
    def num_lanes(self) -> int:
        """One a sample."""
        return self.config.beam_size

    def __call__(self, found: NextTokens, /) -> Choice:
        """Choose; see `Chooser`."""
        places = zip(
            found.rows.sentences.tolist(),
            found.rows.lanes.tolist(),
            found.rows.lengths.tolist(),
            strict=True,
        )
        numbers = [
            uniform(self.config.seed, found.tasks[sentence].source, lane, length)
            for sentence, lane, length in places
        ]
        drawn = torch.tensor(numbers, dtype=torch.float64, device=found.log_probs.device)[:, None]
        # In the order of the ids, not of the probabilities: rounding may exchange two of those.
        bounds = kept_probabilities(found.log_probs, self.config).cumsum(dim=-1)
        tokens = torch.searchsorted(bounds, drawn * bounds[:, -1:], right=True)
        tokens = tokens.clamp(max=found.log_probs.size(-1) - 1)  # (N, 1)
        grid = RowGrid.of(found.rows.sentences, len(found.tasks))
        log_probs = found.log_probs.gather(1, tokens)
        return best_of_sentences(
            found.rows, grid, tokens, log_probs, self.config.beam_size, self.eos_id
        )
