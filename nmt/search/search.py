"""Beam search over a step function; beam size 1 is greedy search.

The N rows that the step function scores are the live hypotheses of all sentences, ordered by
sentence.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from nmt.base.errors import UserError
from nmt.config import DecodingConfig, SearchMethod
from nmt.search.candidates import select_beam
from nmt.search.constraints import Constraint, apply_min_length, apply_requests
from nmt.search.hypothesis import Hypothesis, NBest, TextOf, best_reachable_penalty, length_penalty
from nmt.search.live import Candidates, LiveHypotheses, NextTokens
from nmt.search.request import Request, TargetIds
from nmt.search.required import select_required
from nmt.search.sampling import select_samples


class SearchState(Protocol):
    """State of a step function between decoding steps."""

    def reorder(self, rows: Tensor) -> Self:
        """Select rows: `rows` (N',) are their indices, ordered by sentence; they may repeat."""


State = TypeVar("State", bound=SearchState)


class StepFunction(Protocol[State]):
    """Scores the next token of every row."""

    def __call__(self, tokens: Tensor, state: State, /) -> tuple[Tensor, State]:
        """Compute logits (N, V) of the next token from the last tokens (N,), and the new state.

        The search overwrites the logits.
        """


Select = Callable[[NextTokens], Candidates]


# Number of rows whose logits stay in the cache of a core between two passes over them.
_ROWS_PER_CHUNK = 32


@dataclass
class _Sentence:
    """State of the search for one sentence."""

    request: Request
    best: NBest  # the best hypotheses so far
    num_finished: int = 0  # hypotheses that have finished, including those not kept


@torch.inference_mode()
def beam_search(
    step: StepFunction[State],
    state: State,
    config: DecodingConfig,
    ids: TargetIds,
    requests: Sequence[Request],
    device: torch.device | None = None,
    text_of: TextOf | None = None,
    select: Select | None = None,
    constraint: Constraint | None = None,
) -> list[list[Hypothesis]]:
    """Search for the best translations of a batch of sentences.

    Args:
        step: scores the next token of every row.
        state: state before the first decoding step, with one row per sentence.
        requests: constraints and maximum length of each translation.
        device: device of the state; None is the CPU.
        text_of: if given, the returned hypotheses of a sentence have different texts.
        select: selects the candidates of a decoding step; None for the method of `config`.
        constraint: if given, forbids further tokens.

    Returns:
        For each sentence one to num_best hypotheses: those with EOS, best first; if these are too
        few, then those that were live at the end of the search, best first.

    Raises:
        UserError: the scores of the model are not finite.
    """
    select = select or _select_function(config, requests)
    is_constrained = any(request.required or request.banned for request in requests)
    longest_prefix = max((len(request.prefix) for request in requests), default=0)
    banned = torch.tensor(list(ids.banned_ids), dtype=torch.long, device=device)
    num_samples = config.beam_size if config.method is SearchMethod.sampling else 1
    live = LiveHypotheses.start(len(requests), num_samples, ids.bos_id, device)
    if num_samples > 1:
        state = state.reorder(live.sentences)
    searches = [_Sentence(request, NBest(config.num_best, text_of)) for request in requests]
    sentences = searches
    while sentences:
        logits, state = step(live.tokens[:, -1], state)
        log_probs = _log_softmax(logits.float())  # (N, V)
        if log_probs[:, ids.eos_id].isnan().any():  # the whole row is then NaN
            raise UserError("the scores of the model are not finite: its weights are damaged")
        log_probs.index_fill_(1, banned, -torch.inf)
        next_tokens = NextTokens(log_probs, live, [one.request for one in sentences], ids.eos_id)
        apply_min_length(next_tokens, config.min_length)
        if is_constrained or live.length < longest_prefix:
            apply_requests(next_tokens)
        if constraint is not None:
            constraint(next_tokens)
        candidates = select(next_tokens)
        penalty = length_penalty(live.length + 1, config)
        _collect_finished(sentences, live, candidates, penalty)
        kept, is_done = _prune(sentences, candidates, live.length + 1, config)
        for index, sentence in enumerate(sentences):
            if is_done[index]:
                _add_cut_off(sentence.best, index, live, candidates, penalty)
        sentences = [one for one, done in zip(sentences, is_done, strict=True) if not done]
        if sentences:
            rows = candidates.rows[kept]
            live = live.extend(candidates, kept, rows)
            state = state.reorder(rows)
    return [sentence.best.hypotheses for sentence in searches]


def _select_function(config: DecodingConfig, requests: Sequence[Request]) -> Select:
    if config.method is SearchMethod.sampling:
        return partial(select_samples, config=config)
    has_required = any(request.required for request in requests)
    return partial(select_required if has_required else select_beam, beam_size=config.beam_size)


def _log_softmax(logits: Tensor) -> Tensor:
    """Compute the log-softmax of logits (N, V), in place on a CPU."""
    # Working in place needs no new memory pages. The search reads few values of a row, so logsumexp
    # would be enough. But logsumexp of all rows takes twice the time of log_softmax of one chunk
    # after the other, because a chunk stays in the cache.
    if logits.device.type != "cpu":
        return logits.log_softmax(dim=-1)
    for rows in torch.split(logits, _ROWS_PER_CHUNK):
        rows.copy_(rows.log_softmax(dim=-1))
    return logits


def _collect_finished(
    sentences: list[_Sentence], live: LiveHypotheses, candidates: Candidates, penalty: float
) -> None:
    """Add the finished candidates to their sentences; `penalty` is their length penalty."""
    for index, rank in candidates.is_finished.nonzero().tolist():
        sentence = sentences[index]
        sentence.num_finished += 1
        score = float(candidates.log_probs[index, rank]) / penalty
        if score > sentence.best.lowest_score:
            sentence.best.add_finished(_hypothesis(live, candidates, index, rank, penalty))


def _prune(
    sentences: list[_Sentence], candidates: Candidates, length: int, config: DecodingConfig
) -> tuple[Tensor, list[bool]]:
    """Find the candidates that can still enter the n-best list of their sentence.

    A candidate cannot enter if the list is full and its lowest score is at least the best score
    that the candidate can reach. All candidates of a sentence have the same number of tokens,
    `length`, so candidates with a lower rank cannot enter either. Without required phrases, the
    result does not change if all of these are dropped. With patience, they are kept.

    Returns:
        Mask (B, C) of the candidates to keep, and whether each sentence is done.
    """
    bounds = []
    patience = config.patience * config.beam_size
    for sentence in sentences:
        max_length = sentence.request.max_length
        penalty = best_reachable_penalty(length, max_length, config)
        is_stopped = length >= max_length or 0 < patience <= sentence.num_finished
        bounds.append(math.inf if is_stopped else sentence.best.lowest_score * penalty)
    bound = torch.tensor(bounds, dtype=torch.float64, device=candidates.log_probs.device)
    can_improve = candidates.is_live & (candidates.log_probs > bound[:, None])
    is_open = can_improve.any(dim=1, keepdim=True)  # (B, 1)
    # With patience, finished hypotheses count even if they cannot improve the result.
    kept = candidates.is_live & is_open if config.patience else can_improve
    return kept, [not one for (one,) in is_open.tolist()]


def _add_cut_off(
    best: NBest, index: int, live: LiveHypotheses, candidates: Candidates, penalty: float
) -> None:
    """Fill the n-best list of the sentence `index` with its live candidates, best first."""
    if not best.num_missing:
        return
    log_probs = candidates.log_probs[index]
    ranks = candidates.is_live[index].nonzero().flatten().tolist()
    for rank in sorted(ranks, key=lambda rank: -float(log_probs[rank])):
        best.add_cut_off(_hypothesis(live, candidates, index, rank, penalty))
    if not best.hypotheses:
        # Every continuation is forbidden: return the first live hypothesis itself.
        row = int((live.sentences == index).nonzero()[0])
        log_prob = float(live.log_probs[row])
        ids, token_log_probs = live.row(row)
        best.add_cut_off(Hypothesis(ids, log_prob, log_prob / penalty, token_log_probs))


def _hypothesis(
    live: LiveHypotheses, candidates: Candidates, index: int, rank: int, penalty: float
) -> Hypothesis:
    """Build the hypothesis of the candidate (`index`, `rank`); its ids do not include EOS."""
    ids, token_log_probs = live.row(int(candidates.rows[index, rank]))
    if not candidates.is_finished[index, rank]:
        ids.append(int(candidates.tokens[index, rank]))
    token_log_probs.append(float(candidates.token_log_probs[index, rank]))
    log_prob = float(candidates.log_probs[index, rank])
    return Hypothesis(ids, log_prob, log_prob / penalty, token_log_probs)
