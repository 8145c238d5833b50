"""Convert a trained model for another program.

python -m nmt.cli.export model=FOLDER format=ctranslate2
"""

import os
from enum import StrEnum
from pathlib import Path

from nmt.base.errors import UserError
from nmt.base.files import atomic_folder, check_writable
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


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments)
    folder = model_folder(arguments.model)
    model = open_model(folder, "cpu")
    default = os.path.relpath(f"{os.path.abspath(folder)}-{arguments.format}")
    out = Path(arguments.out or default)
    if out.exists() and not (out / "model.bin").is_file():
        raise UserError(f"out={out} exists and is not an earlier export; name another folder")
    check_writable(out)
    # Imported here, because it is slow to import.
    from nmt.exchange.ctranslate2 import export  # noqa: PLC0415

    with atomic_folder(out, 4 * count_parameters(model.transformer)) as temporary:
        export(model, temporary)
    print_written(sorted(out.iterdir()))


if __name__ == "__main__":
    run_command(main)
