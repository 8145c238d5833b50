import math
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest

from nmt.base.errors import UserError
from nmt.config import (
    FREE_KEYS,
    BatchingConfig,
    Config,
    CorpusConfig,
    CorpusSource,
    DecodingConfig,
    ModelConfig,
    OptimizerConfig,
    Positions,
    RunConfig,
    ScheduleConfig,
    TokenizerAlgorithm,
    TokenizerConfig,
    default_of,
    differing_values,
    from_mapping,
    leaf_docs,
    leaf_fields,
    load_config,
    save_config,
    to_plain,
)


def changed() -> Config:
    """A configuration with non-default values of every type: numbers, text, enums, mappings."""
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


def is_number(field: Field[Any]) -> bool:
    return isinstance(field.default, int | float) and not isinstance(field.default, bool)


def test_saving_and_loading_preserve_a_configuration(tmp_path: Path) -> None:
    for config in (Config(), changed()):
        assert from_mapping(Config, to_plain(config), "test") == config
        save_config(config, tmp_path / "config.yaml")
        assert load_config(Config, tmp_path / "config.yaml") == config
    with pytest.raises(AttributeError):
        changed().model.width = 3  # type: ignore[misc]


def test_values_are_converted_to_the_type_of_the_field_and_to_plain_values() -> None:
    plain = to_plain(changed())
    assert plain["model"]["positions"] == "rotary"
    assert plain["corpus"]["hub_splits"] == {"train": "a", "test": "b"}
    assert type(plain["corpus"]) is dict
    text = {"width": "64", "dropout": "0.2", "positions": "rotary"}
    assert from_mapping(ModelConfig, text, "x") == ModelConfig(
        width=64, dropout=0.2, positions=Positions.rotary
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": {"widht": 64}}, r"model\.widht is not a key; did you mean model\.width\?"),
        ({"modle": {"width": 64}}, r"modle is not a key"),
        ({"beam_size": 3}, r"beam_size is not a key; did you mean decoding\.beam_size\?"),
        ({"seed": 3}, r"did you mean corpus\.seed or training\.seed or decoding\.seed\?"),
        ({"training": {"max_update": 5}}, r"did you mean training\.max_updates\?"),
        ({"tracking": {"zzz": 5}}, "the keys of tracking are backend, project"),
        ({"zzz": 5}, "the keys are corpus.…, tokenizer.…"),
        ({"corpus": {"cleaning": {"max_word": 5}}}, r"did you mean corpus\.cleaning\.max_words\?"),
        ({"model": {"width": "wide"}}, "model.width"),
        ({"model": {"positions": "relative"}}, r"model\.positions: .*sinusoidal, learned, rotary"),
        ({"model": 5}, "ModelConfig"),
        ({"model": None}, "model"),
        ({"model": [1, 2]}, "ModelConfig"),
        ({"model": {"width": None}}, "model.width"),
        ({"model": {"width": {"of": 3}}}, "model.width"),
        ({"model": {"width": "${nowhere}"}}, "nowhere"),
    ],
    ids=str,
)
def test_an_invalid_value_is_reported_with_its_key(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=rf"^some file: .*{message}"):
        from_mapping(Config, values, "some file")


@pytest.mark.parametrize("key", [key for key, each in leaf_fields(Config) if is_number(each)])
def test_a_number_outside_its_bounds_is_reported_with_them(key: str) -> None:
    bounds = dict(leaf_fields(Config))[key].metadata["bounds"]
    assert len(bounds) == 2
    low, high = bounds.items()
    beyond = [low[1] - (low[0] == "at least"), high[1] + (high[0] == "at most")]
    for value in (*beyond, math.nan, math.inf, -math.inf):
        with pytest.raises(UserError) as error:
            build(key, value)
        limits = " and ".join(f"{name} {bound:,}" for name, bound in (low, high))
        assert str(error.value) == f"{key}={value} must be {limits}"


def build(key: str, value: Any) -> None:
    """Build the group of a key with a value, without conversion to the type of the field."""
    *groups, name = key.split(".")
    kind: Any = Config
    for group in groups:
        kind = type(default_of(kind.__dataclass_fields__[group]))
    kind(**{name: value})


