"""Write a workspace of Weights & Biases with the charts and tables of the runs.

nmt dashboard [project=NAME] [entity=NAME]

Without a login, the command prints what it would write and how to log in.
"""

import os

from nmt.base.errors import UserError, first_line
from nmt.base.log import print_line
from nmt.base.system import require_package
from nmt.cli.application import application
from nmt.config import checked_dataclass
from nmt.tracking.dashboard import describe, workspace
from nmt.tracking.names import project_name

_TIMEOUT_SECONDS = 20


@checked_dataclass
class _Arguments:
    project: str = ""
    """Project of the runs (default: WANDB_PROJECT, or nmt)."""
    entity: str = ""
    """User or team that the project belongs to (default: WANDB_ENTITY, or that of the login)."""


@application(_Arguments)
def main(arguments: _Arguments) -> None:
    """Run the command."""
    require_package("make dashboard", "wandb_workspaces", "tracking")
    os.environ.setdefault("WANDB_SILENT", "true")
    import wandb

    project = project_name(arguments.project)
    is_offline = os.environ.get("WANDB_MODE") in ("offline", "disabled")
    try:
        has_login = not is_offline and wandb.login(prompt=False, verify=False)
    except Exception as error:  # such as an API key of the wrong form
        raise UserError(f"wandb: {first_line(error)}") from None
    if not has_login:
        print_line(f"a workspace of project {project} would have the sections")
        for line in describe():
            print_line(f"  {line}")
        print_line("wandb is offline or not logged in: run `wandb login`, then this command again")
        return
    try:
        entity = arguments.entity or os.environ.get("WANDB_ENTITY")
        entity = entity or wandb.Api(timeout=_TIMEOUT_SECONDS).default_entity
        saved = workspace(entity, project).save()
    except Exception as error:  # wandb raises errors of many libraries
        raise UserError(f"wandb: the workspace is not written: {first_line(error)}") from None
    print_line(f"written: {saved.url}")
