"""Search in batches of fixed shapes, whose decoding steps are CUDA graphs on a GPU."""

import logging
import os
import threading
from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from nmt.base.errors import UserError
from nmt.config import DecodingConfig
from nmt.data.batch import pad_ids
from nmt.model.fixed_decoder import FixedDecoder
from nmt.model.transformer import Transformer
from nmt.search.captured import FixedSearch, num_positions
from nmt.search.hypothesis import Hypothesis
from nmt.search.request import Request, TargetIds
from nmt.translation.engine import MAX_ROWS

logger = logging.getLogger(__name__)

# Lengths of sources are rounded up to a multiple of this number.
_SOURCE_BUCKET = 32
# Largest share of the memory of the device that keys, values and logits take.
_MEMORY_SHARE = 1 / 8
# Bytes of the logits and log-probabilities of one token, copies included.
_BYTES_PER_LOGIT = 16
_MAX_GRAPHS = 64


class FixedShapeSearch:
    """Searches with one Transformer; batches of sources of the same length bucket.

    Args:
        network: the model in evaluation mode.
        config: search options.
        ids: special ids of the target vocabulary.
        longest_source: the largest length of a source, EOS included.
        longest_target: the largest length of a translation, EOS included.
    """

    def __init__(
        self,
        network: Transformer,
        config: DecodingConfig,
        ids: TargetIds,
        longest_source: int,
        longest_target: int,
    ) -> None:
        self._config, self._ids = config, ids
        self._longest_source, self._longest_target = longest_source, longest_target
        weight = network.output_weight
        self._device = weight.device
        positions = num_positions(longest_target - 1)
        self._most_sentences = _most_sentences(network, config, longest_source, positions)
        size = self._num_sentences(1)
        self._decoder = FixedDecoder(network, size, config.beam_size, longest_source, positions)
        self._buffers = [
            torch.zeros(size * longest_source, dtype=dtype, device=self._device)
            for dtype in (torch.long, torch.bool)
        ]
        self._searches: dict[int, FixedSearch] = {}
        self._graphs = Graphs(self._device)
        self._weights = _addresses(network)
        self._lock = threading.Lock()

    def batches(self, requests: Sequence[Request], indices: Sequence[int]) -> list[list[int]]:
        """Group the indices of requests by length bucket, longest first."""
        groups: dict[int, list[int]] = {}
        for index in indices:
            groups.setdefault(self._bucket(requests[index]), []).append(index)
        found = []
        for bucket, group in sorted(groups.items(), reverse=True):
            size = self._num_sentences(bucket)
            found += [group[first : first + size] for first in range(0, len(group), size)]
        return found

    @torch.no_grad()
    def search(
        self, network: Transformer, requests: Sequence[Request], pad_id: int, eos_id: int
    ) -> list[Hypothesis]:
        """Search a batch for the best translation of each request.

        Args:
            network: the model of the constructor, or a copy with other weights.
            requests: one of `batches`.
            pad_id: padding of the source vocabulary.
            eos_id: end of a source.
        """
        with self._lock:
            if _addresses(network) != self._weights:
                self._graphs = Graphs(self._device)
                self._weights = _addresses(network)
            self._decoder.network = network
            bucket = self._bucket(requests[0])
            source, mask = self._load(requests, bucket, pad_id, eos_id)
            size = len(source)
            if size not in self._searches:
                self._searches[size] = FixedSearch(
                    self._config, self._ids, size, self._longest_target, self._device
                )
            search = self._searches[size]

            def decode(tokens: Tensor, ancestors: Tensor, position: Tensor) -> Tensor:
                return self._decoder.step(tokens, ancestors, position, mask)

            def run(positions: int) -> None:
                self._graphs.run((bucket, positions), lambda: search.step(decode, positions))

            self._graphs.run(bucket, lambda: self._decoder.encode(source, mask))
            try:
                return search.search(requests, run)
            except UserError:
                self._decoder.clear()
                raise

    def _load(
        self, requests: Sequence[Request], bucket: int, pad_id: int, eos_id: int
    ) -> tuple[Tensor, Tensor]:
        """Copy the sources to the device: ids (B, S) and mask (B, S); missing ones are padding."""
        rows = [request.source for request in requests]
        missing = self._num_sentences(bucket) - len(rows)
        ids, is_real = pad_ids([*rows, *[()] * missing], pad_id, after=eos_id)  # EOS only
        shape = len(ids), bucket
        source, mask = (buffer[: len(ids) * bucket].view(shape) for buffer in self._buffers)
        source.fill_(pad_id)[:, : ids.size(1)] = ids
        mask.fill_(False)[:, : ids.size(1)] = is_real
        return source, mask

    def _bucket(self, request: Request) -> int:
        """Return the padded length S of a source."""
        length = len(request.source) + 1
        return min(-(-length // _SOURCE_BUCKET) * _SOURCE_BUCKET, self._longest_source)

    def _num_sentences(self, bucket: int) -> int:
        """Return the number of sentences B of a batch of sources of this length."""
        return max(1, min(self._most_sentences, self._config.batch_tokens // bucket))


class Graphs:
    """Functions of tensors that never move: called at first, then replayed as CUDA graphs.

    On a CPU, or if a graph cannot be captured, they are called each time.
    """

    def __init__(self, device: torch.device) -> None:
        self._are_captured = device.type == "cuda"
        self._called: set[Hashable] = set()
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}  # the latest used is the last
        # The graphs run one after the other, so they share the memory of their results.
        self._pool = torch.cuda.graph_pool_handle() if self._are_captured else None

    def run(self, key: Hashable, function: Callable[[], None]) -> None:
        """Run the function of this key, which does the same at each call."""
        graph = self._graphs.pop(key, None)
        if graph is None and self._are_captured and key in self._called:
            graph = self._captured(function)
        if graph is None:
            function()
            self._called.add(key)
        else:
            self._graphs[key] = graph
            graph.replay()

    def _captured(self, function: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """Capture a function without running it; return None if that fails."""
        if len(self._graphs) == _MAX_GRAPHS:
            del self._graphs[next(iter(self._graphs))]
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, self._pool, capture_error_mode="thread_local"):
                function()
        except RuntimeError as error:
            logger.warning("no CUDA graph could be captured, so decoding is slow: %s", error)
            self._are_captured = False
            return None
        return graph


def _most_sentences(
    network: Transformer, config: DecodingConfig, longest_source: int, positions: int
) -> int:
    """Return the largest number of sentences of a batch, as the memory of the device allows."""
    weight, model = network.output_weight, network.config
    width = model.num_heads * (model.head_key_width + model.head_value_width)
    slots = longest_source + positions * config.beam_size
    num_bytes = (
        model.num_decoder_layers * slots * width * weight.element_size()
        + config.beam_size * len(weight) * _BYTES_PER_LOGIT
    )
    if weight.device.type == "cuda":
        memory = torch.cuda.get_device_properties(weight.device).total_memory
    else:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    by_memory = int(memory * _MEMORY_SHARE / num_bytes)
    return max(1, min(config.batch_size, MAX_ROWS // config.beam_size, by_memory))


def _addresses(network: Transformer) -> list[int]:
    """Return the addresses of the weights, which captured graphs read."""
    return [tensor.data_ptr() for tensor in (*network.parameters(), *network.buffers())]
