"""Report of a sweep: a table on the terminal, `ranking.tsv`, `report.html` and `table3.tsv`."""

from pathlib import Path

from nmt.base.errors import UserError, one_line
from nmt.base.files import to_lines
from nmt.base.layout import REPORT_FILE, SWEEPS_FOLDER
from nmt.base.log import console, print_line, print_written
from nmt.base.outputs import Outputs
from nmt.base.tables import as_text, new_table
from nmt.config import ROW_KEY
from nmt.evaluation.sweep import Group, Sweep, read_sweep
from nmt.evaluation.sweep_page import group_row, score_rows, sweep_page
from nmt.evaluation.table3 import RESULT_COLUMNS, result_rows
from nmt.run_folder import Run, Status

RANKING_FILE = "ranking.tsv"
TABLE3_FILE = "table3.tsv"

_COLUMNS = (
    *("combination", "valid_bleu", "valid_loss", "test_bleu", "updates"),
    *("group", "seed", "status", "parameters", "flops", "seconds"),
)
_SCORE_COLUMNS = ("test set", "metric", "mean ± sd", "values")
_TABLE_COLUMNS = ("seeds", "valid BLEU", "vs best", "p", "test BLEU")


def write_sweep_report(folder: Path) -> Sweep:
    """Print the table of a sweep, and write `ranking.tsv` and `report.html` to its folder.

    If the rows of the paper's Table 3 are swept, also print that table and write `table3.tsv`.

    Runs may be in progress. A run whose files cannot be read is listed with the reason.
    """
    sweep = read_sweep(folder)
    has_table3 = ROW_KEY in sweep.keys
    names = [RANKING_FILE, REPORT_FILE, *([TABLE3_FILE] if has_table3 else [])]
    paths = [folder / name for name in names]
    with Outputs.files(paths, replaces=_has_report(folder)) as outputs:
        _print(sweep)
        groups = {run.name: group for group in sweep.groups for run in group.runs}
        rows = [_cells(groups[run.name], run) for run in sweep.runs]
        lines = ["\t".join(map(one_line, row)) for row in (_COLUMNS, *rows)]
        texts = [to_lines(lines), sweep_page(sweep)]
        outputs.write(*texts, *([_report_table3(sweep)] if has_table3 else []))
    print_written(outputs.paths)
    return sweep


def _report_table3(sweep: Sweep) -> str:
    """Print the rows of Table 3 beside the paper's results, and return them as TSV."""
    rows, correlations = result_rows(sweep)
    console.print(new_table("Table 3 on validation", *RESULT_COLUMNS, texts=["row"], rows=rows))
    print_line(correlations)
    return to_lines("\t".join(row) for row in (RESULT_COLUMNS, *rows))


def _has_report(folder: Path) -> bool:
    """Whether the first line of `ranking.tsv` shows that an earlier report wrote it."""
    ranking = folder / RANKING_FILE
    if not ranking.is_file():
        return False
    with ranking.open("rb") as stream:
        return stream.readline().startswith(f"{_COLUMNS[0]}\t".encode())


def find_sweep(name: str, outputs: Path) -> Path:
    """Return the folder of a sweep.

    Args:
        name: name of a folder in `<outputs>/sweeps`; or the part of its name before a `_`, such as
            SWEEP if `make sweep` made the folder `<SWEEP>_<EXPERIMENT>`; or the path of a sweep.
        outputs: the output folder.

    Raises:
        UserError: there is no such sweep, or there are several.
    """
    sweeps = outputs / SWEEPS_FOLDER
    for folder in (sweeps / name, Path(name)):
        runs = [Run(path) for path in folder.iterdir()] if folder.is_dir() else []
        runs = [run for run in runs if run.status]
        # A folder without runs, such as that of a corpus, may have a `report.html` of its own.
        if any(run.settings and not run.settings["run.folder"] for run in runs):
            raise UserError(f"sweep={name}: {folder} has runs that belong to no sweep")
        if runs:
            return folder
    found = sorted(path for path in sweeps.glob("*") if path.name.startswith(f"{name}_"))
    if len(found) == 1:
        return found[0]
    names = ", ".join(path.name for path in found or sorted(sweeps.glob("*")))
    problem = f"is the beginning of several sweeps: {names}" if found else "has no runs"
    fix = "write the whole name" if found else f"the sweeps in {sweeps} are {names or 'none'}"
    raise UserError(f"sweep={name} {problem}; {fix}")


def _print(sweep: Sweep) -> None:
    """Print a table of the settings, or of all scores of one setting, then the verdict."""
    complete = [group for group in sweep.groups if group.complete]
    if not sweep.keys and complete:
        title = f"{sweep.name}, seeds {', '.join(run.seed for run in complete[0].by_seed())}"
        texts, rows = ["test set", "metric", "values"], score_rows(complete[0])
        table = new_table(title, *_SCORE_COLUMNS, texts=texts, rows=rows)
    else:
        title = (
            f"{sweep.name}, ranked by BLEU on validation; ± is the standard deviation over seeds"
        )
        table = new_table(title, "setting", *_TABLE_COLUMNS, texts=["setting"])
        for group in complete:
            row = group_row(group)
            table.add_row(as_text(group.label), *(row[name] for name in _TABLE_COLUMNS))
    console.print(table)
    for run in sweep.runs:
        if run.status is not Status.complete or run.notes:
            print_line(": ".join([str(run.status), run.name, *run.notes[-1:]]))
    untested = sweep.note if sweep.keys else ""
    print_line(f"differences were not tested: {untested}" if untested else sweep.verdict())


def _cells(group: Group, run: Run) -> tuple[str, ...]:
    """Return a run's values of `_COLUMNS`; unknown values are empty."""

    def number(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    return (
        run.name,
        number(run.score("bleu"), ".2f"),
        number(run.score("loss"), ".4f"),
        number(run.score("test_bleu"), ".2f"),
        str(run.updates),
        group.name,
        run.seed,
        str(run.status),
        number(run.parameters, "d"),
        number(run.flops, ".4g"),
        number(run.seconds, ".1f"),
    )
