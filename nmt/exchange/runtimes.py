"""What runtimes share, and the model in torch, with which they are compared."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from nmt.config import ARRANGING_KEYS, DecodingConfig, LengthPenalty
from nmt.search.request import Ids
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel
from nmt.translation.engine import LENGTH_KEYS, Engine, length_batches
from nmt.translation.forced import ForcedDecoder
from nmt.translation.torch_engine import TorchEngine

# Largest number of logits computed together: 134 MB in float64.
_MAX_LOGITS = 2**24


def greedy(model: TrainedModel) -> DecodingConfig:
    """Return the settings of greedy search, with the length limits of the model's own search."""
    own = model.config.decoding
    kept = {key: getattr(own, key) for key in (*LENGTH_KEYS, *ARRANGING_KEYS)}
    return DecodingConfig(beam_size=1, length_penalty_kind=LengthPenalty.none, **kept)


class EngineRuntime:
    """Base class of runtimes with our tokenizers and an engine of greedy search; see `Runtime`."""

    dtype = torch.float32
    _model: TrainedModel
    _engine: Engine

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of sources, EOS last."""
        tokenizer = self._model.source_tokenizer
        return [[*ids, tokenizer.eos_id] for ids in tokenizer.encode(texts)]

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translate by greedy search."""
        found = self._engine.search(self._model.source_tokenizer.encode(texts))
        return self._model.target_tokenizer.decode([best.ids for best, *_ in found])


class TorchRuntime(EngineRuntime):
    """A model in torch, computed with the arithmetic of the program that it is compared with."""

    program = "torch"
    tolerance = 0.0

    def __init__(self, model: TrainedModel, dtype: torch.dtype) -> None:
        if dtype is torch.float64:
            model = replace(model, network=copy.deepcopy(model.network).double())
        self.dtype = dtype
        self._model = model
        self._engine = TorchEngine(model, greedy(model))

    def token_log_probs(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Compute the log-probability in nats of each target token and of EOS."""
        pairs = list(zip(sources, targets, strict=True))
        return ForcedDecoder(self._model).token_log_probs(pairs)


def score(
    logits: Callable[[list[Ids], list[Ids]], Tensor],
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    target: Tokenizer,
) -> list[list[float]]:
    """Return the log-probability of each target token and of EOS.

    Args:
        logits: computes the logits (B, T, V) of the tokens of padded targets, for a batch.
        sources: ids of each source, without EOS.
        targets: ids of each target, without BOS and EOS.
        target: the target tokenizer.
    """
    found: list[list[float]] = [[]] * len(targets)

    def size(length: int) -> int:
        return max(1, _MAX_LOGITS // (length * target.vocabulary_size))

    for indices in length_batches([len(ids) + 1 for ids in targets], size):
        batch = [targets[index] for index in indices]
        log_probs = logits([sources[index] for index in indices], batch).log_softmax(dim=-1)
        for index, ids, rows in zip(indices, batch, log_probs, strict=True):
            tokens = torch.tensor([*ids, target.eos_id])
            found[index] = rows[: len(tokens)].gather(1, tokens[:, None])[:, 0].tolist()
    return found
