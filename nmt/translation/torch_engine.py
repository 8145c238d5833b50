"""The default engine: `beam_search` over one or several models."""

import math
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.base.errors import UserError
from nmt.config import DecodingConfig, FixedShapes, SearchMethod
from nmt.data.batch import pad_ids
from nmt.model.decoding_weights import DecodingWeights
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.model.transformer import Transformer
from nmt.search.hypothesis import Hypothesis
from nmt.search.request import Request, TargetIds
from nmt.search.search import SearchState, beam_search
from nmt.trained_model import TrainedModel
from nmt.translation.engine import BatchResults, Engine, banned_ids
from nmt.translation.fixed_search import FixedShapeSearch
from nmt.translation.trees import TreeConstraint


@dataclass
class _EnsembleState:
    """Decoder states of all models."""

    states: list[SearchState]

    def reorder(self, rows: Tensor) -> "_EnsembleState":
        """Select `rows` (N',) of the state of every model."""
        return _EnsembleState([state.reorder(rows) for state in self.states])


class TorchEngine(Engine):
    """Searches with trained models on the device of their weights.

    Args:
        model: the model; its weights may change between searches, as in training.
        config: search options.
        others: further models with the same vocabularies; probabilities are averaged.

    Raises:
        UserError: the models differ in direction or vocabulary, or `decoding.trees` is set and the
            vocabulary lacks brackets.
    """

    def __init__(
        self, model: TrainedModel, config: DecodingConfig, others: Sequence[TrainedModel] = ()
    ) -> None:
        models = (model, *others)
        super().__init__(config, *models)
        expected, *found = (
            [one.config.direction, *(tokenizer.all_pieces() for tokenizer in one.tokenizers)]
            for one in models
        )
        for number, other in enumerate(found, start=2):
            if other != expected:
                raise UserError(
                    f"model {number} of the ensemble has another direction or vocabulary than the"
                    " first; use models of the same corpus"
                )
        self._weights = [DecodingWeights(one.network, config.precision) for one in models]
        target = model.target_tokenizer
        self._ids = TargetIds(target.bos_id, target.eos_id, banned_ids(target))
        pieces = [tokenizer.all_pieces() for tokenizer in model.tokenizers]
        self._trees = TreeConstraint(*pieces) if config.trees else None
        self._fixed: FixedShapeSearch | None = None  # created at the first search

    def check(self, request: Request) -> None:
        """Raise UserError if a request cannot be fulfilled."""
        super().check(request)
        if request.required and self._config.method is not SearchMethod.beam:
            raise UserError("required phrases need beam search; use decoding.method=beam")
        if self._trees and (request.num_tokens or request.banned):
            raise UserError("decoding.trees=true supports no prefix, required or banned")

    def _search_batches(self, requests: Sequence[Request]) -> BatchResults:
        """Search batches of sentences on one or more threads.

        One batch per core is faster than one batch at a time on all cores, because small matrices
        do not occupy several cores.
        """
        networks = [weights.now() for weights in self._weights]
        others = list(range(len(requests)))
        if isinstance(network := networks[0], Transformer) and self._has_fixed_shapes(network):
            plain = [index for index in others if requests[index].is_plain]
            others = [index for index in others if not requests[index].is_plain]
            yield from self._search_fixed(network, requests, plain)
        batches = self._batches(requests, others)
        num_workers = min(self._num_workers, len(batches))
        cancellation = threading.Event()

        def search(batch: list[int]) -> list[list[Hypothesis]]:
            return self._search_batch(networks, [requests[i] for i in batch], cancellation)

        if num_workers <= 1:
            for batch in batches:
                yield batch, search(batch)
            return
        all_threads = torch.get_num_threads()
        num_threads = max(1, all_threads // num_workers)
        # torch.set_num_threads affects the thread that calls it, and threads that start later.
        pool = ThreadPoolExecutor(num_workers, "search", torch.set_num_threads, (num_threads,))
        try:
            futures = {pool.submit(search, batch): batch for batch in batches}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            cancellation.set()
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(all_threads)

    def _has_fixed_shapes(self, network: Transformer) -> bool:
        """Return whether sentences without constraints are searched in fixed shapes."""
        config, model = self._config, network.config
        is_plain = config.method is SearchMethod.beam and config.num_best == 1 and not config.trees
        is_supported = model.num_experts == 1 and not model.attention_window
        is_wanted = config.fixed_shapes is FixedShapes.always
        return is_wanted and is_plain and is_supported and len(self._weights) == 1

    def _search_fixed(
        self, network: Transformer, requests: Sequence[Request], indices: Sequence[int]
    ) -> BatchResults:
        """Search the requests with these indices in batches of fixed shapes."""
        if self._fixed is None:
            longest = self.longest_translation(self.longest_source, Request())
            self._fixed = FixedShapeSearch(
                network, self._config, self._ids, self.longest_source, longest
            )
        source = self._model.source_tokenizer
        for batch in self._fixed.batches(requests, indices):
            chosen = [requests[index] for index in batch]
            found = self._fixed.search(network, chosen, source.pad_id, source.eos_id)
            yield batch, [[best] for best in found]

    @torch.inference_mode()
    def _search_batch(
        self, networks: list[EncoderDecoder], requests: list[Request], cancellation: threading.Event
    ) -> list[list[Hypothesis]]:
        """Search one batch with the mean of the networks' probabilities."""
        tokenizer, device = self._model.source_tokenizer, self._model.device
        if self._trees:
            requests = [self._trees.prepare(request, self.longest_target) for request in requests]
        sources = [request.source for request in requests]
        source, mask = pad_ids(sources, tokenizer.pad_id, after=tokenizer.eos_id)
        source, mask = source.to(device), mask.to(device)  # (B, S)
        state = _EnsembleState(
            [network.start(network.encode(source, mask), mask) for network in networks]
        )

        def step(tokens: Tensor, state: _EnsembleState) -> tuple[Tensor, _EnsembleState]:
            """Compute logits (N, V) after tokens (N,); with several networks, log-probabilities."""
            if cancellation.is_set():  # an interrupt does not wait for the end of a batch
                raise InterruptedError("the search was cancelled")
            pairs = zip(networks, state.states, strict=True)
            logits = [network.step(tokens, own)[0] for network, own in pairs]
            if len(logits) == 1:
                return logits[0], state
            log_probs = torch.stack([one.float().log_softmax(dim=-1) for one in logits])
            return log_probs.logsumexp(dim=0) - math.log(len(logits)), state

        def text_of(ids: list[int]) -> str:
            return self._model.target_tokenizer.decode([ids])[0]

        is_n_best = self._config.num_best > 1 and self._config.method is SearchMethod.beam
        return beam_search(
            step,
            state,
            self._config,
            self._ids,
            requests,
            device,
            text_of=text_of if is_n_best else None,
            constraint=self._trees,
        )
