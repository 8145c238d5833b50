import math
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from nmt.config import (
    BatchingConfig,
    CleaningConfig,
    Config,
    CorpusConfig,
    CorpusSource,
    DecodingConfig,
    ModelConfig,
    OptimizerConfig,
    OptimizerName,
    Positions,
    RunConfig,
    ScheduleConfig,
    SearchMethod,
    TokenizerAlgorithm,
    TokenizerConfig,
    TrainingConfig,
    differing_keys,
    from_mapping,
    load_config,
    save_config,
    to_plain,
)
from nmt.errors import UserError


def changed() -> Config:
    """A configuration with other values of every kind: numbers, text, enums, mappings."""
    return from_mapping(
        Config,
        {
            "corpus": {"source": "hub", "hub_splits": {"train": "a", "test": "b"}},
            "model": {"positions": "rotary", "width": 64, "dropout": 0.25},
            "training": {"validation_metric": "loss"},
            "run": {"name": "änderung"},
        },
        "test",
    )


def test_a_configuration_goes_there_and_back(tmp_path: Path) -> None:
    for config in (Config(), changed()):
        assert from_mapping(Config, to_plain(config), "test") == config
        save_config(config, tmp_path / "config.yaml")
        assert load_config(Config, tmp_path / "config.yaml") == config


def test_a_key_is_read_by_the_name_that_it_had(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("batching:\n  target_tokens_per_micro_batch: 512\n", encoding="utf-8")
    assert load_config(Config, path).batching.tokens_per_micro_batch == 512


def test_plain_values_are_plain() -> None:
    plain = to_plain(changed())
    assert plain["model"]["positions"] == "rotary"
    assert plain["corpus"]["hub_splits"] == {"train": "a", "test": "b"}
    assert type(plain["corpus"]) is dict


def test_values_in_text_become_their_type() -> None:
    config = from_mapping(
        ModelConfig, {"width": "64", "dropout": "0.2", "positions": "rotary"}, "x"
    )
    assert (config.width, config.dropout, config.positions) == (64, 0.2, Positions.rotary)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"model": {"widht": 64}}, "widht"),
        ({"modle": {"width": 64}}, "modle"),
        ({"model": {"width": "wide"}}, "model.width"),
        ({"model": {"positions": "relative"}}, "model.positions"),
        ({"model": 5}, "ModelConfig"),
        ({"model": None}, "model"),
        ({"model": [1, 2]}, "ModelConfig"),
        ({"model": {"width": None}}, "model.width"),
        ({"model": {"width": {"of": 3}}}, "model.width"),
        ({"model": {"width": "${nowhere}"}}, "nowhere"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=rf"^some file: .*{told}"):
        from_mapping(Config, values, "some file")


