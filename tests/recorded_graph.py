"""A CUDA graph on a CPU: it records the operations of a capture and repeats them with its tensors.

As with a real graph, Python code does not run again, results are written to the memory of the
capture, and reading the value of a tensor fails.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

_READS = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default}


class RecordedGraph:
    """In place of `torch.cuda.CUDAGraph`."""

    def __init__(self) -> None:
        self.operations: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def pool(self) -> None:
        """Memory is not shared."""

    def replay(self) -> None:
        """Repeat all operations."""
        with torch.no_grad():
            for operation, arguments, options, results in self.operations:
                again, _ = tree_flatten(operation(*arguments, **options))
                for own, new in zip(tree_flatten(results)[0], again, strict=True):
                    # Views and results of operations in place have the memory of the capture.
                    if isinstance(own, Tensor) and own.data_ptr() != new.data_ptr():
                        own.copy_(new)


class _Recording(TorchDispatchMode):
    def __init__(self, graph: RecordedGraph) -> None:
        super().__init__()
        self._graph = graph
        self._before: list[tuple[Tensor, Tensor]] = []

    def restore(self) -> None:
        """Undo all changes of tensors: a capture runs nothing."""
        for tensor, before in reversed(self._before):
            tensor.copy_(before)

    def __torch_dispatch__(
        self, function: Any, _types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        if function in _READS:
            raise RuntimeError(f"{function} is not permitted when a stream is capturing")
        options = options or {}
        for index, declared in enumerate(function._schema.arguments):
            if declared.is_write:
                named = declared.kwarg_only
                tensor = (options[declared.name] if named else arguments[index]).detach()
                self._before.append((tensor, tensor.clone()))
        results = function(*arguments, **options)
        self._graph.operations.append((function, arguments, options, results))
        return results


def record_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `torch.cuda.graph` record, and let streams do nothing."""

    @contextlib.contextmanager
    def capture(graph: RecordedGraph, *_: object, **__: object) -> Iterator[None]:
        with _Recording(graph) as recording:
            yield
        recording.restore()

    no_stream = type("Stream", (), {"wait_stream": lambda *_: None})
    monkeypatch.setattr(torch.cuda, "Stream", no_stream)
    monkeypatch.setattr(torch.cuda, "current_stream", no_stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", RecordedGraph)
    monkeypatch.setattr(torch.cuda, "graph", capture)
