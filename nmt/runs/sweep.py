"""Rank the runs of a sweep on validation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.evaluation.records import is_complete, read_result
from nmt.evaluation.tables import as_text, new_table
from nmt.runs.log import console, print_error, print_written

_COLUMNS = ("combination", "valid_bleu", "valid_loss", "test_bleu", "updates")


class RankedTable(Callback):
    """Hydra callback that prints and writes the ranking at the end of `--multirun`."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Print the table and write `ranking.tsv`."""
        del kwargs
        hydra_config = config.hydra if "hydra" in config else HydraConfig.get()
        folder = Path(hydra_config.sweep.dir)
        rows = [_cells(name, result) for name, result in ranked_runs(folder)]
        title = f"{folder}, ranked by BLEU on validation"
        table = new_table(title, *_COLUMNS, texts=["combination"])
        for combination, *numbers in rows:
            table.add_row(as_text(combination), *numbers)
        console.print(table)
        path = folder / "ranking.tsv"
        try:
            write_lines(path, ["\t".join(row) for row in (_COLUMNS, *rows)])
        except UserError as error:
            # Hydra turns an Exception of a callback into a warning.
            print_error(str(error))
            raise SystemExit(error.exit_status) from None
        print_written([path])


def ranked_runs(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return name and result of each completed run of a sweep, best validation BLEU first."""
    runs = [
        (path.name, read_result(path)) for path in sorted(folder.glob("*")) if is_complete(path)
    ]
    return sorted(runs, key=lambda run: (-run[1]["valid"]["bleu"], run[1]["valid"]["loss"]))


def _cells(name: str, result: Mapping[str, Any]) -> tuple[str, ...]:
    valid, tests = result["valid"], list(result["test_sets"].values())
    test_bleu = f"{tests[0]['bleu']['score']:.2f}" if tests else ""
    return name, f"{valid['bleu']:.2f}", f"{valid['loss']:.4f}", test_bleu, str(result["updates"])
