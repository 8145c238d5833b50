"""Convert a trained model for another program.

python -m nmt.cli.export model=FOLDER format=ctranslate2
"""

import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from nmt.base.errors import UserError
from nmt.base.files import atomic_folder, check_writable, read_record, write_json, written_to
from nmt.base.layout import EXPORT_FILE
from nmt.cli.arguments import parse_arguments
from nmt.cli.common import run_command
from nmt.cli.models import model_folder, open_model
from nmt.config import checked_dataclass
from nmt.model.transformer import count_parameters
from nmt.runs.log import print_written

Format = StrEnum("Format", "ctranslate2")


@checked_dataclass
class Arguments:
    """Arguments of the command."""

    model: str = ""
    """Model or run folder (default: the last completed run)."""
    format: Format = Format.ctranslate2
    """Program that the model is converted for."""
    out: str = ""
    """Output folder; an earlier export there is replaced (default: the model folder's name with
    -ctranslate2 at its end)."""


@dataclass(frozen=True)
class _Export:
    """`export.json`: the files of an exported model, which the next export replaces."""

    files: list[str]


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments)
    folder = model_folder(arguments.model)
    model = open_model(folder, "cpu")
    default = os.path.relpath(f"{os.path.abspath(folder)}-{arguments.format}")
    out = Path(arguments.out or default)
    _check_replaceable(out)
    check_writable(out)
    out = written_to(out)
    # Imported here, because it is slow to import.
    from nmt.exchange.ctranslate2 import export  # noqa: PLC0415

    with atomic_folder(out, 4 * count_parameters(model.transformer)) as temporary:
        export(model, temporary)
        names = sorted(path.name for path in temporary.iterdir())
        write_json(temporary / EXPORT_FILE, asdict(_Export([*names, EXPORT_FILE])))
    print_written(sorted(out.iterdir()))


def _check_replaceable(out: Path) -> None:
    """Raise UserError unless the folder is new, or has nothing but the files of an export."""
    if not os.path.lexists(out):
        return
    advice = "name another folder with out="
    if not out.is_dir() or not os.path.lexists(out / EXPORT_FILE):
        raise UserError(f"out={out} exists and is not an earlier export; {advice}")
    exported = read_record(out / EXPORT_FILE, _Export, advice).files
    for path in sorted(out.iterdir()):
        if path.name not in exported or path.is_dir():
            raise UserError(f"{path} is not from an export and would be removed; {advice}")


if __name__ == "__main__":
    run_command(main)
