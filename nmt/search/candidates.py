"""Selection of the best candidates of beam search."""

import torch
from torch import Tensor

from nmt.search.live import Candidates, NextTokens
from nmt.search.rows import RowGrid

# A block is this number of neighbouring columns (tokens) of one row.
_BLOCK_SIZE = 64


def select_beam(next_tokens: NextTokens, beam_size: int) -> Candidates:
    """Select the 2K best continuations of each sentence; see `best_candidates`."""
    live = next_tokens.live
    grid = RowGrid.of(live.sentences, len(next_tokens.requests))
    return best_candidates(
        live.log_probs, next_tokens.log_probs, grid, beam_size, next_tokens.eos_id
    )


def best_candidates(
    live_log_probs: Tensor, log_probs: Tensor, grid: RowGrid, beam_size: int, eos_id: int
) -> Candidates:
    """Select the 2K best continuations of each sentence.

    At most K of them end with EOS, one for each live hypothesis, so at least K can be continued.
    The 2K best of a sentence are in the 2K blocks with the largest maxima. Finding these blocks
    takes one pass over the log-probabilities, and only the columns of these blocks are ranked.

    Args:
        live_log_probs: (N,) sum of the log-probabilities of each live hypothesis.
        log_probs: (N, V) log-probabilities of its next token.
        grid: arrangement of the rows by sentence.
        beam_size: K.
        eos_id: token that ends a hypothesis.
    """
    num_columns = log_probs.size(1)
    size = _BLOCK_SIZE if num_columns > 2 * beam_size * _BLOCK_SIZE else 1
    maxima = live_log_probs[:, None] + _block_maxima(log_probs, size)  # (N, blocks)
    rows, blocks, exists = _best_of_sentences(grid, maxima, 2 * beam_size)  # (B, C)
    # The last block may extend beyond the last column.
    columns = blocks[..., None] * size + torch.arange(size, device=rows.device)  # (B, C, size)
    exists = exists[..., None] & (columns < num_columns)
    token_log_probs = log_probs[rows[..., None], columns.clamp(max=num_columns - 1)]
    sums = live_log_probs[rows][..., None] + token_log_probs
    sums = sums.masked_fill(~exists, -torch.inf).flatten(1)  # (B, C·size)
    best, chosen = sums.topk(min(2 * beam_size, sums.size(1)), dim=1)  # (B, 2K)
    return _candidates(
        best,
        rows.gather(1, chosen // size),
        columns.flatten(1).gather(1, chosen),
        token_log_probs.flatten(1).gather(1, chosen),
        beam_size,
        eos_id,
    )


def select_tokens(next_tokens: NextTokens, tokens: Tensor) -> Candidates:
    """Return the candidates that continue each live hypothesis by its token in `tokens` (N, 1)."""
    live, log_probs = next_tokens.live, next_tokens.log_probs.gather(1, tokens)
    grid = RowGrid.of(live.sentences, len(next_tokens.requests))
    sums = live.log_probs[:, None] + log_probs
    rows, _, exists = _best_of_sentences(grid, sums, grid.max_rows)  # (B, K)
    best = sums[rows, 0].masked_fill(~exists, -torch.inf)
    eos_id = next_tokens.eos_id
    return _candidates(best, rows, tokens[rows, 0], log_probs[rows, 0], grid.max_rows, eos_id)


def _best_of_sentences(grid: RowGrid, scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Find the largest of the scores (N, W) for each sentence, best first.

    Returns:
        Row, column and whether the score is finite, (B, C) each, where C is at most `count`.
    """
    width = scores.size(1)
    by_sentence = grid.spread(scores, -torch.inf).flatten(1)  # (B, K·W)
    best, chosen = by_sentence.topk(min(count, by_sentence.size(1)), dim=1)
    first_cells = torch.arange(len(by_sentence), device=scores.device)[:, None] * grid.max_rows
    rows = grid.rows_at((first_cells + chosen // width).flatten()).view_as(chosen)
    return rows, chosen % width, best > -torch.inf


def _candidates(
    log_probs: Tensor,
    rows: Tensor,
    tokens: Tensor,
    token_log_probs: Tensor,
    beam_size: int,
    eos_id: int,
) -> Candidates:
    """Mark which of (B, C) candidates, best first, are finished and which are live.

    A candidate with EOS is finished only if it is among the first K, so that beam size 1 is greedy
    search. The first K candidates without EOS are live.
    """
    exists, is_other = log_probs > -torch.inf, tokens != eos_id
    is_finished = exists & ~is_other
    is_finished[:, beam_size:] = False
    is_live = exists & is_other & (is_other.cumsum(1) <= beam_size)
    return Candidates(log_probs, rows, tokens, token_log_probs, is_finished, is_live)


def _block_maxima(scores: Tensor, size: int) -> Tensor:
    """Return the maximum of each block of `size` columns: (N, V) → (N, blocks)."""
    whole = scores.size(1) // size * size
    maxima = scores[:, :whole].reshape(len(scores), -1, size).amax(dim=-1)
    if whole == scores.size(1):
        return maxima
    return torch.cat((maxima, scores[:, whole:].amax(dim=-1, keepdim=True)), dim=1)
