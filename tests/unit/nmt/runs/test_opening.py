from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from nmt.base.errors import UserError
from nmt.base.files import read_json, write_json
from nmt.config import (
    ARRANGING_KEYS,
    BleuTokenizer,
    Config,
    EvaluationConfig,
    MixingConfig,
    SourceConfig,
    load_config,
    load_values,
    save_config,
)
from nmt.model import cpu_library
from nmt.run_folder import Run
from nmt.runs import experiment
from nmt.runs.opening import check_configuration, open_run, point_latest
from tests.runs import run
from tests.support import (
    refused,
    reversed_digits,
    tiny_config,
    with_batching,
    write_corpus,
    write_result,
)


@pytest.fixture
def corpus(digit_corpus: Path) -> Path:
    return digit_corpus


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


def test_the_same_run_is_opened_again(config: Config, corpus: Path, tmp_path: Path) -> None:
    new = tiny_config(tmp_path / "new")  # nothing to check, and nothing is written
    assert check_configuration(new) == (new, [])
    assert not (tmp_path / "new").exists()
    before = read_json(config.run_folder / "environment.json")
    open_run(config, corpus)
    assert stored(config) == config
    assert read_json(config.run_folder / "environment.json") == before
    assert len(before["run_id"]) == 8


def test_the_tokeniser_of_bleu_is_stored_and_kept(
    config: Config, corpus: Path, tmp_path: Path
) -> None:
    chinese = replace(
        config,
        corpus=replace(config.corpus, direction="en-zh"),
        evaluation=EvaluationConfig(),
        run=replace(config.run, name="zh"),
    )
    assert open_run(chinese, corpus).evaluation.bleu_tokenizer == "zh"
    assert Run(chinese.run_folder).bleu_tokenizer == "zh"
    assert check_configuration(chinese)[0] == stored(chinese)
    other = replace(chinese, evaluation=EvaluationConfig(bleu_tokenizer=BleuTokenizer("char")))
    with pytest.raises(UserError, match=r"bleu_tokenizer: the run has zh, you asked for char"):
        check_configuration(other)
    # Runs of earlier versions lack the key.
    path = config.run_folder / "config.yaml"
    values = load_values(path)
    del values["evaluation"]
    path.write_text(yaml.safe_dump(values))
    assert Run(config.run_folder).bleu_tokenizer == "13a"
    check_configuration(replace(config, evaluation=EvaluationConfig()))


