"""Sampling with random numbers that depend on seed, source, sample and position only."""

import hashlib

import torch
from torch import Tensor

from nmt.config import DecodingConfig
from nmt.search.candidates import select_tokens
from nmt.search.live import Candidates, NextTokens
from nmt.search.request import Ids


def uniform(seed: int, source: Ids, sample: int, position: int) -> float:
    """Return a number in [0, 1) that is a hash of the four arguments.

    With one random generator for a batch, a translation would depend on the other sentences.
    """
    text = f"{seed} {sample} {position} {' '.join(map(str, source))}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53


def sampling_probabilities(log_probs: Tensor, config: DecodingConfig) -> Tensor:
    """Return the (N, V) distribution after temperature, top_k and top_p, in float64."""
    probabilities = (log_probs.double() / config.temperature).softmax(dim=-1)
    if not config.top_k and config.top_p == 1.0:
        return probabilities  # sorting V numbers per row takes ten times as long
    best, order = probabilities.sort(dim=-1, descending=True, stable=True)
    is_kept = torch.ones_like(best, dtype=torch.bool)
    if config.top_k:
        is_kept[:, config.top_k :] = False
    # Keep a token if all more probable tokens together have a probability below top_p.
    is_kept &= best.cumsum(dim=-1) - best < config.top_p
    kept = torch.zeros_like(is_kept).scatter_(1, order, is_kept)
    probabilities = probabilities.masked_fill(~kept, 0.0)
    return probabilities / probabilities.sum(dim=-1, keepdim=True)


def select_samples(next_tokens: NextTokens, config: DecodingConfig) -> Candidates:
    """Draw the next token of each live hypothesis; the samples of a sentence do not compete."""
    live, log_probs = next_tokens.live, next_tokens.log_probs
    rows = zip(live.sentences.tolist(), live.samples.tolist(), strict=True)
    numbers = [
        uniform(config.seed, next_tokens.requests[sentence].source, sample, live.length)
        for sentence, sample in rows
    ]
    drawn = torch.tensor(numbers, dtype=torch.float64, device=log_probs.device)[:, None]  # (N, 1)
    # Sum in the order of the ids, because rounding errors could change the order of probabilities.
    bounds = sampling_probabilities(log_probs, config).cumsum(dim=-1)
    tokens = torch.searchsorted(bounds, drawn * bounds[:, -1:], right=True)
    return select_tokens(next_tokens, tokens.clamp(max=log_probs.size(-1) - 1))
