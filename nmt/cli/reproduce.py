"""Train the seeds of a known score, and compare the mean with the accepted range.

nmt reproduce result=multi30k_en_de data=FOLDER

Exit status: 0 if the mean over the seeds is within the accepted range, or with measure=true; 1 if
the mean is outside; 2 if the command could not be carried out.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.base.errors import UserError
from nmt.base.log import print_line
from nmt.cli.application import CONFIG_FOLDER, application, group
from nmt.cli.compose import compose_config
from nmt.config import (
    FREE_KEYS,
    Config,
    DecodingConfig,
    RunConfig,
    TrackingConfig,
    TrainingConfig,
    checked_dataclass,
    flattened,
)

if TYPE_CHECKING:
    from nmt.runs.reproduce import Result

# Keys that are refused although they are in `FREE_KEYS`: each result has runs of its own.
_OWN_KEYS = ("run.name", "run.folder", "run.accept_changes", "run.dry_run")

# A table of unknown origin must not set where files are written or what is sent to a server.
_NOT_IN_A_RECIPE = ("run", "tracking", "hydra")


@checked_dataclass
class _Arguments:
    result: str
    """Name of a row of the table."""
    data: str = ""
    """Folder with the files of the row, or with the parquet files of its data set of the Hugging
    Face hub (default: download)."""
    measure: bool = False
    """Record the scores without a verdict, for rows without an accepted range."""
    table: str = str(CONFIG_FOLDER / "results.yaml")
    """YAML file with the rows."""
    training: dict[str, Any] = group(TrainingConfig)
    """Keys that do not change the result, such as num_processes."""
    run: dict[str, Any] = group(RunConfig)
    """Keys that do not change the result, such as outputs."""
    decoding: dict[str, Any] = group(DecodingConfig)
    """Keys that do not change the result, such as batch_size."""
    tracking: dict[str, Any] = group(TrackingConfig)
    """All keys."""


@application(_Arguments)
def main(arguments: _Arguments) -> None:
    """Run the command."""
    from nmt.runs.reproduce import check_data, find_result, reproduce
    from nmt.training import distributed

    if distributed.is_launched():
        raise UserError("reproduce cannot be combined with torchrun: it trains a run for each seed")
    result = find_result(Path(arguments.table), arguments.result)
    print_line(f"{result.name}: {result.about}")
    for anchor in result.anchors:
        print_line(f"published: {anchor.score:g}, {anchor.form} ({anchor.citation})")
    if not arguments.measure:
        result.require_band()
    print_line(check_data(result, arguments.data))
    config = _configuration(result, arguments)
    if not reproduce(result, config, is_judged=not arguments.measure):
        raise SystemExit(1)


def _configuration(result: "Result", arguments: _Arguments) -> Config:
    """Compose the configuration of a row; refuse keys of the user that could change its result."""
    for override in result.overrides:
        if override.lstrip("+~").startswith(_NOT_IN_A_RECIPE) or "${" in override:
            raise UserError(
                f"{result.name}: overrides: {override} is not part of a recipe; remove it from the"
                " table, and set it on the command line"
            )
    groups = ("training", "run", "decoding", "tracking")
    values = flattened({name: getattr(arguments, name) for name in groups})
    for key, value in values.items():
        if key not in FREE_KEYS or key in _OWN_KEYS:
            raise UserError(
                f"{key}={value} cannot be changed here: the row {result.name} or this command sets"
                " it; edit the row, or use nmt train"
            )
    values["run.name"] = f"reproduce_{result.name}"
    if arguments.data:
        values["corpus.path"] = arguments.data
    return compose_config([f"experiment={result.experiment}", *result.overrides], values)