@pytest.mark.parametrize(
    ("kind", "values", "told"),
    [
        (CleaningConfig, {"max_characters": 0}, "corpus.cleaning.max_characters=0"),
        (CleaningConfig, {"max_length_ratio": 0.5}, "corpus.cleaning.max_length_ratio=0.5"),
        (CorpusConfig, {"direction": "en"}, "corpus.direction=en "),
        (CorpusConfig, {"direction": "en-en"}, "corpus.direction=en-en"),
        (CorpusConfig, {"direction": "en-../de"}, "corpus.direction=en-../de"),
        (CorpusConfig, {"name": "a/b"}, "corpus.name='a/b'"),
        (CorpusConfig, {"name": ""}, "corpus.name=''"),
        (CorpusConfig, {"source": CorpusSource.folder}, "corpus.path is empty"),
        (TokenizerConfig, {"character_coverage": 0.0}, "tokenizer.character_coverage=0.0"),
        (ModelConfig, {"num_heads": 7}, "model.width=512 is not divisible by model.num_heads=7"),
        (ModelConfig, {"num_heads": 0}, "model.num_heads=0"),
        (ModelConfig, {"width": -2}, "model.width=-2"),
        (ModelConfig, {"feed_forward_width": 0}, "model.feed_forward_width=0"),
        (ModelConfig, {"key_width": -1}, "model.key_width=-1"),
        (ModelConfig, {"value_width": -1}, "model.value_width=-1"),
        (ModelConfig, {"dropout": 1.0}, "model.dropout=1.0"),
        (ModelConfig, {"attention_dropout": -0.1}, "model.attention_dropout=-0.1"),
        (ModelConfig, {"max_length": 3}, "model.max_length=3"),
        (ModelConfig, {"num_decoder_layers": 201}, "model.num_decoder_layers=201 is not between 1"),
        (ModelConfig, {"max_length": 40_000}, "model.max_length=40000 is too large for a width"),
        (ModelConfig, {"positions": Positions.rotary, "key_width": 5}, "an even key width, not 5"),
        (ModelConfig, {"width": 15, "num_heads": 3}, "an even model.width, not 15"),
        (OptimizerConfig, {"weight_decay": 0.1}, "optimizer.weight_decay=0.1 needs"),
        (OptimizerConfig, {"momentum": 0.9}, "optimizer.momentum=0.9 needs optimizer.name=muon"),
        (OptimizerConfig, {"name": OptimizerName.muon, "momentum": 1.0}, "optimizer.momentum=1.0"),
        (OptimizerConfig, {"beta1": 1.0}, "optimizer.beta1=1.0"),
        (OptimizerConfig, {"beta2": -0.1}, "optimizer.beta2=-0.1"),
        (OptimizerConfig, {"epsilon": -1e-9}, "optimizer.epsilon=-1e-09"),
        (OptimizerConfig, {"max_gradient_norm": -1.0}, "optimizer.max_gradient_norm=-1.0"),
        (ScheduleConfig, {"peak_learning_rate": 0.0}, "schedule.peak_learning_rate=0.0"),
        (ScheduleConfig, {"warmup_updates": 0}, "schedule.warmup_updates=0"),
        (CorpusConfig, {"num_train": 0}, "corpus.num_train=0 must be at least 1"),
        (CorpusConfig, {"num_test": -1}, "corpus.num_test=-1 must not be negative"),
        (CorpusConfig, {"max_train_pairs": -1}, "corpus.max_train_pairs=-1 must not be negative"),
        (ScheduleConfig, {"decay_share": 0.0}, "schedule.decay_share=0.0"),
        (ScheduleConfig, {"decay_share": 0.2}, "schedule.decay_share=0.2 needs"),
        (ScheduleConfig, {"final_learning_rate": -1e-5}, "schedule.final_learning_rate=-1e-05"),
        (ScheduleConfig, {"final_learning_rate": 1e-2}, "schedule.final_learning_rate=0.01 is not"),
        (ScheduleConfig, {"final_learning_rate": 1e-5}, "schedule.final_learning_rate=1e-05 needs"),
        (BatchingConfig, {"tokens_per_micro_batch": 200}, "cannot hold one pair of 256"),
        (BatchingConfig, {"target_tokens_per_update": 0}, "batching.target_tokens_per_update=0"),
        (TrainingConfig, {"max_updates": 0}, "training.max_updates=0"),
        (TrainingConfig, {"log_every": 0}, "training.log_every=0"),
        (TrainingConfig, {"num_processes": 0}, "training.num_processes=0"),
        (TrainingConfig, {"label_smoothing": 1.0}, "training.label_smoothing=1.0"),
        (TrainingConfig, {"r_drop": -1.0}, "training.r_drop=-1.0"),
        (TrainingConfig, {"r_drop": math.inf}, "training.r_drop=inf"),
        (
            Config,
            {"training": TrainingConfig(r_drop=5.0), "model": ModelConfig(dropout=0.0)},
            "training.r_drop=5.0 needs dropout",
        ),
        (TrainingConfig, {"average_checkpoints": 0}, "training.average_checkpoints=0"),
        (TrainingConfig, {"seed": -1}, "training.seed=-1"),
        (TrainingConfig, {"max_minutes": -1.0}, "training.max_minutes=-1.0"),
        (TrainingConfig, {"patience": -1}, "training.patience=-1"),
        (TrainingConfig, {"num_threads": -1}, "training.num_threads=-1"),
        (TrainingConfig, {"num_hosts": 2}, "training.num_hosts=2 needs training.rendezvous"),
        (TrainingConfig, {"rendezvous": "one"}, "training.rendezvous=one is not HOST:PORT"),
        (TrainingConfig, {"rendezvous": ":29400"}, "training.rendezvous=:29400 is not HOST:PORT"),
        (TrainingConfig, {"rendezvous": "one:port"}, "training.rendezvous=one:port is not"),
        (TrainingConfig, {"rendezvous": "one:65536"}, "training.rendezvous=one:65536 is not"),
        (TrainingConfig, {"rendezvous_timeout": 0.5}, "training.rendezvous_timeout=0.5"),
        (DecodingConfig, {"beam_size": 0}, "decoding.beam_size=0"),
        (DecodingConfig, {"batch_size": 0}, "decoding.batch_size=0"),
        (DecodingConfig, {"beam_size": 10**9}, "decoding.beam_size=1000000000 is not between 1"),
        (DecodingConfig, {"length_penalty": math.nan}, "decoding.length_penalty=nan"),
        (DecodingConfig, {"max_length_ratio": math.inf}, "decoding.max_length_ratio=inf"),
        (DecodingConfig, {"max_length_offset": -1}, "decoding.max_length_offset=-1"),
        (DecodingConfig, {"num_best": 5}, "decoding.num_best=5"),
        (DecodingConfig, {"num_best": 0}, "decoding.num_best=0"),
        (DecodingConfig, {"min_length": 9, "max_length": 5}, "decoding.min_length=9 is above"),
        (DecodingConfig, {"min_length_ratio": -1.0}, "decoding.min_length_ratio=-1.0"),
        (DecodingConfig, {"patience": -1.0}, "decoding.patience=-1.0"),
        (DecodingConfig, {"repetition_penalty": 0.9}, "decoding.repetition_penalty=0.9"),
        (DecodingConfig, {"no_repeat_ngram": -1}, "decoding.no_repeat_ngram=-1"),
        (DecodingConfig, {"temperature": 0.0}, "decoding.temperature=0.0"),
        (DecodingConfig, {"top_p": 0.0}, "decoding.top_p=0 leaves no token"),
        (DecodingConfig, {"epsilon": 1.5}, "decoding.epsilon=1.5"),
        (DecodingConfig, {"diversity_groups": 3}, "decoding.diversity_groups=3 does not divide"),
        (
            DecodingConfig,
            {"method": SearchMethod.sampling, "diversity_groups": 2},
            "decoding.method=sampling needs decoding.diversity_groups=1",
        ),
        (DecodingConfig, {"top_k": 3}, "decoding.top_k=3 is of sampling: add decoding.method="),
        (DecodingConfig, {"epsilon": 0.1}, "decoding.epsilon=0.1 is of sampling"),
        (DecodingConfig, {"diversity_strength": 2.0}, "decoding.diversity_strength=2.0 parts"),
        (DecodingConfig, {"refill": 1.1}, "decoding.refill=1.1"),
        (DecodingConfig, {"batch_tokens": 0}, "decoding.batch_tokens=0"),
        (TokenizerConfig, {"dropout": 1.0}, "tokenizer.dropout=1.0 must be at least 0 and below 1"),
        (
            TokenizerConfig,
            {"dropout": 0.1, "algorithm": TokenizerAlgorithm.unigram},
            "tokenizer.dropout=0.1 leaves out merges, which algorithm=unigram has not",
        ),
        (RunConfig, {"name": "../up"}, "run.name='../up'"),
        (RunConfig, {"name": ".hidden"}, "run.name='.hidden'"),
    ],
)
def test_a_value_out_of_range_is_named_with_its_key(
    kind: type[Any], values: dict[str, Any], told: str
) -> None:
    with pytest.raises(UserError) as error:
        kind(**values)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"tokenizer": {"joint": False}}, "model.tied_embeddings=three_way needs one vocabulary"),
        ({"model": {"max_length": 100}}, "batching.max_source_length=256 is above"),
        (
            {"schedule": {"name": "cosine"}, "training": {"max_updates": 4000}},
            "schedule.warmup_updates=4000 must be below",
        ),
        (
            {
                "schedule": {"name": "warmup_stable_decay", "warmup_updates": 601},
                "training": {"max_updates": 1000},
            },
            "schedule.warmup_updates=601 and schedule.decay_share=0.4 are more than",
        ),
    ],
    ids=str,
)
def test_values_that_do_not_fit_together_are_named(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=f"^x: {told}"):
        from_mapping(Config, values, "x")


