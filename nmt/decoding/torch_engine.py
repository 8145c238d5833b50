"""The engine of this house: search over the Transformer itself."""

from collections.abc import Callable, Sequence

import torch

from nmt.config import DecodingConfig
from nmt.data.batch import pad_ids
from nmt.decoding.engine import banned_ids, longest_translation
from nmt.decoding.search import Hypothesis, SearchLimits, search
from nmt.trained_model import TrainedModel


class TorchEngine:
    """Searches with a trained model on the device where it is.

    Args:
        model: the model; it is used as it is, also while it is in training.
        config: the search.
    """

    def __init__(self, model: TrainedModel, config: DecodingConfig) -> None:
        self._model = model
        self._config = config

    def search(
        self,
        sources: Sequence[Sequence[int]],
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search any number of sources; order, neighbours and batch size do not matter.

        Args:
            sources: ids of each source without EOS.
            progress: called with the number of sources just done.

        Returns:
            For each source up to num_best hypotheses, best first; at least one.
        """
        found: list[list[Hypothesis]] = [[] for _ in sources]
        # Sentences of like length share a batch; the longest come first, so that a text too large
        # for the memory fails at once and the time left is over-estimated rather than under-.
        order = sorted(range(len(sources)), key=lambda place: -len(sources[place]))
        for start in range(0, len(order), self._config.batch_size):
            batch = order[start : start + self._config.batch_size]
            hypotheses = self._search_batch([sources[place] for place in batch])
            for place, best in zip(batch, hypotheses, strict=True):
                found[place] = best
            if progress:
                progress(len(batch))
        return found

    def _search_batch(self, sources: Sequence[Sequence[int]]) -> list[list[Hypothesis]]:
        model, device = self._model.transformer, self._model.device
        source_tokenizer, target_tokenizer = (
            self._model.source_tokenizer,
            self._model.target_tokenizer,
        )
        source, source_mask = pad_ids(
            sources, source_tokenizer.pad_id, after=source_tokenizer.eos_id
        )
        max_length = self._model.config.model.max_length
        limits = SearchLimits(
            target_tokenizer.bos_id,
            target_tokenizer.eos_id,
            [longest_translation(self._config, max_length, len(ids) + 1) for ids in sources],
            banned_ids(target_tokenizer),
        )
        was_training = model.training
        model.eval()
        with torch.inference_mode():
            source, source_mask = source.to(device), source_mask.to(device)
            memory = model.encode(source, source_mask)
            state = model.start(memory, source_mask, self._config.beam_size)
            hypotheses = search(model.step, state, self._config, limits, device)
        model.train(was_training)
        return hypotheses