def test_blank_references_are_refused_before_the_training(
    tmp_path: Path, digit_tokenizer_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = reversed_digits(20, 1)
    splits = {"train": pairs, "valid": pairs[:2], "test": [pairs[0], ("1 2", " "), ("3 4", "")]}
    corpus = write_corpus(tmp_path / "corpora" / "gaps-1", digit_tokenizer_path, splits)
    config = tiny_config(tmp_path)
    with refused(r"test set test: 2 of 3 references are blank; .*allow_blank=true", tmp_path):
        open_run(config, corpus)
    open_run(replace(config, evaluation=EvaluationConfig(allow_blank=True)), corpus)
    assert "test: 2 of 3 references are blank" in caplog.messages


def test_the_last_run_is_linked_but_a_folder_is_kept(
    config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        point_latest(config)
    latest = Path(config.run.outputs) / "latest"
    assert latest.resolve() == config.run_folder.resolve()
    latest.unlink()
    latest.mkdir()
    (latest / "mine").touch()
    point_latest(config)
    assert (latest / "mine").is_file()
    assert f"{latest} is a folder and stays" in caplog.text


def test_keys_that_do_not_change_the_result_may_change(config: Config, corpus: Path) -> None:
    open_run(accepting(config, "", num_processes=4, num_threads=2, timeout=9), corpus)
    decoding = {"batch_size": 2, "batch_tokens": 100, "num_workers": 1}
    assert decoding.keys() <= ARRANGING_KEYS
    open_run(replace(config, decoding=replace(config.decoding, **decoding)), corpus)


def test_the_paths_of_sources_may_change_but_not_their_mixing(config: Config, corpus: Path) -> None:
    def with_source(path: str, repeats: float) -> Config:
        sources, mixing = {"web": SourceConfig(path=path)}, MixingConfig(repeats={"web": repeats})
        name = f"{config.run.name}_sources"
        return replace(
            config,
            corpus=replace(config.corpus, sources=sources, mixing=mixing),
            run=replace(config.run, name=name),
        )

    open_run(with_source("here", 2), corpus)
    open_run(with_source("there", 2), corpus)
    with pytest.raises(UserError, match=r"corpus\.mixing\.repeats\.web: the run has 2\.0"):
        open_run(accepting(with_source("here", 3), "corpus.mixing.repeats.web"), corpus)


def test_another_value_is_refused_with_the_key_that_accepts_it(config: Config) -> None:
    longer = accepting(config, "training.patience", max_updates=130)
    with pytest.raises(UserError) as caught:
        check_configuration(longer)
    assert str(caught.value).splitlines() == [
        f"{config.run_folder} was started with a different configuration:",
        "  training.max_updates: the run has 10, you asked for 130",
        "to continue the run with the new values, add"
        " run.accept_changes=training.max_updates,training.patience; to train another model,"
        " choose another run.name",
    ]
    assert stored(config) == config


def complete(config: Config, updates: int) -> None:
    write_result(config.run_folder, 1.0, updates=updates, training_seconds=61.0)


def test_an_accepted_change_continues_a_complete_run(config: Config, corpus: Path) -> None:
    complete(config, config.training.max_updates)
    evaluation = config.run_folder / "evaluation" / "general" / "scores.json"
    write_json(evaluation, {})
    longer = accepting(config, "training.max_updates", max_updates=20)
    with pytest.raises(UserError, match="was trained on digits-0123456789ab, but the corpus is"):
        open_run(longer, corpus.with_name("digits-ba9876543210"))
    assert Run(config.run_folder).is_complete
    assert stored(config) == config
    assert evaluation.exists()
    open_run(longer, corpus)
    assert not Run(config.run_folder).is_complete
    assert not evaluation.exists()
    complete(config, config.training.max_updates)
    open_run(longer, corpus)
    assert Run(config.run_folder).is_complete  # nothing differs any more


def test_a_complete_run_is_not_shortened(config: Config, corpus: Path) -> None:
    complete(config, config.training.max_updates)
    with pytest.raises(UserError, match=r"has 10 updates, more than training.max_updates=9"):
        open_run(accepting(config, "training.max_updates", max_updates=9), corpus)


def test_a_run_without_pairs_leaves_nothing(tmp_path: Path, corpus: Path) -> None:
    config = tiny_config(tmp_path / "new")
    with pytest.raises(UserError, match=r"none of the .* fits"):
        open_run(with_batching(config, max_source_length=2, max_target_length=2), corpus)
    assert not (tmp_path / "new").exists()
    open_run(config, corpus)


def test_a_run_that_ended_early_continues_only_with_other_limits(
    config: Config, corpus: Path
) -> None:
    complete(config, config.training.max_updates - 1)
    with pytest.raises(UserError, match=r"ended early, after .* by training.patience; change"):
        open_run(accepting(config, "training.max_updates", max_updates=20), corpus)
    save_config(timed := accepting(config, "", max_minutes=1), config.run_folder / "config.yaml")
    keys = "training.max_updates,training.patience"
    with pytest.raises(UserError, match=r"ended early, after .* by training.max_minutes; change"):
        open_run(accepting(timed, keys, max_updates=20, patience=7), corpus)
    save_config(config, config.run_folder / "config.yaml")
    keys = "training.max_updates,training.patience"
    open_run(accepting(config, keys, max_updates=20, patience=7), corpus)
    assert not Run(config.run_folder).is_complete


def test_the_stored_threads_are_those_of_the_same_number_of_processes(config: Config) -> None:
    assert stored(config).training.num_threads == 1
    for processes, threads in ((1, 1), (2, 0)):
        changed = accepting(config, "", num_threads=0, num_processes=processes)
        assert check_configuration(changed)[0].training.num_threads == threads


def test_hypotheses_are_those_of_the_weights_that_are_chosen_later(
    tmp_path: Path, digit_corpus: Path
) -> None:
    config = tiny_config(tmp_path, max_updates=4, validate_every=2, average_checkpoints=1)
    run(config, digit_corpus)
    path = config.run_folder / "valid_hypotheses.txt"
    best = path.read_bytes()
    path.write_text("of an average\n", encoding="utf-8")
    run(accepting(config, "training.patience", patience=9), digit_corpus)  # no more updates
    assert path.read_bytes() == best


def test_only_the_named_keys_are_accepted_and_stored(config: Config, corpus: Path) -> None:
    longer = accepting(config, "training.max_updates, training.patience", max_updates=20)
    open_run(longer, corpus)
    assert stored(config).training.max_updates == 20
    open_run(accepting(longer, ""), corpus)  # accepted once and for all
    other = accepting(longer, "training.max_updates", max_updates=30, label_smoothing=0.2)
    with pytest.raises(UserError, match=r"training\.label_smoothing: the run has 0\.1"):
        open_run(other, corpus)
    assert stored(config).training.max_updates == 20


@pytest.mark.parametrize(
    ("group", "key", "value"),
    [
        ("training", "seed", 4),
        ("batching", "target_tokens_per_update", 170),
        ("model", "width", 32),
        ("training", "validation_metric", "loss"),
    ],
)
def test_keys_that_define_data_order_or_shapes_cannot_change(
    config: Config, corpus: Path, group: str, key: str, value: int
) -> None:
    changed = replace(config, **{group: replace(getattr(config, group), **{key: value})})
    with pytest.raises(UserError) as caught:
        open_run(accepting(changed, f"training.patience,{group}.{key}"), corpus)
    lines = str(caught.value).splitlines()
    assert f"  {group}.{key}: the run has" in lines[1]
    remedy = "these keys define the data, the model, the optimizer or the chosen checkpoint"
    assert lines[2].startswith(remedy)
    assert stored(config) == config


def test_every_start_of_a_run_uses_the_library_that_the_run_stored(
    tmp_path: Path, digit_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_library, "_selected", "")
    config = tiny_config(tmp_path)
    open_run(config, digit_corpus)
    path = config.run_folder / "environment.json"
    assert read_json(path)["cpu_library"] == "torch"  # the tests set the environment variable
    monkeypatch.setattr(experiment, "Trainer", Mock(side_effect=InterruptedError))
    for library in ("onednn", "torch"):
        write_json(path, {**read_json(path), "cpu_library": library})
        with pytest.raises(InterruptedError):
            experiment.run_experiment(config, digit_corpus)
        assert cpu_library._selected == library
