import itertools
import json
import logging
import math
import os
import shutil
import signal
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from nmt.base import signals as signals_module
from nmt.base.errors import UserError
from nmt.base.signals import Interruption
from nmt.config import BatchingConfig, Config, Precision, ValidationMetric
from nmt.data.batch import Batch, collate
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position, UpdateWork
from nmt.tracking.tracker import Tracker
from nmt.training import metrics as metrics_module
from nmt.training import trainer as trainer_module
from nmt.training.checkpoint import TrainingState
from nmt.training.distributed import Process
from nmt.training.fresh_model import new_model
from nmt.training.loss import SummedLoss
from nmt.training.schedule import learning_rate
from nmt.training.trainer import Trainer
from nmt.training.updater import Gradient, OutOfMemory, Updater
from nmt.training.validation import ValidationResult
from tests.support import tiny_config, tiny_model_config, with_batching

ALONE = Process(0, 1, torch.device("cpu"))


Make = Callable[..., Trainer]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return tiny_config(tmp_path)


@pytest.fixture
def make(tmp_path: Path, digit_corpus: Path) -> Make:
    """Make the trainer of an experiment, by default the tiny one with changes of `training`."""

    def made(config: Config | None = None, **training: Any) -> Trainer:
        config = config or tiny_config(tmp_path, **training)
        config.run_folder.mkdir(parents=True, exist_ok=True)
        return Trainer(config, PreparedCorpus(digit_corpus), ALONE)

    return made


@pytest.fixture
def trainer(make: Make) -> Trainer:
    return make()


def first_work(trainer: Trainer) -> UpdateWork:
    return next(trainer.loader.updates(Position()))


def records(trainer: Trainer, key: str, name: str = "metrics") -> list[dict[str, Any]]:
    text = (trainer.config.run_folder / f"{name}.jsonl").read_text(encoding="utf-8")
    return [record for record in map(json.loads, text.splitlines()) if key in record]


def gradients(trainer: Trainer) -> dict[str, torch.Tensor]:
    """The gradient that the first update steps along."""
    trainer.model.network.train()
    trainer.update(first_work(trainer))
    named = trainer.model.network.named_parameters()
    return {name: parameter.grad for name, parameter in named if parameter.grad is not None}


def without_chance(config: Config, max_gradient_norm: float = 0.0) -> Config:
    optimizer = replace(config.optimizer, max_gradient_norm=max_gradient_norm)
    return replace(config, model=tiny_model_config(), optimizer=optimizer)


def test_accumulated_micro_batches_have_the_gradient_of_one(config: Config, make: Make) -> None:
    config = without_chance(config)
    many, one = make(config), make(with_batching(config, tokens_per_micro_batch=4096))
    assert len(first_work(many).shapes) >= 4
    assert len(first_work(one).shapes) == 1
    whole, parts = gradients(one), gradients(many)
    assert whole.keys() == parts.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, rtol=1e-4, atol=1e-6)


def test_the_gradient_is_that_of_the_mean_over_target_tokens(
    config: Config, make: Make, digit_corpus: Path
) -> None:
    trainer = make(without_chance(config))
    work = first_work(trainer)
    fresh = new_model(trainer.config, PreparedCorpus(digit_corpus), ALONE.device).network
    total = torch.zeros(())
    for batch in work.micro_batches.values():
        logits = fresh.project(fresh(batch.source, batch.source_mask, batch.target_input))
        total = total + torch.nn.functional.cross_entropy(
            logits[batch.target_mask],
            batch.target_output[batch.target_mask],
            reduction="sum",
            label_smoothing=trainer.config.training.label_smoothing,
        )
    (total / work.num_target_tokens).backward()
    found = gradients(trainer)
    for name, parameter in fresh.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-4, atol=1e-6)


def test_the_gradient_is_clipped_as_a_whole(config: Config, make: Make) -> None:
    found = gradients(make(without_chance(config, 0.01)))
    norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in found.values()))
    assert norm == pytest.approx(0.01, rel=1e-3)


def test_ten_updates_are_logged_validated_and_saved(trainer: Trainer) -> None:
    state = trainer.run()
    assert state.update == 10
    train, valid = records(trainer, "train/loss"), records(trainer, "valid/loss")
    assert [record["update"] for record in train] == list(range(1, 11))
    assert [record["update"] for record in valid] == [5, 10]
    for record in train:
        rate = learning_rate(record["update"], trainer.config.schedule, 10)
        assert record["train/learning_rate"] == rate
        assert 0 < record["train/share_not_padding"] <= 1
    assert train[-1]["train/target_tokens"] == state.target_tokens
    assert train[-1]["train/loss"] < train[0]["train/loss"]
    assert trainer.store.updates() == [5, 10]
    assert state.best_update in (5, 10)


