"""Adapt a model to text of your own, and compare it with the original model.

nmt adapt initial_model=FOLDER data=my.tmx [general=FOLDER] [key=value] …

The preset conf/experiment/adapt.yaml has the settings; other keys change them, as for `nmt train`:
optimizer.lora_rank=16, cleaning=strict, run.name=NAME. The same command continues an interrupted
run. See docs/guides/adapt-a-public-model.md.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from nmt.base.errors import UserError
from nmt.base.outputs import Outputs
from nmt.cli.application import application, from_composed, schema
from nmt.cli.compose import to_config
from nmt.cli.models import check_length_penalty
from nmt.config import Config, checked_dataclass, leaf_fields, option, to_plain


@checked_dataclass
class _Arguments:
    """Keys of the command, besides those of the configuration."""

    initial_model: str
    """Model or run folder to start from: trained here, or imported."""
    data: str
    """Text to adapt to: TMX or TSV file, folder with train.<language>, or the common beginning of
    two files. Without valid, pairs are held out for it, and for a test set if there is none."""
    general: str = ""
    """General text in any of these formats, which is mixed in so that the model forgets less."""
    general_weight: float = option(1.0, gt=0, le=1_000)
    """Number of pairs of `general` for each pair of `data`."""
    general_test: str = ""
    """General test set: the common beginning of two files (default: the test set `test` of
    `general`, or its first one)."""
    glossary: str = ""
    """Terms, as for `translate`, whose forms in the text are found and stored with the model; test
    sets are also translated with them."""
    out: str = ""
    """Folder for a copy of the adapted model (the run folder contains the model, too)."""


@checked_dataclass
class _Keys(_Arguments, Config):
    pass


ConfigStore.instance().store(name="adapt_schema", node=schema(_Arguments))


@application(_Keys, primary="adapt")
def main(composed: DictConfig) -> None:
    """Adapt a model."""
    from nmt.runs.adapt import GENERAL, adapt, general_test_set
    from nmt.runs.job_names import task_overrides
    from nmt.training import distributed

    OmegaConf.set_struct(composed, False)
    own = list(leaf_fields(_Arguments))
    arguments: _Arguments = from_composed(_Arguments, OmegaConf.masked_copy(composed, own))
    for key in own:
        del composed[key]
    overrides = OverridesParser.create().parse_overrides(task_overrides(HydraConfig.get()))
    given = {override.key_or_group for override in overrides}
    if distributed.is_launched():
        raise UserError("adapt cannot be combined with torchrun: use training.num_processes=N")
    if "general_weight" in given and not arguments.general:
        raise UserError("general_weight= has no effect without general=")
    settings = _settings(arguments, given)
    changes = {key: value for key, value in settings.items() if key not in given}
    if arguments.general:
        weights = {composed.corpus.name: 1.0, GENERAL: arguments.general_weight}
        changes["corpus.mixing.weights"] = {**weights, **composed.corpus.mixing.weights}
    config = to_config(composed, changes)
    check_length_penalty(config.decoding, "decoding.length_penalty" in given)
    out = Outputs.folder(Path(arguments.out)) if arguments.out else nullcontext()
    with out as outputs:
        glossary = Path(arguments.glossary) if arguments.glossary else None
        adapt(config, general_test_set(config, arguments.general_test), outputs, glossary)


def _settings(arguments: _Arguments, given: set[str]) -> dict[str, Any]:
    """Return the settings of the model folder and of the text, by their keys.

    Args:
        arguments: the keys of the command.
        given: the keys of the configuration that are on the command line.
    """
    from nmt.evaluation.systems import open_system
    from nmt.runs.adapt import GENERAL, check_languages
    from nmt.trained_model import load_trained_model

    for key, argument in (("corpus.path", "data"), ("training.initial_model", "initial_model")):
        if key in given:
            raise UserError(f"{key} is set by {argument}=; remove it")
    system = open_system(Path(arguments.initial_model))
    model = load_trained_model(system.model)
    for name in filter(None, (arguments.data, arguments.general)):
        check_languages(Path(name), system.direction, system.model)
    stem = Path(arguments.data).resolve().name.partition(".")[0]
    joint, longest = model.config.joint_vocabulary, model.config.max_source_length
    values = {
        "corpus.path": arguments.data,
        "corpus.direction": model.config.direction,
        "tokenizer.path": str(model.source_tokenizer.path if joint else system.model),
        "tokenizer.joint": joint,
        "batching.max_source_length": longest,
        "batching.max_target_length": longest,
        "training.initial_model": str(system.model),
        "run.name": f"{system.name}_{stem}".replace("/", "_"),
        **{f"model.{key}": value for key, value in to_plain(model.config.model).items()},
        **{f"decoding.{key}": value for key, value in to_plain(model.config.decoding).items()},
    }
    if arguments.general:
        others = [key for key in given if key.startswith("corpus.sources.")]
        if others and not any(key.startswith("corpus.mixing.") for key in given):
            raise UserError(
                f"{others[0]}: with general=, give corpus.mixing.weights of all sources"
            )
        values[f"corpus.sources.{GENERAL}.path"] = arguments.general
    return values
