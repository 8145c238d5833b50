"""From Hydra's composed configuration to our dataclass; the only door to Hydra."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nmt.cli.common import named_disk_faults, run_command
from nmt.config import Config, from_mapping, writable_schema
from nmt.errors import UserError

CONFIG_FOLDER = Path(__file__).resolve().parents[2] / "conf"

_MAX_FOLDER_NAME = 120

# What was on the command line; a scheduler's job has another one, but the environment comes along.
_COMMAND_LINE = "NMT_COMMAND_LINE"


def combination(overrides: list[str]) -> str:
    """Folder name of one job of a sweep: what varies in it, and nothing else.

    Overrides that stand on the command line as they are hold for all jobs. A name too long for a
    file system, or one that a path would break, is cut and marked with its hash.
    """
    given = json.loads(os.environ.get(_COMMAND_LINE, "null")) or sys.argv
    constant = {argument.lower() for argument in given}  # Hydra writes true as True
    varying = ",".join(sorted(one for one in overrides if one.lower() not in constant))
    safe = varying.replace("/", "_") or "all"
    if safe == varying and len(safe) <= _MAX_FOLDER_NAME:
        return safe
    digest = hashlib.sha256(varying.encode()).hexdigest()[:8]
    return f"{safe[:_MAX_FOLDER_NAME]}-{digest}" if varying else safe


OmegaConf.register_new_resolver("combination", combination, replace=True)
ConfigStore.instance().store(name="schema", node=writable_schema(Config))


def to_config(composed: DictConfig) -> Config:
    """The dataclass of a composed configuration; a job of a sweep gets a folder of its own.

    Raises:
        UserError: values that do not fit together.
    """
    plain = OmegaConf.to_container(composed, resolve=True)
    assert isinstance(plain, dict)
    named = {str(key): value for key, value in plain.items()}
    config: Config = from_mapping(Config, named, "configuration")
    hydra_config = HydraConfig.get() if HydraConfig.initialized() else None
    if hydra_config is not None and hydra_config.mode is RunMode.MULTIRUN:
        folder = Path(hydra_config.sweep.dir) / hydra_config.sweep.subdir
        config = replace(config, run=replace(config.run, folder=str(folder)))
    return config


def compose_config(overrides: Sequence[str], values: Mapping[str, str]) -> Config:
    """A configuration that no command line names.

    Args:
        overrides: presets and keys, in the form of the command line.
        values: dotted keys and what they are set to, as it stands: no character is special.

    Raises:
        UserError: an unknown key or preset, or values that do not fit together.
    """
    try:
        with hydra.initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
            composed = hydra.compose("config", list(overrides))
        for key, value in values.items():
            OmegaConf.update(composed, key, value)
        return to_config(composed)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(_one_message(error, overrides)) from None


class Refusal(BaseException):
    """A UserError on its way through Hydra, which has words of its own about an Exception."""


def run_composed(command: Callable[[Config], float | None]) -> None:
    """Compose the configuration from `conf/` and the command line, and run `command` on it."""
    # Hydra would print its own traceback and leave with 1: we want the exception itself.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    os.environ[_COMMAND_LINE] = json.dumps(sys.argv)

    @hydra.main(version_base="1.3", config_path=str(CONFIG_FOLDER), config_name="config")
    def main(composed: DictConfig) -> float | None:
        try:
            with named_disk_faults():
                return command(to_config(composed))
        except UserError as error:
            raise Refusal(str(error)) from None

    def compose_and_run() -> None:
        try:
            main()
        except Refusal as refusal:
            raise UserError(str(refusal)) from None
        except (HydraException, OmegaConfBaseException) as error:
            raise UserError(_one_message(error, sys.argv[1:])) from None

    run_command(compose_and_run)


# What Hydra and OmegaConf add below the sentence that says what is wrong.
_NOISE = ("To append", "full_key", "reference_type", "object_type", "Config search", "provider=")


def _one_message(error: BaseException, overrides: Sequence[str]) -> str:
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    lines = [
        line.strip()
        for found in causes
        if isinstance(found, HydraException | OmegaConfBaseException)
        for line in str(found).splitlines()
    ]
    told = dict.fromkeys(line for line in lines if line and not line.startswith(_NOISE))
    sentences = [line for line in told if "$VALUE" not in line]
    return f"{' '.join(sentences)} (command line: {' '.join(overrides)})"
