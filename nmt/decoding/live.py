"""The live hypotheses of a search, and the candidates that continue them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.decoding.task import Task

# No token: what stands behind the end of a shorter row.
NO_TOKEN = -1


@dataclass(frozen=True)
class Choice:
    """C candidates of each of b sentences, best first within a lane.

    Attributes:
        rows: what they continue.
        log_probs: (b, C) sums; -inf where there is no candidate.
        parents: (b, C) row continued.
        tokens: (b, C).
        token_log_probs: (b, C).
        ends: (b, C) True where a hypothesis ends.
        goes: (b, C) True where one may go on.
    """

    rows: "Rows"
    log_probs: Tensor
    parents: Tensor
    tokens: Tensor
    token_log_probs: Tensor
    ends: Tensor
    goes: Tensor


@dataclass(frozen=True)
class Rows:
    """The live hypotheses: N rows, those of a sentence together, of b sentences.

    Attributes:
        sentences: (N,) which sentence, ascending.
        lanes: (N,) which part of a sentence's beam; hypotheses compete within a lane.
        lengths: (N,) tokens so far, BOS not counted.
        log_probs: (N,) sums.
        tokens: (N, 1 + T) BOS and the tokens so far, then NO_TOKEN.
        token_log_probs: (N, 1 + T), 0 for BOS.
    """

    sentences: Tensor
    lanes: Tensor
    lengths: Tensor
    log_probs: Tensor
    tokens: Tensor
    token_log_probs: Tensor

    @classmethod
    def none(cls, device: torch.device | None) -> "Rows":
        """No rows."""
        return cls.at_start(0, 1, 0, device)

    @classmethod
    def at_start(
        cls, num_sentences: int, num_lanes: int, bos_id: int, device: torch.device | None
    ) -> "Rows":
        """One row a lane of each sentence, before its first token."""
        sentences = torch.arange(num_sentences, device=device)
        num_rows = num_sentences * num_lanes
        return cls(
            sentences.repeat_interleave(num_lanes),
            torch.arange(num_lanes, device=device).repeat(num_sentences),
            torch.zeros(num_rows, dtype=torch.long, device=device),
            torch.zeros(num_rows, device=device),
            torch.full((num_rows, 1), bos_id, device=device),
            torch.zeros(num_rows, 1, device=device),
        )

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.sentences.device

    def last_tokens(self) -> Tensor:
        """(N,) the token that each row ends with."""
        return self.tokens.gather(1, self.lengths[:, None])[:, 0]

    def listed(self) -> list[tuple[int, list[int]]]:
        """Of each row its sentence and its tokens so far."""
        rows = zip(
            self.sentences.tolist(), self.lengths.tolist(), self.tokens.tolist(), strict=True
        )
        return [(sentence, tokens[1 : 1 + length]) for sentence, length, tokens in rows]

    def prefix(self, row: int, length: int) -> tuple[list[int], list[float]]:
        """The first tokens of a row, and their log-probabilities."""
        kept = slice(1, 1 + length)
        return self.tokens[row, kept].tolist(), self.token_log_probs[row, kept].tolist()

    def followed_by(self, others: "Rows") -> "Rows":
        """Rows of further sentences behind these."""
        num_sentences = int(self.sentences[-1]) + 1
        width = max(self.tokens.size(1), others.tokens.size(1))
        return Rows(
            torch.cat((self.sentences, others.sentences + num_sentences)),
            torch.cat((self.lanes, others.lanes)),
            torch.cat((self.lengths, others.lengths)),
            torch.cat((self.log_probs, others.log_probs)),
            torch.cat([_padded(rows.tokens, width, NO_TOKEN) for rows in (self, others)]),
            torch.cat([_padded(rows.token_log_probs, width, 0.0) for rows in (self, others)]),
        )

    def continued(self, choice: Choice, kept: Tensor) -> "Rows":
        """The rows of the candidates that are kept, (N', 2) places; empty sentences drop out."""
        places, ranks = kept[:, 0], kept[:, 1]
        parents = choice.parents[places, ranks]
        lengths = self.lengths[parents] + 1
        width = 1 + int(lengths.max()) if len(lengths) else 1
        tokens = _padded(self.tokens[parents], width, NO_TOKEN)
        token_log_probs = _padded(self.token_log_probs[parents], width, 0.0)
        ends = lengths[:, None]
        return Rows(
            torch.unique_consecutive(places, return_inverse=True)[1],
            self.lanes[parents],
            lengths,
            choice.log_probs[places, ranks],
            tokens.scatter(1, ends, choice.tokens[places, ranks][:, None]),
            token_log_probs.scatter(1, ends, choice.token_log_probs[places, ranks][:, None]),
        )


def _padded(matrix: Tensor, width: int, fill: float) -> Tensor:
    """A matrix cut or filled up to `width` columns."""
    return F.pad(matrix, (0, width - matrix.size(1)), value=fill)


@dataclass(frozen=True)
class NextTokens:
    """What the model says of the next token of every row.

    Attributes:
        log_probs: (N, V); constraints change them in place, and leave them unnormalised.
        rows: the live hypotheses.
        tasks: what is asked of each of the b sentences.
    """

    log_probs: Tensor
    rows: Rows
    tasks: Sequence[Task]
