"""Beam search in fixed shapes, so that a decoding step can be captured as a CUDA graph.

The search has K rows for each of B sentences until its end, and its state is in tensors that never
move. It finds the same hypotheses as `nmt.search.search.beam_search` with `num_best` = 1 and
without constraints. A row without a hypothesis has the log-probability -inf.

The row k of a sentence that reads the token at position p occupies the slot (p, k) of the sentence.
Slots are never copied or reordered. `ancestors` (B, K, T) states for each row which slots contain
the tokens of its hypothesis: at position p, the slot (p, ancestors[b, k, p]).
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.base.errors import UserError
from nmt.config import DecodingConfig
from nmt.search.candidates import best_candidates
from nmt.search.hypothesis import Hypothesis, length_penalty
from nmt.search.live import Candidates
from nmt.search.request import Request, TargetIds
from nmt.search.rows import RowGrid

FixedStep = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Computes logits (N, V) from the last tokens (N,), the ancestors (B, K, T) and the position (1,).

The search overwrites the logits.
"""

# Decoding steps between two looks of the host at the device.
_STEPS_PER_CHECK = 8
# Smallest number of positions of a decoding step.
_FEWEST_POSITIONS = 32


def num_positions(length: int) -> int:
    """Return T of a decoding step after `length` tokens; it is one of few sizes."""
    return max(_FEWEST_POSITIONS, 1 << length.bit_length())


