"""Failures that users of other toolkits reported, one test each; the docstring names the report."""

import itertools
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from data_prep.prepare import prepare
from data_prep.progress import Reporter
from nmt.base.files import write_lines
from nmt.base.signals import Interruption
from nmt.config import Config, CorpusConfig, CorpusSource, TokenizerConfig
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position
from nmt.runs.opening import open_run
from nmt.training.trainer import Trainer
from tests.runs import assert_same, killed_after, last_state, metrics, resumed_config, run
from tests.support import ALONE, made_up_sentences, tiny_config


@pytest.mark.parametrize("has_intact_one", [False, True])
def test_a_checkpoint_that_is_cut_short_does_not_break_the_next_start(
    straight: Config,
    digit_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_intact_one: bool,
) -> None:
    """Lightning #688, allennlp #2129, transformers #35782: the newest one was used regardless."""
    config = resumed_config(tmp_path)
    killed_after(config, digit_corpus, 7, monkeypatch)
    folder = config.run_folder / "checkpoints" / "update_0000005"
    if has_intact_one:
        incomplete = folder.with_name("update_0000006")
        incomplete.mkdir()
        (incomplete / "weights.safetensors").write_bytes(b"half")
    else:
        state = folder / "training_state.pt"
        state.write_bytes(state.read_bytes()[:100])
    trainer = Trainer(config, PreparedCorpus(digit_corpus), ALONE)
    assert trainer.state.update == (5 if has_intact_one else 0)
    run(config, digit_corpus)
    assert metrics(config) == metrics(straight)
    assert_same(last_state(config), last_state(straight))


def test_sigterm_does_not_wait_for_a_long_update(
    digit_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that is checked between updates only is too late if an update takes a minute."""
    config = tiny_config(tmp_path)
    trainer = Trainer(config, PreparedCorpus(digit_corpus), ALONE)
    forward, calls = trainer._updater._passes._loss.forward, itertools.count(1)

    def signalled(batch: Any) -> Any:
        if next(calls) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return forward(batch)

    monkeypatch.setattr(trainer._updater._passes._loss, "forward", signalled)
    work = next(trainer.loader.updates(Position()))
    assert len(work.shapes) > 2
    open_run(config, digit_corpus)
    with pytest.raises(Interruption):
        trainer.run()
    assert next(calls) == 3  # no third micro-batch


def _prepare(folder: Path) -> None:
    corpus = CorpusConfig(name="raced", source=CorpusSource.folder, path=str(folder / "text"))
    prepare(corpus, TokenizerConfig(vocabulary_size=300), folder / "corpora", Reporter(quiet=True))


@pytest.mark.slow
def test_processes_that_prepare_one_corpus_do_not_race(tmp_path: Path) -> None:
    """datasets #4661: ranks wrote one cache file at the same time."""
    lines = made_up_sentences(200)
    for name in ("train.en", "train.de", "valid.en", "valid.de"):
        write_lines(tmp_path / "text" / name, [f"{line} {name[-2:]}" for line in lines])
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_prepare, args=(tmp_path,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    folders = [path for path in (tmp_path / "corpora").iterdir() if not path.name.startswith(".")]
    assert len([path for path in folders if path.is_dir()]) == 1
    assert len(PreparedCorpus(folders[0]).train()) > 0
