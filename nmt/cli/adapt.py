"""Adapt a model to text of your own, and compare it with the original model.

python -m nmt.cli.adapt model=FOLDER data=my.tmx [general=FOLDER] [key=value] …

The preset conf/experiment/adapt.yaml has the settings; other arguments change them, as for
`nmt.cli.train`: optimizer.lora_rank=16, cleaning=strict, run.name=NAME. The same command continues
an interrupted run. See docs/adapting.md.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from nmt.base.errors import UserError
from nmt.base.outputs import Outputs
from nmt.cli.common import HELP_FLAGS, parse_arguments, run_command
from nmt.cli.compose import compose_config
from nmt.cli.models import check_length_penalty
from nmt.config import Config, checked_dataclass, leaf_fields, option, to_plain
from nmt.evaluation.systems import open_system
from nmt.runs.adapt import GENERAL, adapt, check_languages, general_test_set
from nmt.trained_model import load_trained_model
from nmt.training import distributed


@checked_dataclass
class _Arguments:
    """Arguments of the command, besides the keys of the configuration."""

    model: str
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
    out: str = ""
    """Folder for a copy of the adapted model (the run folder contains the model, too)."""


def main() -> None:
    """Run the command."""
    known = leaf_fields(_Arguments).keys() | HELP_FLAGS
    own = [argument for argument in sys.argv[1:] if argument.partition("=")[0] in known]
    changes = [argument for argument in sys.argv[1:] if argument not in own]
    arguments = parse_arguments(_Arguments, own)
    if distributed.is_launched():
        raise UserError("adapt cannot be combined with torchrun: use training.num_processes=N")
    if "general_weight" in {one.partition("=")[0] for one in own} and not arguments.general:
        raise UserError("general_weight= has no effect without general=")
    config = _configuration(arguments, changes)
    out = Outputs.folder(Path(arguments.out)) if arguments.out else nullcontext()
    with out as outputs:
        adapt(config, general_test_set(config, arguments.general_test), outputs)


def _configuration(arguments: _Arguments, changes: Sequence[str]) -> Config:
    """Compose the preset, the properties of the model folder, and the changes of the user."""
    system = open_system(Path(arguments.model))
    model = load_trained_model(system.model)
    for name in filter(None, (arguments.data, arguments.general)):
        check_languages(Path(name), system.direction, system.model)
    stem = Path(arguments.data).resolve().name.partition(".")[0]
    changed = dict(one.lstrip("+").split("=", 1) for one in changes if "=" in one)
    for key, argument in (("corpus.path", "data"), ("training.initial_model", "model")):
        if key in changed:
            raise UserError(f"{key} is set by {argument}=; remove {key}={changed[key]}")
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
        others = [key for key in changed if key.startswith("corpus.sources.")]
        if others and not any(key.startswith("corpus.mixing.") for key in changed):
            raise UserError(
                f"{others[0]}: with general=, give corpus.mixing.weights of all sources"
            )
        values[f"corpus.sources.{GENERAL}.path"] = arguments.general
        values["corpus.mixing.weights"] = f"{{{GENERAL}: {arguments.general_weight:g}}}"
    given = [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in values.items()
    ]
    config = compose_config(["experiment=adapt", *given, *changes])
    check_length_penalty(config.decoding, "decoding.length_penalty" in changed)
    if not arguments.general:
        return config
    corpus, mixing = config.corpus, config.corpus.mixing
    weights = {corpus.name: 1.0, **mixing.weights}
    return replace(config, corpus=replace(corpus, mixing=replace(mixing, weights=weights)))


if __name__ == "__main__":
    run_command(main)