def test_unset_head_widths_are_the_papers() -> None:
    config = ModelConfig(width=512, num_heads=8)
    assert (config.head_key_width, config.head_value_width) == (64, 64)
    config = ModelConfig(width=512, num_heads=7, key_width=10, value_width=12)
    assert (config.head_key_width, config.head_value_width) == (10, 12)


def test_instances_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        changed().model.width = 3  # type: ignore[misc]


def test_differences_are_listed_with_both_values() -> None:
    config = Config()
    other = replace(config, model=replace(config.model, width=64))
    assert differing_keys(config, other) == ["model.width: 512 != 64"]
    assert differing_keys(config, config) == []
    hub = from_mapping(Config, {"corpus": {"hub_splits": {"train": "a"}}}, "x")
    assert differing_keys(config, hub) == ["corpus.hub_splits.train: absent != a"]


def test_the_run_folder(tmp_path: Path) -> None:
    assert Config().run_folder == Path("outputs/runs/run")
    assert Config(run=RunConfig(folder="outputs/sweeps/a/b")).run_folder == Path(
        "outputs/sweeps/a/b"
    )
    assert Config().corpora_folder == Path("outputs/corpora")


def test_languages_are_the_direction() -> None:
    corpus = CorpusConfig(direction="de-fr")
    assert (corpus.source_language, corpus.target_language) == ("de", "fr")


@pytest.mark.parametrize("text", ["a: [", "- 1\n- 2", "text", "\x00"])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=str(path)):
        load_config(Config, path)


def test_every_field_says_what_it_means() -> None:
    """A field states its unit in the text under it."""
    source = Path(__file__).parents[3].joinpath("nmt", "config.py").read_text(encoding="utf-8")
    for group in fields(Config):
        kind = type(getattr(Config(), group.name))
        assert is_dataclass(kind)
        for leaf in fields(kind):
            _, _, after = source.partition(f"class {kind.__name__}:")
            _, _, after = after.partition(f"    {leaf.name}: ")
            assert after.split("\n", 1)[1].lstrip().startswith('"""'), f"{group.name}.{leaf.name}"
