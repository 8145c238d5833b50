"""Compiled and captured passes have the losses and gradients of those that run as they come."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from nmt.config import Compilation, Config, Layout
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position, Prefetcher, UpdateWork
from nmt.model import cpu
from nmt.training.trainer import Trainer
from tests.recorded_graph import record_graphs
from tests.support import ALONE, tiny_config, tiny_model_config, with_batching

Found = tuple[list[float], dict[str, torch.Tensor]]


@pytest.fixture
def make(tmp_path: Path, digit_corpus: Path) -> Callable[..., Trainer]:
    """Make a trainer of a tiny model without dropout."""

    def made(layout: Layout, compiles: bool) -> Trainer:
        config: Config = with_batching(tiny_config(tmp_path), layout=layout)
        compilation = Compilation.always if compiles else Compilation.never
        training = replace(config.training, compile=compilation)
        config = replace(config, training=training, model=tiny_model_config())
        config.run_folder.mkdir(parents=True, exist_ok=True)
        trainer = Trainer(config, PreparedCorpus(digit_corpus), ALONE)
        trainer.model.network.train()
        return trainer

    return made


def two_updates(trainer: Trainer, num_micro_batches: int = 0) -> Found:
    """Losses and gradient norms of two updates, and the clipped gradient of the second."""
    numbers, position = [], Position()
    for _ in range(2):
        work = trainer.loader.work(position)
        number = len(work.micro_batches)
        assert number == num_micro_batches if num_micro_batches else number > 1
        gradient = trainer.update(work)
        numbers += [float(gradient.loss), float(gradient.norm)]
        position = work.next_position
    named = trainer.model.network.named_parameters()
    return numbers, {name: p.grad.clone() for name, p in named if p.grad is not None}


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


@pytest.mark.parametrize("layout", [Layout.bucketed, Layout.packed])
def test_a_compiler_that_fails_costs_one_warning(
    make: Callable[..., Trainer],
    layout: Layout,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no such compiler")

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=broken))
    assert_close(two_updates(make(layout, True)), two_updates(make(layout, False)))
    (message,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert message.startswith("training runs uncompiled, after ")


def test_captured_passes(make: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are copied to fixed tensors; gradients are written, or added, to others."""
    record_graphs(monkeypatch)
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    # Operators of torch as on a GPU, not those of CPUs.
    monkeypatch.setattr(cpu, "use_cpu_operators", lambda _: False)
    plain, captured = make(Layout.packed, False), make(Layout.packed, True)
    captured._updater._passes._is_captured = True
    assert_close(two_updates(captured), two_updates(plain))
    # Micro-batches of another shape are captured anew.
    for trainer in (plain, captured):
        trainer.loader.max_micro_batch_tokens = 64
    before = captured._updater._passes._captured
    assert_close(two_updates(captured), two_updates(plain))
    assert captured._updater._passes._captured is not before
    # An update of one micro-batch needs the first graph only.
    for trainer in (plain, captured):
        trainer.loader.max_micro_batch_tokens = 1 << 20
    assert_close(two_updates(captured, 1), two_updates(plain, 1))
    assert len(captured._updater._passes._captured._graphs) == 1


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
