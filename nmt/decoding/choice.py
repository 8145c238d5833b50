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
        """Choose; see `Chooser`.

        The 2K best of a sentence stand in the 2K blocks of columns whose largest numbers are
        largest. To find these is one pass over the matrix, and only they are ranked.
        """
        rows, log_probs = found.rows, found.log_probs
        num_columns = log_probs.size(1)
        size = _BLOCK if num_columns > 2 * self.beam_size * _BLOCK else 1
        grid = RowGrid.of(rows.sentences, len(found.tasks))
        maxima = _block_maxima(log_probs, size)  # (N, blocks)
        at, blocks, exists = _best_places(
            grid, rows.log_probs[:, None] + maxima, 2 * self.beam_size
        )  # (b, C)
        # The last block may end behind the last column.
        columns = blocks[..., None] * size + torch.arange(size, device=at.device)
        exists = exists[..., None] & (columns < num_columns)
        found_log_probs = log_probs[at[..., None], columns.clamp(max=num_columns - 1)]
        sums = rows.log_probs[at][..., None] + found_log_probs  # (b, C, size)
        sums = sums.masked_fill(~exists, -torch.inf).flatten(1)
        scores, chosen = sums.topk(min(2 * self.beam_size, sums.size(1)), dim=1)  # (b, 2K)
        parents = at.gather(1, chosen // size)
        tokens = columns.flatten(1).gather(1, chosen)
        token_log_probs = found_log_probs.flatten(1).gather(1, chosen)
        return _choice(rows, scores, parents, tokens, token_log_probs, self.beam_size, self.eos_id)


# Columns of which the largest number is looked up first.
_BLOCK = 64


def _block_maxima(numbers: Tensor, size: int) -> Tensor:
    """(N, V) → (N, blocks): the largest number of each block of columns."""
    whole = numbers.size(1) // size * size
    maxima = numbers[:, :whole].reshape(len(numbers), -1, size).amax(dim=-1)
    if whole == numbers.size(1):
        return maxima
    return torch.cat((maxima, numbers[:, whole:].amax(dim=-1, keepdim=True)), dim=1)


def _best_places(grid: RowGrid, numbers: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Where the largest of (M, W) numbers are, sentence by sentence, best first.

    Returns:
        (b, C) each, C at most `count`: row, column, whether there is such a number.
    """
    width = numbers.size(1)
    spread = grid.spread(numbers, -torch.inf).flatten(1)
    best, chosen = spread.topk(min(count, spread.size(1)), dim=1)
    places = torch.arange(len(spread), device=spread.device)[:, None] * grid.num_places
    at = grid.rows_at((places + chosen // width).flatten()).view_as(chosen)
    return at, chosen % width, best.isfinite()


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
    before = rows.log_probs if chosen_rows is None else rows.log_probs[chosen_rows]
    sums = before[:, None] + token_log_probs
    at, columns, exists = _best_places(grid, sums, 2 * num_beams)  # (b, 2K)
    scores = sums[at, columns].masked_fill(~exists, -torch.inf)
    best_log_probs = token_log_probs[at, columns]
    if losses is not None:
        given_back = losses[at, columns]
        scores, best_log_probs = scores + given_back, best_log_probs + given_back
    parents = at if chosen_rows is None else chosen_rows[at]
    return _choice(rows, scores, parents, tokens[at, columns], best_log_probs, num_beams, eos_id)


def _choice(
    rows: Rows,
    scores: Tensor,
    parents: Tensor,
    tokens: Tensor,
    token_log_probs: Tensor,
    num_beams: int,
    eos_id: int,
) -> Choice:
    """What may end and what may go on of (b, C) candidates, best first."""
    exists, is_end = scores.isfinite(), tokens == eos_id
    ranks = torch.arange(scores.size(1), device=scores.device)
    return Choice(
        rows,
        scores,
        parents,
        tokens,
        token_log_probs,
        exists & is_end & (ranks < num_beams),
        exists & ~is_end & ((~is_end).cumsum(1) <= num_beams),
    )
