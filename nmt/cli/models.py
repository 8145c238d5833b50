"""Arguments that select a model, a device, an engine and a search."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.base.errors import UserError
from nmt.base.log import print_line
from nmt.cli.application import group
from nmt.config import (
    SAMPLING_KEYS,
    DecodingConfig,
    EngineName,
    LengthPenalty,
    checked_dataclass,
    from_mapping,
    to_plain,
)

if TYPE_CHECKING:
    from nmt.trained_model import TrainedModel
    from nmt.translation.translator import Translator


@checked_dataclass
class ModelArguments:
    """Arguments of commands that use one model."""

    model: str = ""
    """Model or run folder (default: the last completed run)."""
    device: str = ""
    """Device: cpu, cuda or cuda:NUMBER (default: cuda if available)."""
    decoding: dict[str, Any] = group(DecodingConfig)
    """Settings of the search (default: those in config.yaml of the model folder)."""

    def decoding_config(self, model: "TrainedModel") -> DecodingConfig:
        """Return the search settings of the model with the changes of the user."""
        own = to_plain(model.config.decoding)
        if self.decoding.get("method", own["method"]) != own["method"]:
            # With another method, the model's sampling keys have no effect and would be refused.
            own = {key: value for key, value in own.items() if key not in SAMPLING_KEYS}
        values = {**own, **self.decoding}
        config: DecodingConfig = from_mapping(DecodingConfig, values, "arguments", "decoding.")
        check_length_penalty(config, "length_penalty" in self.decoding)
        return config


@checked_dataclass
class TranslatorArguments(ModelArguments):
    """Arguments of commands that also choose the program that searches."""

    engine: EngineName = EngineName.torch
    """Program that searches with the model's weights; auto is ctranslate2 where `nmt evaluate
    engine=auto` saw that it translates like torch."""
    compute_type: str = ""
    """engine=ctranslate2: arithmetic, such as float32 or int8 (default: float32)."""
    glossary: str = ""
    """Terms to be used: TSV or CSV with a source term and its translation per line, or TBX."""

    def translator(
        self, model: "TrainedModel", folder: Path, others: "Sequence[TrainedModel]" = ()
    ) -> "Translator":
        """Make a translator of the model in `folder`, or of an ensemble with others."""
        from nmt.exchange.engines import open_engine
        from nmt.translation.glossary import open_glossary
        from nmt.translation.translator import Translator

        config = self.decoding_config(model)
        engine = open_engine(self.engine, self.compute_type, model, config, others, folder)
        translator = Translator(model, config, engine)
        if not self.glossary:
            return translator
        return translator.with_glossary(
            open_glossary(Path(self.glossary), [model, *others], folder)
        )


def model_folder(name: str) -> Path:
    """Return the model folder of a model or run; an empty name means the last completed run."""
    from nmt import trained_model
    from nmt.evaluation.systems import find_model

    return trained_model.model_folder(Path(name)) if name else find_model()


def open_model(folder: Path, device: str) -> "TrainedModel":
    """Load a model and print its folder and direction.

    Raises:
        UserError: the device is not available, or the folder is damaged.
    """
    import torch

    from nmt import trained_model

    gpus = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    available = ["cuda", "cpu", *gpus] if torch.cuda.is_available() else ["cpu"]
    if device and device not in available:
        raise UserError(f"device={device} is not available; choose {', '.join(available)}")
    model = trained_model.load_trained_model(folder, torch.device(device or available[0]))
    path, here = folder.resolve(), Path.cwd()  # `latest` is a link
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    print_line(f"model: {shown} ({model.config.direction})")
    return model


def check_length_penalty(config: DecodingConfig, is_given: bool) -> None:
    """Raise UserError if `length_penalty` is given, but the kind of penalty does not use it."""
    kind = config.length_penalty_kind
    if is_given and kind is not LengthPenalty.gnmt:
        raise UserError(
            f"decoding.length_penalty has no effect with length_penalty_kind={kind.name};"
            " add decoding.length_penalty_kind=gnmt"
        )


def check_languages(direction: str, source: Path, target: Path) -> None:
    """Raise a UserError if the endings of two files are languages, but not those of `direction`."""
    endings = f"{source.suffix[1:]}-{target.suffix[1:]}"
    if endings != direction and re.fullmatch("[a-z]{2}-[a-z]{2}", endings):
        raise UserError(
            f"{source} and {target} are {endings} by their names, but the model translates"
            f" {direction}; name another model with model=, or rename the files"
        )
