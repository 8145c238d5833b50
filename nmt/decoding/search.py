"""Beam search, of which greedy search is beam 1, over a step function; it knows no model.

A step function takes the last tokens of all rows and a state, and gives the logits of the next
token. Rows of one sentence stand together, K for each of B sentences: N = B·K.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from nmt.config import DecodingConfig


class SearchState(Protocol):
    """What a step function carries from position to position."""

    def reorder(self, rows: Tensor) -> Self:
        """Keep `rows` (N',), in groups of K that each come from the rows of one sentence."""


State = TypeVar("State", bound=SearchState)


class StepFunction(Protocol[State]):
    """Scores the next token of every row."""

    def __call__(self, tokens: Tensor, state: State, /) -> tuple[Tensor, State]:
        """Tokens (N,) of the last position → logits (N, V) of the next one, and the new state."""


@dataclass(frozen=True)
class Hypothesis:
    """One translation.

    Attributes:
        ids: tokens, without BOS and EOS.
        log_prob: sum of the log-probabilities of the tokens and EOS.
        score: log_prob over the length penalty; the best translation has the highest.
        token_log_probs: log-probability of each token, EOS last; empty where the engine does not
            tell them.
    """

    ids: list[int]
    log_prob: float
    score: float
    token_log_probs: list[float]


@dataclass(frozen=True)
class SearchLimits:
    """What search has to know about the vocabulary and the sentences.

    Attributes:
        bos_id: token that every hypothesis starts from.
        eos_id: token that ends a hypothesis.
        max_lengths: B: most tokens of each sentence's translation, EOS included.
        banned_ids: tokens that never occur in a translation, such as padding.
    """

    bos_id: int
    eos_id: int
    max_lengths: Sequence[int]
    banned_ids: Sequence[int] = ()


def length_penalty(length: int, alpha: float) -> float:
    """((5 + n) / 6) ** alpha with n tokens, EOS counted (Wu et al. 2016, equation 14)."""
    return float(((5.0 + length) / 6.0) ** alpha)


@dataclass
class _Live:
    """The live hypotheses of the sentences that are still searched, at one common length.

    Attributes:
        sentences: b: which sentence of the call each group of K rows belongs to.
        log_probs: (b, K) sums; -inf where there is no such hypothesis yet.
        tokens: (b, K, length) tokens so far.
        token_log_probs: (b, K, length).
    """

    sentences: list[int]
    log_probs: Tensor
    tokens: Tensor
    token_log_probs: Tensor


@torch.inference_mode()
def search(
    step: StepFunction[State],
    state: State,
    config: DecodingConfig,
    limits: SearchLimits,
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """The best translations of B sentences.

    A sentence is done when none of its live hypotheses can still beat the worst of its num_best
    finished ones, whatever they add: log-probabilities only fall, so a live hypothesis cannot pass
    its present sum over the largest length penalty it may reach.

    Args:
        step: scores the next token of N = B·K rows.
        state: the state before the first step, for N rows.
        config: beam size, length penalty, number of translations.
        limits: special ids and longest translations.
        device: where the state lives; None is the CPU.

    Returns:
        For each sentence up to num_best hypotheses, at least one: those that ended, best first,
        then, where too few did within the longest length, live ones as they were cut off.
    """
    num_sentences, num_beams = len(limits.max_lengths), config.beam_size
    finished: list[list[Hypothesis]] = [[] for _ in range(num_sentences)]
    if not num_sentences:
        return finished
    # At the start all K rows of a sentence are the same, so only the first may be continued.
    log_probs = torch.full((num_sentences, num_beams), -torch.inf, device=device)
    log_probs[:, 0] = 0.0
    empty = torch.empty(num_sentences, num_beams, 0, device=device)
    live = _Live(list(range(num_sentences)), log_probs, empty.long(), empty)
    last_tokens = torch.full((num_sentences * num_beams,), limits.bos_id, device=device)
    length = 0
    while live.sentences:
        logits, state = step(last_tokens, state)
        length += 1
        live, rows, last_tokens = _advance(live, logits, length, finished, config, limits)
        if live.sentences:
            state = state.reorder(rows)
    return finished


def _advance(
    live: _Live,
    logits: Tensor,
    length: int,
    finished: list[list[Hypothesis]],
    config: DecodingConfig,
    limits: SearchLimits,
) -> tuple[_Live, Tensor, Tensor]:
    """Extend every live hypothesis by one token; move what ends to `finished`.

    Returns:
        The sentences that go on, the rows (b'·K,) they continue, and their new tokens (b'·K,).
    """
    num_beams = config.beam_size
    scores, parents, tokens, token_log_probs = _candidates(live, logits, num_beams, limits)
    is_end = tokens == limits.eos_id  # (b, 2K)
    # Keep 2K candidates: K of them may end here, and K others must be left to go on.
    may_end = is_end[:, :num_beams] & scores[:, :num_beams].isfinite()
    _collect(live, may_end, scores, parents, token_log_probs, length, finished, config)

    # The K best that do not end go on: a stable sort on "ends here" keeps their order.
    going = is_end.to(torch.uint8).argsort(dim=1, stable=True)[:, :num_beams]  # (b, K)
    parents = parents.gather(1, going)
    grown = _Live(
        live.sentences,
        scores.gather(1, going).masked_fill(is_end.gather(1, going), -torch.inf),
        _extended(live.tokens, parents, tokens.gather(1, going)),
        _extended(live.token_log_probs, parents, token_log_probs.gather(1, going)),
    )
    best_live = grown.log_probs[:, 0].tolist()
    kept: list[int] = []
    for place, sentence in enumerate(live.sentences):
        max_length = limits.max_lengths[sentence]
        if length >= max_length:
            _collect_cut_off(grown, place, length, finished[sentence], config)
        elif not _is_done(finished[sentence], best_live[place], length, max_length, config):
            kept.append(place)
    places = torch.tensor(kept, dtype=torch.long, device=logits.device)
    if len(kept) < len(live.sentences):
        parents = parents.index_select(0, places)
        grown = _Live(
            [live.sentences[place] for place in kept],
            grown.log_probs.index_select(0, places),
            grown.tokens.index_select(0, places),
            grown.token_log_probs.index_select(0, places),
        )
    rows = (places[:, None] * num_beams + parents).flatten()
    return grown, rows, grown.tokens[:, :, -1].flatten()


def _candidates(
    live: _Live, logits: Tensor, num_beams: int, limits: SearchLimits
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The 2K best continuations of each sentence, best first.

    Returns:
        (b, 2K) each: sum of log-probabilities, beam continued, token, its log-probability.
    """
    num_sentences = len(live.sentences)
    logits = logits.float()
    # Only 2K tokens of a row can be among the 2K best of its sentence, so normalising those is
    # enough: log_softmax over all V would write N·V numbers to read N·2K.
    normaliser = logits.logsumexp(dim=-1, keepdim=True)  # (N, 1)
    if limits.banned_ids:
        logits[:, list(limits.banned_ids)] = -torch.inf
    width = min(2 * num_beams, logits.size(-1))
    top, tokens = logits.topk(width, dim=-1)  # (N, 2K)
    token_log_probs = (top - normaliser).view(num_sentences, num_beams * width)
    sums = live.log_probs.repeat_interleave(width, dim=1) + token_log_probs  # (b, K·2K)
    scores, chosen = sums.topk(min(2 * num_beams, sums.size(1)), dim=1)  # (b, 2K)
    return (
        scores,
        chosen // width,
        tokens.view(num_sentences, -1).gather(1, chosen),
        token_log_probs.gather(1, chosen),
    )


def _extended(prefix: Tensor, parents: Tensor, last: Tensor) -> Tensor:
    """(b, K, n) prefixes of the chosen parents (b, K) with one more column (b, K)."""
    index = parents[:, :, None].expand(-1, -1, prefix.size(2))
    return torch.cat((prefix.gather(1, index), last[:, :, None]), dim=2)


def _collect(
    live: _Live,
    may_end: Tensor,
    scores: Tensor,
    parents: Tensor,
    token_log_probs: Tensor,
    length: int,
    finished: list[list[Hypothesis]],
    config: DecodingConfig,
) -> None:
    """Add the candidates that end at this length to `finished`."""
    penalty = length_penalty(length, config.length_penalty)
    for place, rank in may_end.nonzero().tolist():
        beam = int(parents[place, rank])
        log_prob = float(scores[place, rank])
        hypothesis = Hypothesis(
            live.tokens[place, beam].tolist(),
            log_prob,
            log_prob / penalty,
            [*live.token_log_probs[place, beam].tolist(), float(token_log_probs[place, rank])],
        )
        _keep_best(finished[live.sentences[place]], hypothesis, config.num_best)


def _collect_cut_off(
    grown: _Live,
    place: int,
    length: int,
    finished: list[Hypothesis],
    config: DecodingConfig,
) -> None:
    """At the longest length, take live hypotheses as they are where too few have ended."""
    penalty = length_penalty(length, config.length_penalty)
    missing = config.num_best - len(finished)
    for beam in range(min(missing, config.beam_size)):
        log_prob = float(grown.log_probs[place, beam])
        if log_prob > -torch.inf:
            ids = grown.tokens[place, beam].tolist()
            token_log_probs = grown.token_log_probs[place, beam].tolist()
            finished.append(Hypothesis(ids, log_prob, log_prob / penalty, token_log_probs))


def _keep_best(finished: list[Hypothesis], hypothesis: Hypothesis, num_best: int) -> None:
    finished.append(hypothesis)
    # Stable: of equal scores the one found first, the shorter, stays ahead.
    finished.sort(key=lambda kept: -kept.score)
    del finished[num_best:]


def _is_done(
    finished: list[Hypothesis],
    best_live: float,
    length: int,
    max_length: int,
    config: DecodingConfig,
) -> bool:
    """Whether no live hypothesis can enter the num_best finished ones any more."""
    if best_live == -torch.inf:
        return True
    if len(finished) < config.num_best:
        return False
    alpha = config.length_penalty
    # A negative sum divided by a larger penalty comes closer to zero, so with alpha > 0 the longest
    # translation has the best chance, else the next one.
    reachable = max_length if alpha > 0 else length + 1
    return best_live / length_penalty(reachable, alpha) <= finished[-1].score
