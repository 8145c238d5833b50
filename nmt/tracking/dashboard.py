"""The layout of a workspace of wandb for the runs of this program."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_LAYOUT: dict[str, list[list[str]]] = yaml.safe_load(
    Path(__file__).with_name("dashboard.yaml").read_text(encoding="utf-8")
)


def describe() -> Iterator[str]:
    """Describe each section of the layout in a line."""
    for section, panels in _LAYOUT.items():
        texts = []
        for kind, *keys in panels:
            axis = f" by {keys.pop(0)}" if kind == "line" else ""
            texts.append(f"{' and '.join(keys) or kind}{axis.replace('_absolute_runtime', 'time')}")
        yield f"{section}: {', '.join(texts)}"


def workspace(entity: str, project: str) -> Any:
    """Return a `wandb_workspaces.workspaces.Workspace`, which is not saved yet."""
    import wandb_workspaces.reports.v2 as wr  # noqa: PLC0415 - an extra
    import wandb_workspaces.workspaces as ws  # noqa: PLC0415

    def panel(kind: str, *keys: str) -> Any:
        match kind:
            case "line":
                return wr.LinePlot(title=" and ".join(keys[1:]), x=keys[0], y=list(keys[1:]))
            case "table":
                return wr.WeavePanelSummaryTable(table_name=keys[0])
            case "media":
                return wr.MediaBrowser(media_keys=list(keys))
            case _:
                return wr.RunComparer(diff_only="split")

    sections = [
        ws.Section(name=name, panels=[panel(*each) for each in panels], is_open=True)
        for name, panels in _LAYOUT.items()
    ]
    settings = ws.WorkspaceSettings(x_axis="update")
    return ws.Workspace(
        entity=entity, project=project, name="nmt", sections=sections, settings=settings
    )
