"""Cases that cost users of other toolkits a training: one test each, named after its report."""

import itertools
import math
import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from data_prep.prepare import prepare
from data_prep.progress import Reporter
from nmt.config import (
    BatchingConfig,
    Config,
    CorpusConfig,
    CorpusSource,
    Precision,
    TokenizerConfig,
)
from nmt.data.batch import SpecialIds
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position, UpdateLoader
from nmt.files import write_lines
from nmt.training.distributed import Process
from nmt.training.experiment import open_run
from nmt.training.signals import Interruption
from nmt.training.trainer import Trainer
from nmt.training.updater import Gradient, Updater
from tests.runs import assert_same, killed_after, last_state, metrics, resumed_config, run
from tests.support import made_up_sentences, tiny_config

ALONE = Process(0, 1, torch.device("cpu"))


def assert_same_run(config: Config, straight: Config) -> None:
    assert metrics(config) == metrics(straight)
    assert_same(last_state(config), last_state(straight))


def test_a_truncated_checkpoint_is_not_the_end(
    straight: Config, digit_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lightning #688, allennlp #2129: a checkpoint cut short by a kill broke every later start."""
    config = resumed_config(tmp_path)
    killed_after(config, digit_corpus, 7, monkeypatch)
    state = config.run_folder / "checkpoints" / "update_0000005" / "training_state.pt"
    state.write_bytes(state.read_bytes()[:100])
    run(config, digit_corpus)  # the only checkpoint is damaged: from the start
    assert_same_run(config, straight)


def test_an_incomplete_newest_checkpoint_gives_way_to_the_one_before(
    straight: Config, digit_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers #35782: the newest folder was taken although its last file was not written."""
    config = resumed_config(tmp_path)
    killed_after(config, digit_corpus, 7, monkeypatch)
    incomplete = config.run_folder / "checkpoints" / "update_0000006"
    incomplete.mkdir()
    (incomplete / "weights.safetensors").write_bytes(b"half")
    trainer = Trainer(config, PreparedCorpus(digit_corpus), ALONE)
    assert trainer.progress.update == 5
    run(config, digit_corpus)
    assert_same_run(config, straight)


def test_sigterm_does_not_wait_for_a_long_update(
    digit_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal polled between steps alone comes too late where an update takes a minute."""
    config = tiny_config(tmp_path)
    trainer = Trainer(config, PreparedCorpus(digit_corpus), ALONE)
    forward, calls = trainer._updater._objective.forward, itertools.count(1)

    def signalled(batch: Any) -> Any:
        if next(calls) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return forward(batch)

    monkeypatch.setattr(trainer._updater._objective, "forward", signalled)
    work = next(trainer.loader.updates(Position()))
    assert work.num_micro_batches > 2
    open_run(config, digit_corpus)
    with pytest.raises(Interruption):
        trainer.run()
    assert next(calls) == 3  # no third micro-batch


def updates_of(
    corpus: Path, batching: BatchingConfig, position: Position, world_size: int, number: int
) -> tuple[list[list[tuple[bytes, bytes]]], Position]:
    """The pairs of some updates, over all of so many processes, and where they end."""
    pairs = PreparedCorpus(corpus).train()
    ids = SpecialIds(0, 1, 2)
    found: list[list[tuple[bytes, bytes]]] = [[] for _ in range(number)]
    for rank in range(world_size):
        loader = UpdateLoader(pairs, batching, 1, ids, ids, rank, world_size)
        for update, work in enumerate(itertools.islice(loader.updates(position), number)):
            for micro_batch in work.micro_batches:
                batch = micro_batch.batch
                for source, target in zip(batch.source, batch.target_output, strict=True):
                    found[update].append((_bytes(source), _bytes(target)))
            end = work.next_position
    return [sorted(update) for update in found], end


def _bytes(ids: torch.Tensor) -> bytes:
    return bytes(ids[ids != 0].tolist())


@pytest.mark.parametrize("processes", [[1, 2, 4], [2, 1, 2], [4, 1, 2, 4, 1]])
def test_a_restart_neither_repeats_nor_skips_data(digit_corpus: Path, processes: list[int]) -> None:
    """accelerate #2016, fairseq #1226 and #781: also when the number of processes changes."""
    batching = tiny_config(Path("unused")).batching
    per_epoch = 0
    position = Position()
    while position.epoch == 0:
        _, position = updates_of(digit_corpus, batching, position, 1, 1)
        per_epoch += 1
    # Stops in the middle of an epoch, at its end, and right after it.
    legs = [per_epoch // 2, per_epoch - per_epoch // 2, 1, per_epoch + 2, 3][: len(processes)]
    whole, _ = updates_of(digit_corpus, batching, Position(), 1, sum(legs))
    found, position = [], Position()
    for world_size, leg in zip(processes, legs, strict=True):
        updates, position = updates_of(digit_corpus, batching, position, world_size, leg)
        found += updates
    assert found == whole
    first_epoch = sorted(pair for update in found[:per_epoch] for pair in update)
    assert len(first_epoch) == 300


def test_a_restart_at_an_epochs_end_goes_on(
    digit_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed loader at its end trained for no step at all, and the program left with 0."""
    config = resumed_config(tmp_path)
    trainer = Trainer(config, PreparedCorpus(digit_corpus), ALONE)
    works = trainer.loader.updates(Position())
    last = next(n for n, work in enumerate(works, start=1) if work.next_position.epoch == 1)
    config = replace(config, training=replace(config.training, validate_every=last))
    assert last < config.training.max_updates
    killed_after(config, digit_corpus, last, monkeypatch)
    trainer = Trainer(config, PreparedCorpus(digit_corpus), ALONE)
    assert trainer.progress.position == Position(1, 0)
    run(config, digit_corpus)
    final = Trainer(config, PreparedCorpus(digit_corpus), ALONE).progress
    assert final.update == config.training.max_updates


def test_the_loss_does_not_jump_after_a_restart(
    digit_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optimizers restored without their moments, or schedules without their step."""
    straight, stopped = tiny_config(tmp_path / "straight"), tiny_config(tmp_path / "stopped")
    run(straight, digit_corpus)
    killed_after(stopped, digit_corpus, 6, monkeypatch)
    run(stopped, digit_corpus)
    losses = [record["train/loss"] for record in metrics(straight) if "train/loss" in record]
    assert losses == [record["train/loss"] for record in metrics(stopped) if "train/loss" in record]


def test_uneven_last_batches_do_not_hang(two_processes_found: Any) -> None:
    """pytorch #141069: a process without a batch did not come to the all-reduce of the others."""
    for found in two_processes_found.ranks:
        shares = found["updates"]["one idle"]["shares"]
        assert len(shares) == len(found["updates"]["one idle"]["losses"])
    first, second = (found["updates"]["one idle"]["shares"] for found in two_processes_found.ranks)
    assert 0 in second
    assert 0 not in first


def test_refused_updates_collapse_no_scale(
    digit_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fairseq #512: each overflow halved a loss scale, until training ended at its minimum.

    Nothing is scaled here: after refused updates the next ones are what they would be anyway.
    """
    config = tiny_config(tmp_path, precision=Precision.bfloat16, max_updates=8, validate_every=8)
    original, made = Updater.gradient, itertools.count(1)

    def gradient(self: Updater, *arguments: Any) -> Gradient:
        found = original(self, *arguments)
        return Gradient(found.losses, found.norm * (math.inf if next(made) <= 4 else 1.0))

    monkeypatch.setattr(Updater, "gradient", gradient)
    run(config, digit_corpus)
    records = [record for record in metrics(config) if "train/gradient_norm" in record]
    assert [record["train/refused_updates"] for record in records] == [1, 2, 3, 4, 4, 4, 4, 4]
    assert all(0.1 < record["train/gradient_norm"] < 100 for record in records[4:])
    assert records[-1]["train/loss"] < records[4]["train/loss"]


def _prepare(folder: Path) -> None:
    corpus = CorpusConfig("raced", CorpusSource.folder, path=str(folder / "text"))
    prepare(corpus, TokenizerConfig(vocabulary_size=300), folder / "corpora", Reporter(quiet=True))


@pytest.mark.slow
def test_processes_that_prepare_one_corpus_do_not_race(tmp_path: Path) -> None:
    """datasets #4661: ranks wrote one cache file at the same time."""
    lines = made_up_sentences(200)
    for split, language in itertools.product(("train", "valid"), ("en", "de")):
        write_lines(
            tmp_path / "text" / f"{split}.{language}", [f"{line} {language}" for line in lines]
        )
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_prepare, args=(tmp_path,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    folders = [path for path in (tmp_path / "corpora").iterdir() if not path.name.startswith(".")]
    assert len([path for path in folders if path.is_dir()]) == 1
    assert len(PreparedCorpus(folders[0]).train()) > 0
