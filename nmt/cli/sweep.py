"""The ranked table that a sweep ends with."""

from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.table import Table

from nmt.cli.common import console, name_files
from nmt.cli.compose import Refusal
from nmt.errors import UserError
from nmt.files import write_lines
from nmt.training import experiment


class RankedTable(Callback):
    """Hydra's callback at the end of `--multirun`: ranks the combinations on validation."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Print the table and write `ranking.tsv`."""
        del kwargs
        hydra_config = config.hydra if "hydra" in config else HydraConfig.get()
        folder = Path(hydra_config.sweep.dir)
        rows = ranked_runs(folder)
        console.print(_table(folder, rows))
        header = "combination\tvalid_bleu\tvalid_loss\ttest_bleu\tupdates"
        lines = ["\t".join(str(cell) for cell in row.values()) for row in rows]
        try:
            write_lines(folder / "ranking.tsv", [header, *lines])
        except UserError as error:
            # Hydra turns a callback's Exception into a warning.
            raise Refusal(str(error)) from None
        name_files([folder / "ranking.tsv"])


def ranked_runs(folder: Path) -> list[dict[str, Any]]:
    """One row a completed run below a sweep's folder, best validation BLEU first."""
    rows = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if not experiment.is_complete(path):
            continue
        result = experiment.read_result(path)
        first_test = next(iter(result["test_sets"].values()), None)
        rows.append(
            {
                "combination": path.name,
                "valid_bleu": f"{result['valid']['bleu']:.2f}",
                "valid_loss": f"{result['valid']['loss']:.4f}",
                "test_bleu": f"{first_test['bleu']['score']:.2f}" if first_test else "",
                "updates": result["updates"],
            }
        )
    return sorted(rows, key=lambda row: (-float(row["valid_bleu"]), float(row["valid_loss"])))


def _table(folder: Path, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=f"{folder}, ranked by BLEU on validation", title_justify="left")
    table.add_column("combination", overflow="fold")
    for name in ("valid BLEU", "valid loss", "test BLEU", "updates"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(str(cell) for cell in row.values()))
    return table