HUB = {"source": CorpusSource.hub}


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (CorpusConfig, {"direction": "en"}, "corpus.direction=en "),
        (CorpusConfig, {"direction": "en-en"}, "corpus.direction=en-en"),
        (CorpusConfig, {"direction": "en-../de"}, "corpus.direction=en-../de"),
        (CorpusConfig, {"name": "a/b"}, "corpus.name='a/b'"),
        (CorpusConfig, {"name": ""}, "corpus.name=''"),
        (CorpusConfig, {"name": "\x1b[31m"}, "corpus.name="),
        (CorpusConfig, {"source": CorpusSource.folder}, "corpus.path is empty"),
        (CorpusConfig, {"path": "x"}, "corpus.path=x has no effect"),
        (CorpusConfig, {"num_train": 5, **HUB}, "without corpus.source=phrasebook"),
        (CorpusConfig, {"hub_splits": {"x/y": "b"}, **HUB}, "corpus.hub_splits='x/y'"),
        (
            TokenizerConfig,
            {"dropout": 0.1, "algorithm": TokenizerAlgorithm.unigram},
            "tokenizer.dropout=0.1 has no effect without tokenizer.algorithm=bpe",
        ),
        (ModelConfig, {"num_heads": 7}, "model.width=512 is not divisible by model.num_heads=7"),
        (ModelConfig, {"max_length": 40_000}, "model.max_length=40000 is too large for a width"),
        (ModelConfig, {"positions": Positions.rotary, "key_width": 5}, "an even key width, not 5"),
        (ModelConfig, {"width": 15, "num_heads": 3}, "an even model.width, not 15"),
        (OptimizerConfig, {"weight_decay": 0.1}, "without optimizer.name=adamw or muon"),
        (OptimizerConfig, {"momentum": 0.9}, "optimizer.momentum=0.9 has no effect"),
        (ScheduleConfig, {"decay_share": 0.2}, "schedule.decay_share=0.2 has no effect"),
        (ScheduleConfig, {"final_learning_rate": 1e-5}, "=cosine or warmup_stable_decay"),
        (BatchingConfig, {"tokens_per_micro_batch": 200}, "is below the longest pair of 256"),
        (BatchingConfig, {"tokens_per_micro_batch": "most"}, "is neither an integer nor auto"),
        (DecodingConfig, {"num_best": 5}, "decoding.num_best=5 is above decoding.beam_size=4"),
        (DecodingConfig, {"min_length": 9, "max_length": 5}, "decoding.min_length=9 is above"),
        (DecodingConfig, {"top_k": 3}, "decoding.top_k=3 has no effect without decoding.method="),
        (RunConfig, {"name": "../up"}, "run.name='../up'"),
        (RunConfig, {"name": ".hidden"}, "run.name='.hidden'"),
    ],
)
def test_an_invalid_field_is_reported_with_its_key(
    kind: type[Any], values: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as error:
        kind(**values)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tokenizer": {"joint": False}}, "model.tied_embeddings=three_way needs one vocabulary"),
        (
            {"model": {"max_length": 100}},
            "batching.max_source_length .* at most model.max_length=100",
        ),
        ({"schedule": {"name": "cosine"}, "training": {"max_updates": 4000}}, ".*=3999 or less"),
        (
            {"schedule": {"name": "warmup_stable_decay"}, "training": {"max_updates": 1000}},
            ".*: set schedule.warmup_updates=600 or less",
        ),
    ],
    ids=str,
)
def test_values_that_do_not_fit_together_are_reported(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^x: {message}"):
        from_mapping(Config, values, "x")


def test_every_field_has_documentation() -> None:
    groups = {field.name: type(default_of(field)) for field in fields(Config)}
    documented = {key for name, kind in groups.items() for key in leaf_docs(kind, f"{name}.")}
    assert documented == dict(leaf_fields(Config)).keys()


def test_keys_that_do_not_change_a_result_are_free() -> None:
    assert {"run.name", "tracking.backend", "training.num_threads", "corpus.path"} < set(FREE_KEYS)
    assert not {"training.seed", "decoding.beam_size", "corpus.copies"} & set(FREE_KEYS)


def test_head_widths_default_to_the_width_divided_by_the_heads() -> None:
    config = ModelConfig(width=512, num_heads=8)
    assert (config.head_key_width, config.head_value_width) == (64, 64)
    config = ModelConfig(width=512, num_heads=7, key_width=10, value_width=12)
    assert (config.head_key_width, config.head_value_width) == (10, 12)


def test_differences_are_listed_with_both_values() -> None:
    plain = to_plain(Config())
    hub = to_plain(changed())
    assert differing_values(plain, plain) == {}
    assert differing_values(plain, hub)["model.width"] == (512, 64)
    assert differing_values(plain, hub)["corpus.hub_splits.train"] == ("absent", "a")


def test_folders_and_languages() -> None:
    assert Config().run_folder == Path("outputs/runs/run")
    assert Config(run=RunConfig(folder="outputs/a/b")).run_folder == Path("outputs/a/b")
    assert Config().corpora_folder == Path("outputs/corpora")
    corpus = CorpusConfig(direction="de-fr")
    assert (corpus.source_language, corpus.target_language) == ("de", "fr")


@pytest.mark.parametrize("text", ["a: [", "- 1\n- 2", "text", "\x00"])
def test_a_damaged_file_is_reported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=str(path)):
        load_config(Config, path)
