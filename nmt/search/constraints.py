"""Constraints: functions that forbid next tokens by setting their log-probability to -inf.

The remaining log-probabilities are not renormalised: those of a hypothesis stay the model's.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch

from nmt.search.live import NextTokens
from nmt.search.request import Request, TargetIds
from nmt.search.required import missing

Constraint = Callable[[NextTokens], None]

# Log-probability of a forced token that is otherwise forbidden.
_FORCED_LOG_PROB = -20.0


def active_constraints(
    requests: Sequence[Request], min_length: int, ids: TargetIds
) -> list[Constraint]:
    """Return the constraints that the requests need, in the order in which they apply."""
    constraints: list[Constraint] = []
    if min_length > 1:
        constraints.append(partial(apply_min_length, min_length=min_length, eos_id=ids.eos_id))
    if any(request.required for request in requests):
        constraints.append(partial(forbid_early_eos, eos_id=ids.eos_id))
    if any(request.banned for request in requests):
        constraints.append(forbid_banned)
    # The prefix comes last so that no other constraint forbids it.
    if any(request.prefix for request in requests):
        constraints.append(force_prefix)
    return constraints


def apply_min_length(next_tokens: NextTokens, min_length: int, eos_id: int) -> None:
    """Forbid EOS in hypotheses that would be shorter than the minimum length."""
    live, log_probs = next_tokens.live, next_tokens.log_probs
    length = live.length + 1
    if length < min_length:
        can_grow = [length < request.max_length for request in next_tokens.requests]
        is_early = torch.tensor(can_grow, device=log_probs.device)[live.sentences]
        log_probs[:, eos_id].masked_fill_(is_early, -torch.inf)


def forbid_early_eos(next_tokens: NextTokens, eos_id: int) -> None:
    """Forbid EOS in hypotheses that lack a required sequence."""
    lacking = [
        row
        for row, (request, ids) in enumerate(_rows(next_tokens))
        if missing(ids, request.required)
    ]
    next_tokens.log_probs[lacking, eos_id] = -torch.inf


def forbid_banned(next_tokens: NextTokens) -> None:
    """Forbid the last token of a banned sequence after all tokens before it."""
    for row, (request, ids) in enumerate(_rows(next_tokens)):
        for sequence in request.banned:
            before = list(sequence[:-1])
            if ids[len(ids) - len(before) :] == before:
                next_tokens.log_probs[row, sequence[-1]] = -torch.inf


def force_prefix(next_tokens: NextTokens) -> None:
    """Forbid all tokens except the next one of the prefix."""
    length, log_probs = next_tokens.live.length, next_tokens.log_probs
    forced = [
        (row, next_tokens.requests[sentence].prefix[length])
        for row, sentence in enumerate(next_tokens.live.sentences.tolist())
        if length < len(next_tokens.requests[sentence].prefix)
    ]
    if not forced:
        return
    rows, tokens = torch.tensor(forced, device=log_probs.device).T
    kept = log_probs[rows, tokens]
    # A prefix may contain tokens that search never selects, such as the unknown token.
    kept = torch.where(kept.isfinite(), kept, _FORCED_LOG_PROB)
    log_probs[rows] = -torch.inf
    log_probs[rows, tokens] = kept


def _rows(next_tokens: NextTokens) -> list[tuple[Request, list[int]]]:
    """Return the request and the tokens of each live hypothesis."""
    live = next_tokens.live
    return [
        (next_tokens.requests[sentence], ids)
        for sentence, ids in zip(live.sentences.tolist(), live.ids(), strict=True)
    ]