class FixedSearch:
    """Search for B sentences with K rows each; one object serves any number of batches.

    Args:
        config: search options; `num_best` is 1.
        ids: special ids of the target vocabulary.
        num_sentences: B.
        max_length: largest length of a translation in tokens, EOS included.
        device: device of the state.
    """

    def __init__(
        self,
        config: DecodingConfig,
        ids: TargetIds,
        num_sentences: int,
        max_length: int,
        device: torch.device,
    ) -> None:
        self._config, self._ids = config, ids
        beam_size = config.beam_size
        self._shape = num_sentences, beam_size
        self._grid = RowGrid(num_sentences, beam_size, None)
        self._numbers = torch.arange(beam_size, device=device)
        self._banned = torch.tensor(list(ids.banned_ids), dtype=torch.long, device=device)
        # Penalty of each length up to max_length + 1.
        penalties = [1.0, *(length_penalty(n, config) for n in range(1, max_length + 2))]
        self._penalties = torch.tensor(penalties, dtype=torch.float64, device=device)

        def state(*shape: int, dtype: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        size = num_positions(max_length - 1)
        self._position = state(1)  # position of the tokens that the next decoding step reads
        self._tokens = state(num_sentences, beam_size)  # the last token of each row
        self._token_log_probs = state(num_sentences, beam_size, dtype=torch.float32)
        self._log_probs = state(num_sentences, beam_size, dtype=torch.float32)
        self._ancestors = state(num_sentences, beam_size, size)
        # What each slot contains.
        self._slot_tokens = state(num_sentences, beam_size, size)
        self._slot_log_probs = state(num_sentences, beam_size, size, dtype=torch.float32)
        # The best hypothesis of each sentence: its slots, and the token that follows them. It is
        # EOS if the hypothesis is finished, and -1 if nothing follows.
        self._best_slots = state(num_sentences, size)
        self._best_last = state(num_sentences)
        self._best_last_log_prob = state(num_sentences, dtype=torch.float32)
        self._best_log_prob = state(num_sentences, dtype=torch.float32)
        self._best_length = state(num_sentences)  # number of the slots
        self._best_score = state(num_sentences, dtype=torch.float64)  # -inf: none has finished
        self._num_finished = state(num_sentences)
        self._max_lengths = state(num_sentences)
        self._is_done = state(num_sentences, dtype=torch.bool)
        self._is_damaged = state(1, dtype=torch.bool)

    def search(self, requests: Sequence[Request], run: Callable[[int], None]) -> list[Hypothesis]:
        """Search for the best translation of each of at most B sentences.

        Args:
            requests: maximum length of each translation.
            run: calls `step` with this number of positions, or replays such a call.

        Raises:
            UserError: the scores of the model are not finite.
        """
        self._start(requests)
        for length in range(max(request.max_length for request in requests)):
            run(num_positions(length))
            if length % _STEPS_PER_CHECK == _STEPS_PER_CHECK - 1 and bool(self._is_done.all()):
                break
        if self._is_damaged:
            raise UserError("the scores of the model are not finite: its weights are damaged")
        return self._hypotheses(len(requests))

    def _start(self, requests: Sequence[Request]) -> None:
        """Put BOS into the first row of each sentence; sentences without a request are done."""
        max_lengths = torch.ones_like(self._max_lengths, device="cpu")
        max_lengths[: len(requests)] = torch.tensor([one.max_length for one in requests])
        self._max_lengths.copy_(max_lengths)
        self._is_done.fill_(False)[len(requests) :] = True
        self._tokens.fill_(self._ids.bos_id)
        self._log_probs.fill_(-torch.inf)[: len(requests), 0] = 0.0
        self._best_score.fill_(-torch.inf)
        for state in (self._position, self._token_log_probs, self._num_finished, self._is_damaged):
            state.zero_()

    def step(self, decode: FixedStep, positions: int) -> None:
        """Compute one decoding step of all sentences, without waiting for the device.

        Args:
            decode: the step function.
            positions: T of its ancestors; a power of two above the present position.
        """
        self._slot_tokens.index_copy_(2, self._position, self._tokens[..., None])
        self._slot_log_probs.index_copy_(2, self._position, self._token_log_probs[..., None])
        own = self._numbers.expand(self._shape)[..., None]  # (B, K, 1)
        self._ancestors.index_copy_(2, self._position, own)
        ancestors = self._ancestors[:, :, :positions]
        self._advance(decode(self._tokens.flatten(), ancestors, self._position))

    def _advance(self, logits: Tensor) -> None:
        """Continue the hypotheses, given the logits (N, V) of their next tokens."""
        length = self._position + 1  # (1,)
        log_probs = F.log_softmax(logits, dim=-1, dtype=torch.float32)
        self._is_damaged |= log_probs[:, self._ids.eos_id].isnan().any()
        self._forbid(log_probs, length)
        candidates = best_candidates(
            self._log_probs.flatten(), log_probs, self._grid, self._shape[1], self._ids.eos_id
        )
        kept = self._update_best(candidates, length)
        self._continue(candidates, kept)
        self._position.copy_(length)

    def _forbid(self, log_probs: Tensor, length: Tensor) -> None:
        """Forbid tokens that never occur, and EOS as `apply_min_length` does."""
        log_probs.index_fill_(1, self._banned, -torch.inf)
        if self._config.min_length > 1:
            is_short = (length < self._config.min_length) & (length < self._max_lengths)  # (B,)
            eos = log_probs[:, self._ids.eos_id].view(self._shape)
            eos.masked_fill_(is_short[:, None], -torch.inf)

    def _update_best(self, candidates: Candidates, length: Tensor) -> Tensor:
        """Update the best hypotheses and `_is_done`, as the functions of `beam_search` do.

        Candidates are sorted, so the first finished candidate is the best one of this step, and the
        first live one is the hypothesis of a sentence that is cut off.

        Returns:
            Mask (B, C) of the candidates that are continued.
        """
        patience = self._config.patience * self._config.beam_size
        is_open = ~self._is_done[:, None]
        is_finished, is_live = candidates.is_finished & is_open, candidates.is_live & is_open
        self._num_finished += is_finished.sum(dim=1)
        penalty = self._penalties[length]  # (1,)
        first_finished = _first_true(is_finished)[:, None]  # (B, 1)
        score = candidates.log_probs.gather(1, first_finished)[:, 0].double() / penalty
        is_better = is_finished.any(dim=1) & (score > self._best_score)
        torch.where(is_better, score, self._best_score, out=self._best_score)

        longest = self._penalties[self._max_lengths]  # (B,)
        next_length = torch.minimum(length + 1, self._max_lengths)
        bound = self._best_score * torch.maximum(self._penalties[next_length], longest)
        can_improve = is_live & (candidates.log_probs > bound[:, None])
        is_ended = (length >= self._max_lengths) | ~can_improve.any(dim=1)
        if patience:
            is_ended |= self._num_finished >= patience
        is_ended &= is_open[:, 0]
        self._is_done |= is_ended

        is_cut_off = is_ended & (self._best_score == -torch.inf)
        chosen = torch.where(is_better[:, None], first_finished, _first_true(is_live)[:, None])
        # Without a live candidate, every continuation is forbidden: the first row is the result.
        is_missing = ~(is_better | is_live.any(dim=1))
        is_stored = is_better | is_cut_off
        self._store_best(candidates, is_stored, chosen, is_missing)
        torch.where(is_stored, length, self._best_length, out=self._best_length)
        row = (candidates.rows.gather(1, chosen)[:, 0] % self._shape[1]).masked_fill_(is_missing, 0)
        slots = self._ancestors.gather(1, row[:, None, None].expand_as(self._ancestors[:, :1]))
        torch.where(is_stored[:, None], slots[:, 0], self._best_slots, out=self._best_slots)
        return is_live & ~is_ended[:, None]

    def _store_best(
        self, candidates: Candidates, is_stored: Tensor, chosen: Tensor, is_missing: Tensor
    ) -> None:
        """Store the candidate `chosen` (B, 1), or the first row, of the sentences `is_stored`."""

        def of_chosen(values: Tensor) -> Tensor:
            return values.gather(1, chosen)[:, 0]

        def store(state: Tensor, found: Tensor) -> None:
            torch.where(is_stored, found, state, out=state)

        store(self._best_last, of_chosen(candidates.tokens).masked_fill_(is_missing, -1))
        log_probs = of_chosen(candidates.token_log_probs)
        store(self._best_last_log_prob, log_probs.masked_fill_(is_missing, 0.0))
        log_probs = of_chosen(candidates.log_probs)
        store(self._best_log_prob, torch.where(is_missing, self._log_probs[:, 0], log_probs))

    def _continue(self, candidates: Candidates, kept: Tensor) -> None:
        """Give the candidates `kept` (B, C) to the first rows of their sentences, in order."""
        index_of_row = kept.cumsum(dim=1) - 1  # (B, C)
        is_chosen = kept[..., None] & (index_of_row[..., None] == self._numbers)  # (B, C, K)
        chosen = _first_true(is_chosen)  # (B, K)
        is_missing = ~is_chosen.any(dim=1)
        torch.gather(candidates.tokens, 1, chosen, out=self._tokens)
        self._tokens.masked_fill_(is_missing, self._ids.bos_id)
        torch.gather(candidates.log_probs, 1, chosen, out=self._log_probs)
        self._log_probs.masked_fill_(is_missing, -torch.inf)
        torch.gather(candidates.token_log_probs, 1, chosen, out=self._token_log_probs)
        rows = candidates.rows.gather(1, chosen) % self._shape[1]
        rows = rows[..., None].expand_as(self._ancestors)
        self._ancestors.copy_(self._ancestors.gather(1, rows))

    def _hypotheses(self, number: int) -> list[Hypothesis]:
        """Return the best hypotheses of the first `number` sentences."""
        slots = self._best_slots[:number, None]  # (B, 1, T)
        rows = zip(
            self._best_length[:number].tolist(),
            self._slot_tokens[:number].gather(1, slots)[:, 0].tolist(),
            self._slot_log_probs[:number].gather(1, slots)[:, 0].tolist(),
            self._best_last[:number].tolist(),
            self._best_last_log_prob[:number].tolist(),
            self._best_log_prob[:number].tolist(),
            strict=True,
        )
        found = []
        for length, tokens, log_probs, last, last_log_prob, log_prob in rows:
            ids, token_log_probs = tokens[1:length], log_probs[1:length]  # without BOS
            if last >= 0:
                token_log_probs.append(last_log_prob)
            if last not in {-1, self._ids.eos_id}:
                ids.append(last)
            score = log_prob / length_penalty(length, self._config)
            found.append(Hypothesis(ids, log_prob, score, token_log_probs))
        return found


def _first_true(mask: Tensor) -> Tensor:
    """Return the index of the first True value of the second dimension: (B, C, …) → (B, …)."""
    return mask.view(torch.uint8).argmax(dim=1)
