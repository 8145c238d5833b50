"""The rows of the paper's Table 3, at the scale of any experiment."""

import csv
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from nmt.config.experiment import Config
from nmt.config.fields import require
from nmt.config.model import Positions

ROW_KEY = "run.row"
BASE_ROW = "base"


def table3_rows() -> dict[str, dict[str, str]]:
    """Return the printed values of each row by its name, in the order of the paper.

    The file is `table3.tsv` beside this module; an empty cell stands for the value of the row
    `base`. Parameters are in millions. Perplexity and BLEU are those on newstest2013.
    """
    with Path(__file__).with_name("table3.tsv").open(encoding="utf-8", newline="") as stream:
        base, *others = csv.DictReader(stream, delimiter="\t")
    rows = [base, *({key: value or base[key] for key, value in row.items()} for row in others)]
    return {row["row"]: row for row in rows}


def with_row(config: Config, name: str) -> Config:
    """Return the configuration of a row of Table 3; `config` stands for the row `base`.

    Sizes and the number of updates are multiplied by the ratio of the row's value to that of
    `base`. The peak learning rate stays proportional to width ** -0.5 (equation 3). Dropout, label
    smoothing and positions change to the row's value if it differs from that of `base`.

    Raises:
        UserError: there is no such row, or a size would not be a whole number.
    """
    rows, model, training = table3_rows(), config.model, config.training
    require(name in rows, f"{ROW_KEY}={name} is not a row; the rows are {', '.join(rows)}")
    row, base = rows[name], rows[BASE_ROW]

    def scaled(value: int, column: str) -> int:
        result = value * Fraction(row[column]) / Fraction(base[column])
        require(
            result.denominator == 1,
            f"{ROW_KEY}={name} needs {column}={result}, which is not a whole number; change the"
            f" experiment's {column}={value}",
        )
        return int(result)

    def chosen(value: object, column: str) -> str:
        return row[column] if row[column] != base[column] else str(value)

    width = scaled(model.width, "width")
    changed = replace(
        model,
        num_encoder_layers=scaled(model.num_encoder_layers, "layers"),
        num_decoder_layers=scaled(model.num_decoder_layers, "layers"),
        width=width,
        feed_forward_width=scaled(model.feed_forward_width, "feed_forward_width"),
        num_heads=scaled(model.num_heads, "heads"),
        key_width=scaled(model.head_key_width, "key_width"),
        value_width=scaled(model.head_value_width, "value_width"),
        dropout=float(chosen(model.dropout, "dropout")),
        positions=Positions(chosen(model.positions, "positions")),
    )
    peak = config.schedule.peak_learning_rate * math.sqrt(model.width / width)
    return replace(
        config,
        model=changed,
        schedule=replace(config.schedule, peak_learning_rate=peak),
        training=replace(
            training,
            max_updates=scaled(training.max_updates, "updates"),
            label_smoothing=float(chosen(training.label_smoothing, "label_smoothing")),
        ),
        run=replace(config.run, row=name),
    )
