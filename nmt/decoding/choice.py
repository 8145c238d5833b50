"""Which candidates of a step are looked at."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nmt.decoding.live import Choice, NextTokens, Rows
from nmt.model.rows import RowGrid


class Chooser(Protocol):
    """Chooses the candidates of a step."""

    @property
    def num_lanes(self) -> int:
        """Rows that a sentence starts with."""

    @property
    def ranks_by_sum(self) -> bool:
        """Whether leaving out the worst of a sentence's sums leaves the others as they are."""

    def __call__(self, found: NextTokens, /) -> Choice:
        """Choose by the logits."""


@dataclass(frozen=True)
class BeamChooser:
    """The 2K best continuations of a sentence: K of them may end, and K others go on."""

    beam_size: int
    eos_id: int
    num_lanes: int = 1
    ranks_by_sum: bool = True

    def __call__(self, found: NextTokens, /) -> Choice:
        """Choose; see `Chooser`."""
        # Only 2K tokens of a row can be among the 2K best of its sentence.
        top, tokens = found.logits.topk(
            min(2 * self.beam_size, found.logits.size(-1)), dim=-1
        )  # (N, 2K)
        grid = RowGrid.of(found.rows.sentences, len(found.tasks))
        return best_of_sentences(
            found.rows, grid, tokens, top - found.normaliser, self.beam_size, self.eos_id
        )


def best_of_sentences(
    rows: Rows,
    grid: RowGrid,
    tokens: Tensor,
    token_log_probs: Tensor,
    num_beams: int,
    eos_id: int,
    chosen_rows: Tensor | None = None,
    losses: Tensor | None = None,
) -> Choice:
    """The best of the candidates of many rows, sentence by sentence.

    Args:
        rows: the live hypotheses.
        grid: those of them that have candidates, by sentence.
        tokens: (M, W) candidates of M rows.
        token_log_probs: (M, W), less the losses.
        num_beams: K; a hypothesis ends only from the first K candidates, so that beam 1 is greedy.
        eos_id: what ends a hypothesis.
        chosen_rows: (M,) the rows that have candidates; None is all.
        losses: (M, W) what is taken from log-probabilities in the choice, and given back after it.
    """
    width = tokens.size(1)
    before = rows.log_probs if chosen_rows is None else rows.log_probs[chosen_rows]
    sums = grid.spread(before[:, None] + token_log_probs, -torch.inf).flatten(1)
    scores, chosen = sums.topk(min(2 * num_beams, sums.size(1)), dim=1)  # (b, 2K)
    places = torch.arange(len(sums), device=sums.device)[:, None] * grid.num_places
    at = grid.rows_at((places + chosen // width).flatten()).view_as(chosen)
    picked = at * width + chosen % width
    best_tokens, best_log_probs = tokens.flatten()[picked], token_log_probs.flatten()[picked]
    exists, is_end = scores.isfinite(), best_tokens == eos_id
    if losses is not None:
        given_back = losses.flatten()[picked]
        scores, best_log_probs = scores + given_back, best_log_probs + given_back
    ranks = torch.arange(scores.size(1), device=sums.device)
    return Choice(
        rows,
        scores,
        at if chosen_rows is None else chosen_rows[at],
        best_tokens,
        best_log_probs,
        exists & is_end & (ranks < num_beams),
        exists & ~is_end & ((~is_end).cumsum(1) <= num_beams),
    )
