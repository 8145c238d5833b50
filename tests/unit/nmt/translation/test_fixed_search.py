"""Batches of fixed shapes, and CUDA graphs with a substitute for CUDA."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from nmt.config import DecodingConfig
from nmt.search.request import Request, TargetIds
from nmt.trained_model import TrainedModel
from nmt.translation import fixed_search
from nmt.translation.fixed_search import FixedShapeSearch, Graphs


def test_a_function_is_called_then_captured_then_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Graph:
        key = ""

        def replay(self) -> None:
            events.append(f"replay {self.key}")

    captured: list[Graph] = []

    @contextmanager
    def capture(graph: Graph, *_: object, **__: object) -> Iterator[None]:
        captured.append(graph)
        yield
        graph.key = events.pop()[-1]  # a capture runs nothing

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 0))
    monkeypatch.setattr(fixed_search, "_MAX_GRAPHS", 2)
    graphs = Graphs(torch.device("cuda"))
    for key in "aaabbaccb":
        graphs.run(key, lambda key=key: events.append(f"call {key}"))
    assert events == [
        *("call a", "replay a", "replay a", "call b", "replay b", "replay a"),
        *("call c", "replay c", "replay b"),  # the graph of b left for that of c
    ]
    assert [graph.key for graph in captured] == ["a", "b", "c", "b"]


def test_functions_are_called_if_they_cannot_be_captured(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", fail)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 0))
    graphs = Graphs(torch.device("cuda"))
    calls: list[str] = []
    for key in "aabbab":
        graphs.run(key, lambda key=key: calls.append(key))
    assert calls == list("aabbab")
    assert [record.message for record in caplog.records] == [
        "no CUDA graph could be captured, so decoding is slow: operation not permitted when stream"
        " is capturing"
    ]


def test_batches_are_as_large_as_memory_allows(
    trained_model: TrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = DecodingConfig(batch_size=8, batch_tokens=160)
    requests = [Request(source=[5] * length) for length in (3, 31, 9, 32, 5, 31, 31, 2)]

    def batches() -> list[list[int]]:
        ids = TargetIds(2, 3)
        fixed = FixedShapeSearch(trained_model.network, config, ids, 64, 40)
        return fixed.batches(requests, range(len(requests)))

    # Sources of 33 and 32 tokens with EOS have the lengths 64 and 32.
    assert batches() == [[3], [0, 1, 2, 4, 5], [6, 7]]
    monkeypatch.setattr(fixed_search, "_MEMORY_SHARE", 1e-12)
    assert batches() == [[index] for index in (3, 0, 1, 2, 4, 5, 6, 7)]
