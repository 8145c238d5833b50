"""Several models of one vocabulary that decode as one; one model is an ensemble of one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.errors import UserError
from nmt.model.decoder_state import DecoderState
from nmt.model.transformer import Transformer
from nmt.trained_model import TrainedModel


@dataclass
class EnsembleState:
    """The states of all models."""

    states: list[DecoderState]

    def reorder(self, rows: Tensor) -> "EnsembleState":
        """Keep `rows` (N') in every model."""
        return EnsembleState([state.reorder(rows) for state in self.states])

    def append(self, fresh: "EnsembleState") -> "EnsembleState":
        """Put the sentences of a fresh state behind the present ones in every model."""
        pairs = zip(self.states, fresh.states, strict=True)
        return EnsembleState([state.append(more) for state, more in pairs])

    def covered(self) -> Tensor:
        """(N,) the models' average; see `DecoderState.covered`."""
        return torch.stack([state.covered() for state in self.states]).mean(dim=0)


class Ensemble:
    """Averages the probabilities of the next token.

    Args:
        models: one or more, of the same vocabularies.
    """

    def __init__(self, models: Sequence[Transformer]) -> None:
        self._models = list(models)

    def start(
        self, source: Tensor, source_mask: Tensor, keeps_coverage: bool = False
    ) -> EnsembleState:
        """The state before the first step, from source ids (B, S)."""
        return EnsembleState(
            [
                model.start(model.encode(source, source_mask), source_mask, keeps_coverage)
                for model in self._models
            ]
        )

    def step(self, tokens: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        """Tokens (N,) → logits (N, V); those of several models are log-probabilities."""
        logits = [
            model.step(tokens, part)[0]
            for model, part in zip(self._models, state.states, strict=True)
        ]
        if len(logits) == 1:
            return logits[0], state
        log_probs = torch.stack([part.float().log_softmax(dim=-1) for part in logits])
        return log_probs.logsumexp(dim=0) - math.log(len(logits)), state


def check_same_vocabulary(first: TrainedModel, others: Sequence[TrainedModel]) -> None:
    """Refuse models whose ids mean something else.

    Raises:
        UserError: which model's which vocabulary differs.
    """
    for number, other in enumerate(others, start=2):
        here, there = (
            f"{model.config.source_language}-{model.config.target_language}"
            for model in (first, other)
        )
        if here != there:
            raise UserError(
                f"model {number} of the ensemble translates {there}, the first {here}; models"
                " decode together only from and to the same languages"
            )
        for side in ("source", "target"):
            ours, theirs = (getattr(model, f"{side}_tokenizer") for model in (first, other))
            size = ours.vocabulary_size
            is_same = size == theirs.vocabulary_size
            if not is_same or ours.pieces(range(size)) != theirs.pieces(range(size)):
                raise UserError(
                    f"model {number} of the ensemble ({theirs.path}) has another {side} vocabulary"
                    f" than the first ({ours.path}); models decode together only with the same one"
                )
