"""State of a search: live hypotheses, scores of their next tokens, and candidates."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.search.request import Request


@dataclass(frozen=True)
class Candidates:
    """Continuations of live hypotheses: C candidates for each of B sentences, best first.

    All tensors are (B, C).
    """

    log_probs: Tensor  # sums; -inf where there is no candidate
    rows: Tensor  # row of the live hypothesis that is continued
    tokens: Tensor  # next token
    token_log_probs: Tensor  # log-probability of that token
    is_finished: Tensor  # True if the candidate ends with EOS and is accepted
    is_live: Tensor  # True if the candidate can be continued


@dataclass(frozen=True)
class LiveHypotheses:
    """Live hypotheses of B sentences: N rows of T tokens, ordered by sentence."""

    sentences: Tensor  # (N,) index of the sentence, ascending
    samples: Tensor  # (N,) index of the sample; 0 in beam search
    log_probs: Tensor  # (N,) sum of token_log_probs
    tokens: Tensor  # (N, 1 + T) BOS and the tokens so far
    token_log_probs: Tensor  # (N, 1 + T) log-probability of each token, 0 for BOS

    @classmethod
    def start(
        cls, num_sentences: int, num_samples: int, bos_id: int, device: torch.device | None
    ) -> "LiveHypotheses":
        """Return `num_samples` hypotheses for each sentence, with BOS only."""
        num_rows = num_sentences * num_samples
        return cls(
            torch.arange(num_sentences, device=device).repeat_interleave(num_samples),
            torch.arange(num_samples, device=device).repeat(num_sentences),
            torch.zeros(num_rows, device=device),
            torch.full((num_rows, 1), bos_id, device=device),
            torch.zeros(num_rows, 1, device=device),
        )

    @property
    def length(self) -> int:
        """T, the number of tokens of every row without BOS."""
        return self.tokens.size(1) - 1

    def row(self, row: int) -> tuple[list[int], list[float]]:
        """Return the tokens of a row without BOS, and their log-probabilities."""
        return self.tokens[row, 1:].tolist(), self.token_log_probs[row, 1:].tolist()

    def ids(self) -> list[list[int]]:
        """Return the tokens of every row without BOS."""
        rows: list[list[int]] = self.tokens[:, 1:].tolist()
        return rows

    def extend(self, candidates: Candidates, kept: Tensor, rows: Tensor) -> "LiveHypotheses":
        """Return the hypotheses of the candidates for which `kept` (B, C) is True.

        `rows` (N',) are the rows of these candidates. Sentences without a kept candidate are
        dropped, and the others are renumbered.
        """
        sentences, ranks = kept.nonzero().unbind(1)  # (N',) each
        new_tokens = candidates.tokens[sentences, ranks]
        new_log_probs = candidates.token_log_probs[sentences, ranks]
        return LiveHypotheses(
            torch.unique_consecutive(sentences, return_inverse=True)[1],
            self.samples[rows],
            candidates.log_probs[sentences, ranks],
            torch.cat((self.tokens[rows], new_tokens[:, None]), dim=1),
            torch.cat((self.token_log_probs[rows], new_log_probs[:, None]), dim=1),
        )


@dataclass(frozen=True)
class NextTokens:
    """Scores of the next token of every live hypothesis."""

    log_probs: Tensor  # (N, V); constraints change them in place and do not renormalise
    live: LiveHypotheses
    requests: Sequence[Request]  # for each of the B sentences
    eos_id: int  # token that ends a hypothesis
