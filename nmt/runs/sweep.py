"""Rank the runs of a sweep on validation."""

import sys
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.console import Console

from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.evaluation.tables import empty_table
from nmt.runs import experiment

_COLUMNS = ("combination", "valid_bleu", "valid_loss", "test_bleu", "updates")


class RankedTable(Callback):
    """Hydra callback that prints and writes the ranking at the end of `--multirun`."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Print the table and write `ranking.tsv`."""
        del kwargs
        hydra_config = config.hydra if "hydra" in config else HydraConfig.get()
        folder = Path(hydra_config.sweep.dir)
        rows = ranked_runs(folder)
        table = empty_table(f"{folder}, ranked by BLEU on validation", *_COLUMNS)
        for row in rows:
            table.add_row(*row)
        console = Console(stderr=True, highlight=False)
        console.print(table)
        path = folder / "ranking.tsv"
        try:
            write_lines(path, ["\t".join(row) for row in [_COLUMNS, *rows]])
        except UserError as error:
            # Hydra turns an Exception of a callback into a warning.
            print(f"error: {error}", file=sys.stderr)
            raise SystemExit(2) from None
        console.print(f"written:\n  {path}", markup=False, soft_wrap=True)


def ranked_runs(folder: Path) -> list[tuple[str, ...]]:
    """Return one row per completed run of a sweep, best validation BLEU first."""
    rows = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if experiment.is_complete(path):
            result = experiment.read_result(path)
            bleu, loss = result["valid"]["bleu"], result["valid"]["loss"]
            tests = [f"{table['bleu']['score']:.2f}" for table in result["test_sets"].values()]
            cells = (f"{bleu:.2f}", f"{loss:.4f}", *(tests or [""])[:1], str(result["updates"]))
            rows.append((-bleu, loss, (path.name, *cells)))
    return [row for _, _, row in sorted(rows)]
