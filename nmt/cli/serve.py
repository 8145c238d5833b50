"""Serve models: a web page and the HTTP API of LibreTranslate.

nmt serve                                     the last completed run at http://127.0.0.1:8000
nmt serve model="A B" port=9000               two models, of one direction or of several

The page and the API need `make install-serve`. docs/guides/export-and-serve.md has examples.
"""

import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.base.errors import UserError, missing
from nmt.base.log import print_line, set_up_logging
from nmt.cli.application import application
from nmt.cli.common import parse_folders
from nmt.cli.models import TranslatorArguments, open_model
from nmt.config import checked_dataclass, option
from nmt.config.serving import ServingLimits

if TYPE_CHECKING:
    from nmt.trained_model import TrainedModel
    from nmt.translation.translator import Translator


@checked_dataclass
class _Arguments(TranslatorArguments, ServingLimits):
    model: str = ""
    """Model or run folders, separated by blanks; of several for a direction, the first is the
    default (default: the last completed run)."""
    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0 lets other machines connect."""
    port: int = option(8000, ge=0, le=65_535)
    """Port to listen at; 0 takes a free one."""

    def served_translator(self, model: "TrainedModel", folder: Path, num_best: int) -> "Translator":
        """Make a translator that returns this number of translations."""
        from dataclasses import replace

        search = {**self.decoding, "num_best": num_best}
        return replace(self, decoding=search).translator(model, folder)


@application(_Arguments)
def main(arguments: _Arguments) -> None:
    """Run the command."""
    try:
        from nmt.server.app import make_app
        from nmt.server.running import serve
    except ImportError as error:
        raise UserError(f"{missing(error)}; run `make install-serve`") from None
    from nmt.evaluation.systems import find_model, open_systems
    from nmt.server.languages import ServedModel
    from nmt.server.worker import Worker

    set_up_logging()
    with _listening(arguments.host, arguments.port) as listener:
        served = []
        folders = parse_folders(arguments.model) or [find_model()]
        for system in open_systems(folders, {}):
            model = open_model(system.model, arguments.device)
            translator = partial(arguments.served_translator, model, system.model)
            worker = Worker(model, system.model, translator, arguments.max_waiting)
            served.append(ServedModel(system.name, *model.config.languages, worker))
        app = make_app(served, arguments)
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        print_line(f"serving at http://{shown}:{port}/ (Ctrl-C ends)")
        serve(app, listener)


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; UserError if the address is not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"host={host}, port={port}: cannot listen there: {reason}; choose another"
        ) from None
