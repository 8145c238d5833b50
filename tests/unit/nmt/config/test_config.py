import json
import math
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from nmt.base.errors import UserError
from nmt.config import (
    FREE_KEYS,
    Config,
    CorpusConfig,
    ModelConfig,
    Positions,
    RunConfig,
    TrackingConfig,
    WandbConfig,
    differing_values,
    from_mapping,
    leaf_fields,
    load_config,
    load_values,
    save_config,
    to_plain,
)


def nested(key: str, value: Any) -> dict[str, Any]:
    """A mapping with one dotted key."""
    return reduce(lambda inner, name: {name: inner}, reversed(key.split(".")), value)


def message_of(values: dict[str, Any]) -> str:
    """The error of a configuration, without the file."""
    with pytest.raises(UserError) as error:
        from_mapping(Config, values, "some file")
    return str(error.value).removeprefix("some file: ")


def changed() -> Config:
    """A configuration with non-default values of every type: numbers, text, enums, mappings."""
    return from_mapping(
        Config,
        {
            "corpus": {"source": "hub", "hub_splits": {"train": "a", "test": "1e-4"}},
            "model": {"positions": "rotary", "width": 64, "dropout": 1e-5},
            "training": {"validation_metric": "loss"},
            "batching": {"tokens_per_micro_batch": "auto"},
            "run": {"name": "änderung"},
        },
        "test",
    )


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
    assert plain["corpus"]["hub_splits"] == {"train": "a", "test": "1e-4"}
    text = {"width": "64", "dropout": "0.2", "positions": "rotary"}
    assert from_mapping(ModelConfig, text, "x") == ModelConfig(
        width=64, dropout=0.2, positions=Positions.rotary
    )
    assert from_mapping(RunConfig, {"name": 2024}, "x").name == "2024"


def test_a_key_of_an_earlier_version_is_to_be_removed_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    save_config(Config(), path)
    path.write_text(f"{path.read_text()}search:\n  trial: 0\n")
    with pytest.raises(UserError, match=r"config\.yaml: search is not a key; .*remove this key"):
        load_config(Config, path)


@pytest.mark.parametrize(
    ("stored", "wandb"),
    [
        (
            {"wandb": True, "tensorboard": True, "project": "mine", "tags": ["a"]},
            WandbConfig(enabled=True, project="mine", tags=["a"]),
        ),
        ({"wandb": False, "tensorboard": True, "project": "mine"}, WandbConfig()),
        ({"wandb": {"enabled": True}, "tensorboard": True}, WandbConfig(enabled=True)),
    ],
)
def test_earlier_keys_of_wandb_are_read(
    stored: dict[str, Any], wandb: WandbConfig, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps({"tracking": stored}))
    expected = Config(tracking=TrackingConfig(wandb=wandb, tensorboard=True))
    assert load_config(Config, path) == expected
    save_config(expected, path)
    assert load_config(Config, path) == expected


