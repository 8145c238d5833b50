from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nmt.config import ARRANGING_KEYS, Config, load_config
from nmt.errors import UserError
from nmt.files import read_json, write_json
from nmt.training.experiment import is_complete, open_run
from tests.support import tiny_config, with_batching


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return tmp_path / "corpora" / "digits-0123456789ab"


@pytest.fixture
def config(tmp_path: Path, corpus: Path) -> Config:
    """A run that has been opened."""
    config = tiny_config(tmp_path)
    open_run(config, corpus)
    return config


def stored(config: Config) -> Config:
    loaded: Config = load_config(Config, config.run_folder / "config.yaml")
    return loaded


def accepting(config: Config, keys: str, **training: Any) -> Config:
    return replace(
        config,
        run=replace(config.run, accept_changes=keys),
        training=replace(config.training, **training),
    )


def test_the_same_run_is_opened_again(config: Config, corpus: Path) -> None:
    before = read_json(config.run_folder / "environment.json")
    open_run(config, corpus)
    assert stored(config) == config
    assert read_json(config.run_folder / "environment.json") == before
    assert len(before["run_id"]) == 8


@pytest.mark.parametrize(
    "changes",
    [{"num_processes": 4, "num_threads": 2}, {"num_hosts": 2, "rendezvous": "a:1"}, {"timeout": 9}],
)
def test_what_changes_no_result_may_change(
    config: Config, corpus: Path, changes: dict[str, Any]
) -> None:
    open_run(accepting(config, "", **changes), corpus)


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 2, "batch_tokens": 100},
        {"num_workers": 1, "refill": 0.5, "compile": True},
    ],
)
def test_what_only_arranges_search_may_change(
    config: Config, corpus: Path, changes: dict[str, Any]
) -> None:
    assert changes.keys() <= ARRANGING_KEYS
    open_run(replace(config, decoding=replace(config.decoding, **changes)), corpus)


def test_another_size_of_micro_batches_is_refused_by_name(config: Config, corpus: Path) -> None:
    smaller = with_batching(config, tokens_per_micro_batch=40)
    key = r"batching\.tokens_per_micro_batch: 48 != 40"
    with pytest.raises(UserError, match=key):
        open_run(smaller, corpus)
    assert stored(config) == config


def test_it_is_taken_when_the_user_asks_for_it(config: Config, corpus: Path) -> None:
    smaller = with_batching(config, tokens_per_micro_batch=40)
    asked = accepting(smaller, "batching.tokens_per_micro_batch")
    open_run(asked, corpus)
    assert stored(config).batching.tokens_per_micro_batch == 40
    open_run(smaller, corpus)  # from here on it is the run's own


def test_with_an_accepted_change_a_complete_run_goes_on(config: Config, corpus: Path) -> None:
    write_json(config.run_folder / "result.json", {})
    longer = accepting(config, "training.max_updates", max_updates=20)
    with pytest.raises(UserError, match="was trained on"):
        open_run(longer, corpus.with_name("digits-ba9876543210"))
    assert is_complete(config.run_folder)
    assert stored(config) == config
    open_run(longer, corpus)
    assert not is_complete(config.run_folder)
    write_json(config.run_folder / "result.json", {})
    open_run(longer, corpus)
    assert is_complete(config.run_folder)  # nothing changes any more


def test_a_key_that_is_free_may_be_named(config: Config, corpus: Path) -> None:
    moved = accepting(config, "corpus.path")
    moved = replace(moved, corpus=replace(config.corpus, path="elsewhere"))
    open_run(moved, corpus)


def test_only_what_is_named_is_taken(config: Config, corpus: Path) -> None:
    longer = accepting(config, "training.max_updates, training.patience", max_updates=20)
    open_run(longer, corpus)
    assert stored(config).training.max_updates == 20
    other = accepting(longer, "training.max_updates", max_updates=30, label_smoothing=0.2)
    with pytest.raises(UserError, match=r"training\.label_smoothing: 0\.1 != 0\.2"):
        open_run(other, corpus)
    assert stored(config).training.max_updates == 20


@pytest.mark.parametrize(
    "key", ["training.seed", "batching.target_tokens_per_update", "model.width", "optimizer.name"]
)
def test_what_fixes_data_and_shapes_cannot_be_taken(config: Config, corpus: Path, key: str) -> None:
    with pytest.raises(UserError, match=f"run.accept_changes={key}: a run cannot go on with"):
        open_run(accepting(config, f"training.patience,{key}"), corpus)


def test_another_corpus_is_refused(config: Config, corpus: Path) -> None:
    with pytest.raises(
        UserError, match="was trained on digits-0123456789ab, but the corpus is now"
    ):
        open_run(config, corpus.with_name("digits-ba9876543210"))
