"""The layout of a workspace of wandb for the runs of this program."""

from collections.abc import Iterator
from typing import Any

_TIME = "_absolute_runtime"  # since the start of the run
_LAYOUT: dict[str, list[tuple[str, ...]]] = {
    "quality": [
        ("line", "update", "valid/bleu"),
        ("line", "train/target_tokens", "valid/bleu"),
        ("line", "update", "valid/perplexity"),
        ("table", "test/scores"),
    ],
    "loss": [
        ("line", "update", "train/loss", "valid/loss"),
        ("line", "train/target_tokens", "valid/loss"),
        ("line", "update", "train/gradient_norm"),
        ("line", "update", "train/learning_rate"),
        ("line", "update", "train/skipped_updates"),
    ],
    "speed": [
        ("line", "update", "train/target_tokens_per_second"),
        ("line", "update", "train/seconds"),
        ("line", _TIME, "system/gpu.0.gpu", "system/cpu"),
        ("line", _TIME, "system/gpu.0.memoryAllocated", "system/memory_percent"),
    ],
    "data": [
        ("line", "update", "epoch"),
        ("line", "update", "train/share_not_padding"),
        ("configuration",),
        ("media", "report"),
    ],
    "translations": [
        ("table", "translations/sentences"),
        ("media", *(f"translations/attention_{number}" for number in (1, 2, 3))),
    ],
}
"""Panels of each section: their kind, the x axis of a line plot, and keys of wandb's records."""


def describe() -> Iterator[str]:
    """Describe each section of the layout in a line."""
    for section, panels in _LAYOUT.items():
        texts = []
        for kind, *keys in panels:
            axis = f" by {keys.pop(0)}".replace(_TIME, "time") if kind == "line" else ""
            texts.append(f"{' and '.join(keys) or kind}{axis}")
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
