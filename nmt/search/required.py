"""Required token sequences by dynamic beam allocation (Post and Vilar 2018).

The candidates of a sentence are grouped by the number of required tokens that they contain, and
each group gets a share of the beam. So some hypotheses continue the required sequences, and others
wait for the position where a sequence fits.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F

from nmt.search.candidates import select_beam
from nmt.search.live import Candidates, NextTokens
from nmt.search.request import Ids, Request, Required, longest


def missing(ids: Ids, request: Request) -> list[Required]:
    """Return the requirements of which no sequence occurs in `ids`."""
    return [
        forms
        for forms in request.required
        if not any(occurs(form, ids, request.continuing) for form in forms)
    ]


def occurs(sequence: Ids, ids: Ids, continuing: Collection[int] = frozenset()) -> bool:
    """Return whether a sequence occurs in `ids` at the end of `ids` or of a word."""
    wanted, size = list(sequence), len(sequence)
    return any(
        list(ids[start : start + size]) == wanted
        and not any(token in continuing for token in ids[start + size : start + size + 1])
        for start in range(len(ids) - size + 1)
    )


def _num_begun(sequence: Ids, ids: Ids) -> int:
    """Return how many first tokens of a missing sequence are the last tokens of `ids`."""
    sizes = range(min(len(sequence) - 1, len(ids)), 0, -1)
    return next((n for n in sizes if list(ids[len(ids) - n :]) == list(sequence[:n])), 0)


def num_met(ids: Ids, request: Request) -> int:
    """Count required tokens in `ids`: of what occurs, and of the longest start of another.

    A requirement counts as many tokens as its longest sequence.
    """
    lacking = missing(ids, request)
    complete = sum(map(longest, request.required)) - sum(map(longest, lacking))
    begun = (
        _num_begun(form, ids) * longest(forms) // len(form) for forms in lacking for form in forms
    )
    return complete + max(begun, default=0)


def allocate(beam_size: int, counts: Sequence[int]) -> list[int]:
    """Divide the beam among groups of candidates.

    `counts` are the sizes of the groups, from the group without required tokens to the group with
    all. Groups get equal shares, and the last group also gets the remainder. Shares that a group
    cannot use go to other groups, first to those with the most required tokens.
    """
    equal, remainder = divmod(beam_size, len(counts))
    wanted = [equal] * (len(counts) - 1) + [equal + remainder]
    shares = [min(share, count) for share, count in zip(wanted, counts, strict=True)]
    left = beam_size - sum(shares)
    for group in reversed(range(len(counts))):
        more = min(left, counts[group] - shares[group])
        shares[group] += more
        left -= more
    return shares


class _Candidate(NamedTuple):
    """Continuation of one live hypothesis."""

    log_prob: float
    row: int
    token: int
    token_log_prob: float
    num_met: int


def select_required(next_tokens: NextTokens, beam_size: int) -> Candidates:
    """Select by groups in sentences with required sequences, in others as `select_beam` does."""
    candidates = _widened(select_beam(next_tokens, beam_size), 2 * beam_size)
    live, eos_id = next_tokens.live, next_tokens.eos_id
    hypotheses = list(zip(live.sentences.tolist(), live.ids(), strict=True))
    for sentence, request in enumerate(next_tokens.requests):
        if not request.required:
            continue
        ids_by_row = {row: ids for row, (own, ids) in enumerate(hypotheses) if own == sentence}
        pool = _pool(next_tokens, candidates, sentence, ids_by_row)
        num_required = sum(map(longest, request.required))
        complete = [one for one in pool if one.num_met == num_required]
        finished = [one for one in complete[:beam_size] if one.token == eos_id]
        # Live hypotheses are cut off after the last decoding step, so in this step those with all
        # required tokens are preferred.
        is_last = live.length + 1 >= request.max_length
        usable = complete if is_last and complete else pool
        groups: list[list[_Candidate]] = [[] for _ in range(num_required + 1)]
        for one in usable:
            if one.token != eos_id:
                groups[one.num_met].append(one)
        shares = allocate(beam_size, list(map(len, groups)))
        kept = [one for group, share in zip(groups, shares, strict=True) for one in group[:share]]
        _replace(candidates, sentence, [*finished, *kept], eos_id)
    return candidates


def _pool(
    next_tokens: NextTokens, candidates: Candidates, sentence: int, ids_by_row: dict[int, list[int]]
) -> list[_Candidate]:
    """Return all candidates of a sentence, best first.

    These are the candidates of beam search and, for each row, its best token, and the first and the
    next token of each missing sequence.
    """
    request = next_tokens.requests[sentence]
    exists = candidates.log_probs[sentence].isfinite()
    chosen = (candidates.rows[sentence][exists], candidates.tokens[sentence][exists])
    pairs = set(zip(*(values.tolist() for values in chosen), strict=True))
    best_tokens = next_tokens.log_probs[list(ids_by_row)].argmax(dim=1).tolist()
    pairs.update(zip(ids_by_row, best_tokens, strict=True))
    for row, ids in ids_by_row.items():
        for forms in missing(ids, request):
            pairs.update((row, form[0]) for form in forms)
            pairs.update((row, form[_num_begun(form, ids)]) for form in forms)
    rows, tokens = map(list, zip(*sorted(pairs), strict=True))
    token_log_probs = next_tokens.log_probs[rows, tokens]
    sums = next_tokens.live.log_probs[rows] + token_log_probs
    values = (sums.tolist(), rows, tokens, token_log_probs.tolist())
    pool = []
    for log_prob, row, token, token_log_prob in zip(*values, strict=True):
        if log_prob > -torch.inf:
            ids = ids_by_row[row] + [token] * (token != next_tokens.eos_id)
            pool.append(_Candidate(log_prob, row, token, token_log_prob, num_met(ids, request)))
    return sorted(pool, key=lambda one: -one.log_prob)


def _replace(candidates: Candidates, sentence: int, chosen: list[_Candidate], eos_id: int) -> None:
    candidates.log_probs[sentence] = -torch.inf
    candidates.is_finished[sentence] = candidates.is_live[sentence] = False
    for rank, one in enumerate(sorted(chosen, key=lambda one: -one.log_prob)):
        candidates.log_probs[sentence, rank] = one.log_prob
        candidates.rows[sentence, rank] = one.row
        candidates.tokens[sentence, rank] = one.token
        candidates.token_log_probs[sentence, rank] = one.token_log_prob
        candidates.is_finished[sentence, rank] = one.token == eos_id
        candidates.is_live[sentence, rank] = one.token != eos_id


def _widened(candidates: Candidates, width: int) -> Candidates:
    """Return a copy with at least `width` candidates per sentence, the additional ones empty."""
    added = max(0, width - candidates.log_probs.size(1))
    sums, *others = vars(candidates).values()  # `log_probs` is the first field
    return Candidates(
        F.pad(sums, (0, added), value=-torch.inf), *(F.pad(other, (0, added)) for other in others)
    )
