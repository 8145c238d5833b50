"""Constraints: next tokens are forbidden by setting their log-probability to -inf.

The other log-probabilities are not renormalised, so hypotheses keep those of the model.
"""

from collections.abc import Callable

import torch

from nmt.search.live import NextTokens
from nmt.search.required import missing

Constraint = Callable[[NextTokens], None]
"""Forbids next tokens by the rules of a caller, such as a grammar; one must remain for each row."""

# Log-probability of a prefix token whose own log-probability is -inf.
_FORCED_LOG_PROB = -20.0


def apply_min_length(next_tokens: NextTokens, min_length: int) -> None:
    """Forbid EOS if a hypothesis would be shorter than the minimum and can become longer."""
    live, log_probs = next_tokens.live, next_tokens.log_probs
    length = live.length + 1
    if length < min_length:
        can_grow = [length < request.max_length for request in next_tokens.requests]
        is_forbidden = torch.tensor(can_grow, device=log_probs.device)[live.sentences]
        log_probs[:, next_tokens.eos_id].masked_fill_(is_forbidden, -torch.inf)


def apply_requests(next_tokens: NextTokens) -> None:
    """Forbid the tokens that the requests exclude.

    Within the prefix, these are all tokens except the next one of the prefix. After the prefix,
    these are EOS while a required sequence is missing, and tokens that would complete a banned one.
    """
    live, log_probs = next_tokens.live, next_tokens.log_probs
    length = live.length
    forbidden: list[tuple[int, int]] = []
    forced: list[tuple[int, int]] = []
    for row, (sentence, ids) in enumerate(zip(live.sentences.tolist(), live.ids(), strict=True)):
        request = next_tokens.requests[sentence]
        if length < len(request.prefix):
            forced.append((row, request.prefix[length]))
            continue
        if request.required and missing(ids, request):
            forbidden.append((row, next_tokens.eos_id))
        for *before, last in request.banned:
            if ids[len(ids) - len(before) :] == before:
                forbidden.append((row, last))
    if forbidden:
        rows, tokens = torch.tensor(forbidden, device=log_probs.device).T
        log_probs[rows, tokens] = -torch.inf
    if forced:
        rows, tokens = torch.tensor(forced, device=log_probs.device).T
        kept = log_probs[rows, tokens]
        # A prefix may contain tokens that the search forbids, such as the unknown token.
        kept = torch.where(kept.isfinite(), kept, _FORCED_LOG_PROB)
        log_probs[rows] = -torch.inf
        log_probs[rows, tokens] = kept
