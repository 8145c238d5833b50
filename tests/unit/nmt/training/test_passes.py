"""Compiled and captured passes have the losses and gradients of those that run as they come."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.config import Config, Layout
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position, Prefetcher, UpdateWork
from nmt.training import passes
from nmt.training.trainer import Trainer
from tests.support import ALONE, tiny_config, tiny_model_config, with_batching

Found = tuple[list[float], dict[str, torch.Tensor]]


@pytest.fixture
def make(tmp_path: Path, digit_corpus: Path) -> Callable[..., Trainer]:
    """Make a trainer of a tiny model without dropout."""

    def made(layout: Layout, compiles: bool) -> Trainer:
        config: Config = with_batching(tiny_config(tmp_path), layout=layout)
        training = replace(config.training, compile=compiles)
        config = replace(config, training=training, model=tiny_model_config())
        config.run_folder.mkdir(parents=True, exist_ok=True)
        trainer = Trainer(config, PreparedCorpus(digit_corpus), ALONE)
        trainer.model.network.train()
        return trainer

    return made


def two_updates(trainer: Trainer) -> Found:
    """Losses of two updates, and the gradient of the second."""
    losses, position = [], Position()
    for _ in range(2):
        work = trainer.loader.work(position)
        assert len(work.micro_batches) > 1
        losses.append(float(trainer.update(work).loss))
        position = work.next_position
    named = trainer.model.network.named_parameters()
    return losses, {name: p.grad.clone() for name, p in named if p.grad is not None}


def assert_close(found: Found, expected: Found) -> None:
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("layout", [Layout.bucketed, Layout.packed])
def test_compiled_layers(
    make: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    """Validation and attention maps use the layers without compilation."""
    # Only the first stage of the compiler, which reads our code; the others take much longer.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    plain, compiled = make(layout, False), make(layout, True)
    network = compiled.model.network
    assert all(layer._compiled_call_impl is None for layer in (*network.encoder, *network.decoder))
    inner = compiled._updater._passes._loss.network
    assert all(layer._compiled_call_impl for layer in (*inner.encoder, *inner.decoder))
    assert_close(two_updates(compiled), two_updates(plain))
    losses = [trainer.validator.validate().loss for trainer in (compiled, plain)]
    assert losses[0] == pytest.approx(losses[1])


def test_a_compiler_that_fails_costs_one_warning(
    make: Callable[..., Trainer],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no such compiler")

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=broken))
    assert_close(two_updates(make(Layout.packed, True)), two_updates(make(Layout.packed, False)))
    (message,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert message.startswith("training runs uncompiled, after ")


class Graph:
    """In place of a CUDA graph: it computes again instead of replaying."""

    captured: passes.CapturedPasses
    compute: Callable[..., torch.Tensor]

    def replay(self) -> None:
        """Compute with the tensors of the capture."""
        own = self.captured
        own._loss.copy_(self.compute(own._batch, own._weight))


def test_captured_passes(make: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches and weights are copied to fixed tensors, and gradients are added to fixed ones."""
    initialize = passes.CapturedPasses.__init__

    def initialized(self: passes.CapturedPasses, compute: Any, *arguments: Any) -> None:
        initialize(self, compute, *arguments)
        assert isinstance(self._graph, Graph)
        self._graph.captured, self._graph.compute = self, compute

    monkeypatch.setattr(passes.CapturedPasses, "__init__", initialized)
    no_stream = type("Stream", (), {"wait_stream": lambda *_: None})
    monkeypatch.setattr(torch.cuda, "Stream", no_stream)
    monkeypatch.setattr(torch.cuda, "current_stream", no_stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    plain, captured = make(Layout.packed, False), make(Layout.packed, True)
    captured._updater._passes._is_captured = True
    assert_close(two_updates(captured), two_updates(plain))
    # Micro-batches of another shape are captured anew.
    for trainer in (plain, captured):
        trainer.loader.max_micro_batch_tokens = 64
    before = captured._updater._passes._captured
    assert_close(two_updates(captured), two_updates(plain))
    assert captured._updater._passes._captured is not before


@pytest.mark.parametrize("layout", [Layout.bucketed, Layout.packed])
def test_prefetched_updates_are_those_of_the_loader(
    make: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    """Also after a jump to another position, and after a change of the micro-batches."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", torch.Tensor.clone)  # needs a GPU
    loader = make(layout, False).loader
    prefetcher = Prefetcher(loader)

    def assert_same(found: UpdateWork, expected: UpdateWork) -> None:
        assert found.micro_batches.keys() == expected.micro_batches.keys()
        assert found.next_position == expected.next_position
        assert found.shapes == expected.shapes
        for number, batch in expected.micro_batches.items():
            same = zip(found.micro_batches[number].tensors, batch.tensors, strict=True)
            assert all(torch.equal(ours, theirs) for ours, theirs in same)

    position = Position()
    for index in range(6):
        if index == 2:
            loader.max_micro_batch_tokens = 32
        if index == 4:
            position = Position(1, 1)
        work = prefetcher.work(position)
        assert_same(work, loader.work(position))
        position = work.next_position