def test_a_finished_run_makes_no_further_update(make: Make) -> None:
    trainer = make(max_updates=3, validate_every=3)
    first = trainer.run()
    before = records(trainer, "update")
    assert make(trainer.config).run() == first
    assert records(trainer, "update") == before


def fixed_validation(monkeypatch: pytest.MonkeyPatch, *results: tuple[float, float]) -> None:
    """Let validations have these losses and BLEU scores."""
    found = (ValidationResult(*result) for result in results)
    monkeypatch.setattr(trainer_module.Validator, "validate", lambda *_: next(found))


@pytest.mark.parametrize(
    ("metric", "results", "update", "best_update", "best_rank", "improved"),
    [
        ("bleu", [(1, 5), (1, 7), (1, 6), (1, 7), (1, 9)], 8, 4, [7, -1], ["2", "4"]),
        # A better loss selects the checkpoint, but only the metric counts as an improvement.
        ("bleu", [(3, 0), (2, 0), (1, 0), (0.5, 1)], 6, 6, [0, -1], ["2"]),
        ("loss", [(3, 1), (2, 2), (2.5, 3), (2.1, 4)], 8, 4, [-2, -2], ["2", "4"]),
    ],
)
def test_patience_ends_training_and_the_loss_breaks_ties(
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    metric: str,
    results: list[tuple[float, float]],
    update: int,
    best_update: int,
    best_rank: list[float],
    improved: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    fixed_validation(monkeypatch, *results)
    changes = {"patience": 2, "validation_metric": ValidationMetric(metric)}
    trainer = make(max_updates=20, validate_every=2, **changes)
    state = trainer.run()
    assert (state.update, state.best_update, state.best_rank) == (update, best_update, best_rank)
    assert trainer.store.updates() == sorted({best_update, update - 2, update})
    said = [line.split()[1] for line in caplog.messages if line.endswith("best so far")]
    assert said == improved


def test_a_bleu_that_cannot_tell_checkpoints_apart_is_reported(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scores = (0, 0, 0.02, 99.999, 100, 100, 100, 0.001, 0)
    fixed_validation(monkeypatch, *((1, bleu) for bleu in scores))
    tracker = Mock(spec=Tracker)
    for updates in (10, 18):  # the number of validations in a row outlasts an interruption
        trainer = make(max_updates=updates, validate_every=2)
        trainer.run(tracker)
    [(update, title, text)] = [call.args for call in tracker.alert.call_args_list]
    assert (update, title) == (12, "suspicious BLEU")
    assert "BLEU was 100.00 in 3 validations in a row" in text
    assert [line for line in caplog.messages if line == text]


def test_time_ends_training(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that moves a second an update; validation and a checkpoint come all the same."""
    fixed_validation(monkeypatch, (1, 1))
    trainer = make(max_updates=1000, validate_every=500, max_minutes=0.1)
    seconds = iter(range(1_000_000))
    monkeypatch.setattr(trainer_module.time, "monotonic", lambda: float(next(seconds)))
    state = trainer.run()
    assert state.update < 10
    assert state.best_update == state.update
    assert trainer.store.updates() == [state.update]


def signalled_at(
    monkeypatch: pytest.MonkeyPatch, place: str, update: int, number: int = signal.SIGTERM
) -> None:
    """Send ourselves a signal in the update after `update`: in its gradient, or in its step."""
    original = getattr(Trainer, place)

    def signalled(self: Trainer, *arguments: Any) -> Any:
        if self.state.update == update:
            os.kill(os.getpid(), number)
        return original(self, *arguments)

    monkeypatch.setattr(Trainer, place, signalled)


@pytest.mark.parametrize(
    ("place", "saved", "number"),
    [("_exit_if_signalled", 2, signal.SIGTERM), ("_step", 3, signal.SIGINT)],
    ids=["in its gradient", "in its step"],
)
def test_a_signal_saves_the_last_complete_update(
    make: Make, monkeypatch: pytest.MonkeyPatch, place: str, saved: int, number: int
) -> None:
    trainer, handler = make(), signal.getsignal(number)
    with monkeypatch.context() as patch:
        signalled_at(patch, place, 2, number)
        with pytest.raises(Interruption) as interruption:
            trainer.run()
    assert interruption.value.exit_status == 128 + number
    assert signal.getsignal(number) is handler
    assert trainer.store.updates() == [saved]
    assert make(trainer.config).run().update == 10


def test_a_signal_in_validation_leaves_it_due(
    trainer: Trainer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def signalled(*_: Any) -> ValidationResult:
        calls.append("validate")
        if len(calls) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return ValidationResult(1.0, float(len(calls)))

    monkeypatch.setattr(trainer_module.Validator, "validate", signalled)
    with pytest.raises(Interruption):
        trainer.run()
    assert trainer.store.updates() == [5]
    assert records(trainer, "valid/loss") == []
    assert make().state.validation_due
    make().run()
    assert [record["update"] for record in records(trainer, "valid/loss")] == [5, 10]
    assert len(calls) == 3


def test_a_signal_in_the_last_counters_is_not_lost(
    trainer: Trainer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed_validation(monkeypatch, (1, 1), (1, 2))
    update_state = trainer.store.update_state

    def signalled(state: TrainingState) -> None:
        update_state(state)
        if state.update == 10:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(trainer.store, "update_state", signalled)
    with pytest.raises(Interruption) as interruption:
        trainer.run()
    assert interruption.value.exit_status == 128 + signal.SIGTERM
    again = make()
    assert (again.state.update, again.state.validation_due) == (10, False)


def test_a_second_signal_leaves_without_saving(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals_module, "_SECONDS_OF_ONE_REQUEST", 0.0)
    signalled_at(monkeypatch, "_step", 2)
    signalled_at(monkeypatch, "_save", 3)
    with pytest.raises(SystemExit, match="143"):
        trainer.run()
    assert trainer.store.updates() == []


def spoiled(
    monkeypatch: pytest.MonkeyPatch, updates: Sequence[int], factor: float = math.nan
) -> None:
    """Multiply the gradients of some updates."""
    original = Updater.gradient
    made = itertools.count(1)

    def gradient(self: Updater, *arguments: Any) -> Gradient:
        found = original(self, *arguments)
        if next(made) not in updates:
            return found
        for parameter in self._network.parameters():
            assert parameter.grad is not None
            parameter.grad *= factor
        return Gradient(found.loss * factor, found.norm * factor)

    monkeypatch.setattr(Updater, "gradient", gradient)


def skipped(trainer: Trainer) -> list[dict[str, Any]]:
    return records(trainer, "update", "skipped_updates")


def test_an_update_with_a_nan_gradient_changes_only_the_metrics(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make(max_updates=3, validate_every=3)
    spoiled(monkeypatch, [2])
    weights = []
    step = Trainer._step

    def watched(self: Trainer, *arguments: Any) -> None:
        step(self, *arguments)
        weight = self.model.network.output_weight
        weights.append([weight.clone(), *map(torch.clone, self.optimizer.state[weight].values())])

    monkeypatch.setattr(Trainer, "_step", watched)
    state = trainer.run()
    assert all(torch.equal(a, b) for a, b in zip(weights[0], weights[1], strict=True))
    assert not torch.equal(weights[1][0], weights[2][0])
    assert (state.update, state.metrics.skipped, state.metrics.skipped_in_a_row) == (3, 1, 0)
    losses = records(trainer, "train/skipped_updates")
    assert [record["train/skipped_updates"] for record in losses] == [0, 1, 1]
    assert "train/loss" not in losses[1]
    (record,) = skipped(trainer)
    assert (record["update"], record["gradient_norm"]) == (2, "nan")


def test_a_spike_is_skipped_and_its_sentences_are_recorded(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_module, "_WINDOW", 3)
    trainer = make(max_updates=6, validate_every=6)
    work = next(islice(trainer.loader.updates(Position()), 4, None))
    spoiled(monkeypatch, [5], factor=1000.0)
    state = trainer.run()
    assert state.metrics.skipped == 1
    (record,) = skipped(trainer)
    assert record["update"] == 5
    assert record["gradient_norm"] > 10 * record["mean_gradient_norm"]
    tokenizer = trainer.model.target_tokenizer
    targets = [
        text
        for batch in work.micro_batches.values()
        for text in tokenizer.decode(batch.target_output.tolist())
    ]
    assert sorted(target for _, target in record["pairs"]) == sorted(targets)
    assert all(source == " ".join(reversed(target.split())) for source, target in record["pairs"])


def test_a_spike_is_not_skipped_before_there_is_a_running_mean(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoiled(monkeypatch, [5], factor=1000.0)
    assert trainer.run().metrics.skipped == 0


def test_divergence_ends_with_a_diagnosis(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make(max_skipped_in_a_row=3)
    spoiled(monkeypatch, range(6, 100))
    with pytest.raises(UserError, match=r"3 updates in a row .* up to update 8; .*peak_learn"):
        trainer.run(tracker := Mock(spec=Tracker))
    assert trainer.store.updates() == [5]
    assert [record["update"] for record in skipped(trainer)] == [6, 7, 8]
    alerts = [(update, title) for update, title, _ in (c.args for c in tracker.alert.mock_calls)]
    titles = ["skipped updates"] * 3 + ["training has diverged"]
    assert alerts == list(zip((6, 7, 8, 8), titles, strict=True))
    assert "peak_learning_rate" in tracker.alert.call_args.args[2]


def test_skipped_updates_are_recorded_once_over_restarts(
    trainer: Trainer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        spoiled(patch, [3, 7])
        signalled_at(patch, "_read_metrics", 8)
        with pytest.raises(Interruption):
            trainer.run()
    assert [record["update"] for record in skipped(trainer)] == [3, 7]
    shutil.rmtree(trainer.store.path(8))
    spoiled(monkeypatch, [2])  # 7 again, after the checkpoint of 5
    state = make().run()
    assert [record["update"] for record in skipped(trainer)] == [3, 7]
    assert state.metrics.skipped == 2


def out_of_memory(
    monkeypatch: pytest.MonkeyPatch, trainer: Trainer, update: int, most_rows: int
) -> None:
    """From an update on memory is out, halfway through the backward pass, above so many pairs."""
    with_positions = trainer.model.network._with_positions

    def full(gradient: torch.Tensor) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 GB")

    def embedded(scaled: torch.Tensor, *options: Any) -> torch.Tensor:
        hidden = with_positions(scaled, *options)
        if trainer.state.update + 1 >= update and len(scaled) > most_rows and hidden.requires_grad:
            hidden.register_hook(full)
        return hidden

    monkeypatch.setattr(trainer.model.network, "_with_positions", embedded)


def test_memory_that_runs_out_halves_micro_batches_and_continues(
    trainer: Trainer, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows is what a run in smaller micro-batches from there on makes, bit for bit."""
    with monkeypatch.context() as patch:
        out_of_memory(patch, trainer, 4, most_rows=6)
        state = trainer.run()
    size = trainer.micro_batch_size
    assert (state.update, size.times, size.first_update) == (10, 1, 4)
    assert size.asked == 48 > 2 * size.used - 2
    found = trainer.model.network.state_dict()

    smaller = make(tiny_config(tmp_path / "other"))
    step = Trainer._step

    def lowered(self: Trainer, *arguments: Any) -> None:
        step(self, *arguments)
        if self.state.update == 3:
            self.loader.max_micro_batch_tokens = size.used

    monkeypatch.setattr(Trainer, "_step", lowered)
    expected = smaller.run()
    assert state.target_tokens == expected.target_tokens
    for name, weight in smaller.model.network.state_dict().items():
        assert torch.equal(found[name], weight), name


def test_the_halved_size_is_kept_by_who_continues(
    trainer: Trainer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        out_of_memory(patch, trainer, 2, most_rows=3)
        signalled_at(patch, "_step", 4)
        with pytest.raises(Interruption):
            trainer.run()
    size = trainer.micro_batch_size
    assert size.times == 2
    again = make()
    assert again.loader.max_micro_batch_tokens == size.used < 24
    again.run()
    assert again.micro_batch_size == size
    asked = with_batching(trainer.config, tokens_per_micro_batch=40)
    assert make(asked).loader.max_micro_batch_tokens == 40


def test_nothing_of_a_failed_micro_batch_stays(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, kept = SummedLoss.forward, []

    def full(self: SummedLoss, batch: Batch) -> torch.Tensor:
        activations = forward(self, batch)
        kept.append(weakref.ref(activations))
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(SummedLoss, "forward", full)
    with pytest.raises(OutOfMemory, match=r"pairs, \d+ source .*20\.00 GiB") as raised:
        trainer.update(first_work(trainer))
    assert [reference() for reference in kept] == [None]
    assert raised.value.__context__ is None
    assert all(parameter.grad is None for parameter in trainer.model.network.parameters())


def test_memory_that_holds_no_pair_ends_training(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    out_of_memory(monkeypatch, trainer, 1, most_rows=0)
    with pytest.raises(UserError, match=r"of 1 pair, .* not even one .*max_source_length"):
        trainer.run()


def test_smaller_is_smaller_where_a_row_is_longer_than_the_limit(trainer: Trainer) -> None:
    error = OutOfMemory(first_work(trainer).micro_batches[0], MemoryError())
    for limit in (3, 2, 1):
        trainer.loader.max_micro_batch_tokens = limit
        trainer.micro_batch_size = replace(trainer.micro_batch_size, used=limit)
        # One pair is longer than twice the limit.
        assert trainer.loader.padded_tokens(Position()) > 2 * limit
        trainer._halve_micro_batches(error)
        assert trainer.loader.max_micro_batch_tokens == limit // 2


def test_the_validation_loss_has_neither_smoothing_nor_dropout(
    make: Make, digit_corpus: Path
) -> None:
    trainer = make(label_smoothing=0.3)
    model, corpus = trainer.model, PreparedCorpus(digit_corpus)
    transformer = model.network.train()
    found = trainer.validator.validate().loss
    assert transformer.training
    sources, targets = corpus.read_text("valid")
    ids = model.source_tokenizer.encode(sources), model.target_tokenizer.encode(targets)
    batch = collate(list(zip(*ids, strict=True)), *model.tokenizers)
    total = SummedLoss(transformer.eval(), 0.0)(batch).detach()
    assert found == pytest.approx(float(total) / batch.num_target_tokens, rel=1e-5)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "MemoryError"),
        (torch.OutOfMemoryError("CUDA out of memory.\nTry"), r"CUDA out of memory\."),
    ],
)
def test_memory_that_runs_out_in_validation_names_what_to_lower(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, error: BaseException, words: str
) -> None:
    def full(*_: Any) -> None:
        raise error

    monkeypatch.setattr(trainer.validator._translator, "translate", full)
    said = rf"validation: {words}; lower decoding\.batch_size.*decoding\.num_workers=1"
    with pytest.raises(UserError, match=said):
        trainer.validator.validate()


def test_dropout_depends_on_the_position_only(make: Make) -> None:
    found = []
    for seed in (1, 2):
        trainer = make()
        torch.manual_seed(seed)
        found.append(gradients(trainer))
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_each_micro_batch_has_its_own_seed(trainer: Trainer) -> None:
    drawn = []
    for work in islice(trainer.loader.updates(Position()), 3):
        for _ in trainer._updater._batches(work):
            drawn.append(float(torch.rand(())))
    assert len(set(drawn)) == len(drawn) > 6


def test_weights_come_from_the_seed_alone(digit_corpus: Path, tmp_path: Path) -> None:
    corpus = PreparedCorpus(digit_corpus)
    weights = []
    for seed in (1, 1, 2):
        torch.rand(3)
        model = new_model(tiny_config(tmp_path, seed=seed), corpus, ALONE.device)
        weights.append(model.network.output_weight.detach())
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_pairs_that_are_all_over_long_are_refused(config: Config, make: Make) -> None:
    config = replace(config, batching=BatchingConfig(max_source_length=2, max_target_length=2))
    with pytest.raises(UserError, match=r"none of the 300 training pairs fits in batching\.max_so"):
        make(config)


def test_pairs_left_out_are_counted(
    config: Config, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="nmt"):
        trainer = make(with_batching(config, max_source_length=5))
    left_out = int((trainer.train_pairs.source_lengths > 5).sum())
    assert 0 < left_out < 300
    assert f"{left_out} of 300 pairs are longer" in caplog.text


def test_bfloat16_trains_and_keeps_weights_in_float32(make: Make) -> None:
    trainer = make(max_updates=4, validate_every=4, precision=Precision.bfloat16)
    trainer.run()
    assert all(math.isfinite(one["train/loss"]) for one in records(trainer, "train/loss"))
    assert trainer.model.network.output_weight.dtype == torch.float32


def test_in_bfloat16_micro_batches_add_up_as_each_by_itself(config: Config, make: Make) -> None:
    """Weights are made narrow once for all of them; what is kept of it must not leak."""
    training = replace(config.training, precision=Precision.bfloat16)
    trainer = make(without_chance(replace(config, training=training)))
    model = trainer.model.network
    work = trainer.loader.work(Position())
    assert len(work.micro_batches) > 2
    updater = trainer._updater

    def gradients(part: UpdateWork) -> list[torch.Tensor]:
        updater.gradient(part, lambda: None)
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    together = gradients(work)
    alone = [
        gradients(replace(work, num_rounds=1, micro_batches={number: batch}))
        for number, batch in work.micro_batches.items()
    ]
    for whole, *parts in zip(together, *alone, strict=True):
        torch.testing.assert_close(whole, torch.stack(parts).sum(dim=0), rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    assert not torch.equal(gradients(work)[0], together[0])