@pytest.mark.parametrize(("stored", "value"), [(True, "always"), (False, "never")])
def test_earlier_values_of_compile_are_read(stored: bool, value: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps({"training": {"compile": stored}}))
    assert load_config(Config, path).training.compile == value


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": {"widht": 64}}, "model.widht is not a key; did you mean model.width?"),
        ({"modle": {"width": 64}}, "modle is not a key"),
        ({"beam_size": 3}, "beam_size is not a key; did you mean decoding.beam_size?"),
        ({"seed": 3}, "did you mean corpus.seed or training.seed or decoding.seed?"),
        ({"training": {"max_update": 5}}, "did you mean training.max_updates?"),
        ({"tracking": {"zzz": 5}}, "the keys of tracking are wandb.enabled, "),
        ({"tracking": {"tags": ["a"]}}, "did you mean tracking.wandb.tags?"),
        ({"tracking": {"wandb": {"notes": "a"}}}, "without tracking.wandb.enabled=true: set that"),
        ({"zzz": 5}, "the keys are corpus.…, tokenizer.…"),
        ({"corpus": {"cleaning": {"max_word": 5}}}, "did you mean corpus.cleaning.max_words?"),
        ({"model": {"_target_": "os.system"}}, "model._target_ is not a key"),
        ({"model": {"width": "wide"}}, "model.width=wide: Input should be a valid integer"),
        ({"model": {"positions": "no"}}, "model.positions=no: Input should be 'sinusoidal', "),
        ({"model": 5}, "model=5: Input should be a dictionary"),
        ({"model": None}, "model=None: "),
        ({"model": {"width": None}}, "model.width=None: "),
        ({"model": {"width": {"of": 3}}}, "model.width={'of': 3}: "),
        ({"model": {"width": "${nowhere}"}}, "model.width=${nowhere}: "),
        ({"corpus": {"direction": "en"}}, "corpus.direction=en is not two different"),
        ({"corpus": {"direction": "en-en"}}, "corpus.direction=en-en"),
        ({"corpus": {"direction": "en-../de"}}, "corpus.direction=en-../de"),
        ({"corpus": {"direction": "en-pt-BR"}}, "such as en-de or en-pt_BR"),
        ({"corpus": {"direction": "en-_"}}, "corpus.direction=en-_"),
        ({"corpus": {"name": "a/b"}}, "corpus.name=a/b: must be printable, without a slash"),
        ({"corpus": {"name": ""}}, "corpus.name=: must be"),
        ({"corpus": {"name": "\x1b[31m"}}, "corpus.name=\\x1b[31m: must be"),
        ({"corpus": {"source": "hub", "hub_splits": {"x/y": "b"}}}, "corpus.hub_splits.x/y"),
        ({"run": {"name": "../up"}}, "run.name=../up: must be"),
        ({"run": {"name": ".hidden"}}, "run.name=.hidden: must be"),
        ({"corpus": {"source": "folder"}}, "corpus.path is empty"),
        ({"corpus": {"path": "x"}}, "corpus.path=x has no effect without corpus.source=folder or"),
        ({"corpus": {"source": "hub", "num_train": 5}}, "without corpus.source=phrasebook"),
        ({"optimizer": {"weight_decay": 0.1}}, "without optimizer.name=adamw or muon"),
        ({"schedule": {"final_learning_rate": 1e-5}}, "=cosine or warmup_stable_decay"),
        ({"decoding": {"top_k": 3}}, "decoding.top_k=3 has no effect without decoding.method="),
        ({"training": {"balance_weight": 0.1}}, "=0.1 has no effect without model.num_experts"),
        ({"training": {"compile": True}, "model": {"num_experts": 4}}, "model.num_experts=4"),
        ({"model": {"num_experts": 1024, "num_encoder_layers": 11}}, "at most 16,384 experts"),
        ({"model": {"num_heads": 7}}, "model.width=512 is not divisible by model.num_heads=7"),
        (
            {"model": {"architecture": "recurrent", "num_heads": 4}},
            "set that, or leave out model.num_heads or the preset that sets it",
        ),
        ({"model": {"kernel_width": 5}}, "model.architecture=convolutional or bytenet"),
        ({"model": {"architecture": "bytenet", "width": 15}}, "an even model.width, not 15"),
        ({"model": {"attention": "hard"}}, "no effect without model.architecture=recurrent"),
        (
            {"model": {"architecture": "recurrent", "num_decoder_layers": 1}},
            "model.num_decoder_layers=1 is below 2, which a recurrent model needs",
        ),
        (
            {"model": {"architecture": "recurrent"}, "training": {"compile": True}},
            "training.compile=always has no effect with model.architecture=recurrent",
        ),
        ({"model": {"max_length": 40_000}}, "model.max_length=40000 is too large for a width"),
        ({"model": {"attention_window": 512}}, "model.attention_window=512 must be below"),
        (
            {"model": {"positions": "rotary", "key_width": 5, "value_width": 5}},
            "an even key width, not 5",
        ),
        ({"model": {"width": 15, "num_heads": 3}}, "an even model.width, not 15"),
        ({"batching": {"tokens_per_micro_batch": 200}}, "=200 must be auto or at least 256"),
        ({"batching": {"tokens_per_micro_batch": "most"}}, "=most must be auto or at least 256"),
        ({"decoding": {"num_best": 5}}, "decoding.num_best=5 is above decoding.beam_size=4"),
        ({"decoding": {"min_length": 5, "trees": True}}, "decoding.min_length=5 is above 4, the"),
        ({"decoding": {"min_length": 9, "max_length": 5}}, "decoding.min_length=9 is above"),
        ({"tokenizer": {"joint": False}}, "model.tied_embeddings=three_way needs one vocabulary"),
        *(
            ({"tokenizer": {"user_symbols": [text]}}, f"tokenizer.user_symbols.0={text}: must be")
            for text in ("", "a b", "<e\u0301>", "<unk>", "<s>", "</s>", "<pad>", "<0x41>")
        ),
        ({"corpus": {"sources": {"back": {"tag": "<s>"}}}}, "tag='<s>' must be printable"),
        ({"model": {"max_length": 100}}, "batching.max_source_length and batching.max_target_"),
        ({"schedule": {"name": "cosine"}, "training": {"max_updates": 4000}}, "=3999 or less"),
        (
            {"schedule": {"name": "warmup_stable_decay"}, "training": {"max_updates": 1000}},
            "set schedule.warmup_updates=600 or less",
        ),
    ],
    ids=str,
)
def test_an_invalid_value_is_reported_with_its_key(values: dict[str, Any], message: str) -> None:
    assert message in message_of(values)


@pytest.mark.parametrize(
    "key", [key for key, one in leaf_fields(Config).items() if one.annotation in (int, float)]
)
def test_a_number_outside_its_bounds_is_reported_with_them(key: str) -> None:
    bounds = {k: v for bound in leaf_fields(Config)[key].metadata for k, v in asdict(bound).items()}
    low = bounds["ge"] - 1 if "ge" in bounds else bounds["gt"]
    high = bounds["le"] + 1 if "le" in bounds else bounds["lt"]
    for value in (low, high, math.nan, math.inf, -math.inf):
        assert message_of(nested(key, value)).startswith(f"{key}={value}: Input should be ")


def test_every_field_has_documentation() -> None:
    assert all(field.description for field in leaf_fields(Config).values())


def test_keys_that_do_not_change_a_result_are_free() -> None:
    assert {"run.name", "tracking.wandb.tags", "training.num_threads", "corpus.path"} < set(
        FREE_KEYS
    )
    assert not {"training.seed", "decoding.beam_size", "corpus.name"} & set(FREE_KEYS)


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
    corpus = CorpusConfig(direction="zh_Hans-pt_BR")
    assert (corpus.source_language, corpus.target_language) == ("zh_Hans", "pt_BR")


def test_values_of_a_file_are_taken_literally(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("a: '&x *y !!z'\nb: ${oc.env:HOME}\nc: ???  # &x\n", encoding="utf-8")
    assert load_values(path) == {"a": "&x *y !!z", "b": "${oc.env:HOME}", "c": "???"}
    path.write_text("a: [2026-11-26, 2026-13-45, 2026-11-26 10:00:00, 1]\n", encoding="utf-8")
    assert load_values(path) == {"a": ["2026-11-26", "2026-13-45", "2026-11-26 10:00:00", 1]}
