"""Tracking with TensorBoard, in the run folder."""

import html
from collections.abc import Mapping, Sequence

from nmt.config import Config, to_yaml
from nmt.tracking.tracker import SCORE_COLUMNS, SENTENCE_COLUMNS, CompletedRun, Tracker, Validation

FOLDER = "tensorboard"


class TensorboardTracker(Tracker):
    """Writes event files.

    Args:
        config: the experiment.
        last_update: TensorBoard drops what was recorded after it, because a resumed run repeats it.
    """

    def __init__(self, config: Config, last_update: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra

        # A run that was killed before its first checkpoint repeats everything.
        first = last_update + 1 if last_update else 0
        self._writer = SummaryWriter(str(config.run_folder / FOLDER), purge_step=first)
        if not last_update:
            self._writer.add_text("configuration", f"```\n{to_yaml(config)}```", 0)

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, update)

    def validation(self, update: int, validation: Validation) -> None:
        """Add points, a table of sentences and the pictures."""
        super().validation(update, validation)
        rows = [sentence.row for sentence in validation.sentences]
        table = markdown_table(SENTENCE_COLUMNS, rows)
        self._writer.add_text("translations/sentences", table, update)
        for number, picture in enumerate(validation.pictures, start=1):
            name = f"translations/attention_{number}"
            self._writer.add_image(name, picture.pixels, update, dataformats="HWC")
        self._writer.flush()

    def alert(self, update: int, title: str, text: str) -> None:
        """Add a text."""
        self._writer.add_text(f"alerts/{title}", html.escape(text), update)

    def completed(self, run: CompletedRun) -> None:
        """Add the scores as points and as a table."""
        update = run.result["updates"]
        self.log(update, run.metrics)
        self._writer.add_text("test/scores", markdown_table(SCORE_COLUMNS, run.scores), update)

    def flush(self) -> None:
        """Write all records to disk."""
        self._writer.flush()

    def close(self, has_failed: bool = False) -> None:  # noqa: ARG002 - it has no status
        """Close the file."""
        self._writer.close()


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table in which any text is shown as it is."""
    lines = [columns, ["---"] * len(columns), *(map(_cell, row) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    escaped = html.escape("" if value is None else " ".join(str(value).split()))
    return "".join(f"&#{ord(c)};" if c in r"\`*_{}[]()#+-.!|~" else c for c in escaped)
