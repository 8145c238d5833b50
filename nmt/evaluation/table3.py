"""The paper's Table 3 beside ours: parameters of its rows, and results of a sweep over them."""

import math
from dataclasses import replace

from nmt.config import BASE_ROW, ROW_KEY, Config, table3_rows, with_row
from nmt.evaluation.spread import Spread
from nmt.evaluation.sweep import Sweep
from nmt.metrics.calibration import rank_correlation
from nmt.model.build import count_parameters, meta_model

SIZE_COLUMNS = (
    *("row", "N", "D", "F", "H", "d_k", "d_v"),
    *("parameters", "/ base", "paper", "/ base"),
)
RESULT_COLUMNS = ("row", "seeds", "perplexity", "paper", "BLEU", "paper", "parameters", "paper")


def count_row(config: Config, name: str) -> int:
    """Return the number of parameters of a row, for `tokenizer.vocabulary_size` pieces."""
    size = config.tokenizer.vocabulary_size
    return count_parameters(meta_model(with_row(config, name).model, size, size))


def size_rows(config: Config) -> list[tuple[str, ...]]:
    """Return the cells of SIZE_COLUMNS for each row; parameters are in millions.

    `config` is that of the row `base`.
    """
    rows = table3_rows()
    lines: list[tuple[str, ...]] = []
    base, printed_base = count_row(config, BASE_ROW), float(rows[BASE_ROW]["parameters"])
    for name, row in rows.items():
        model, count = with_row(config, name).model, count_row(config, name)
        sizes = (model.num_encoder_layers, model.width, model.feed_forward_width, model.num_heads)
        cells = map(str, (name, *sizes, model.head_key_width, model.head_value_width))
        counted = f"{count / 1e6:.2f}", f"{count / base:.2f}"
        printed = row["parameters"], f"{float(row['parameters']) / printed_base:.2f}"
        lines.append((*cells, *counted, *printed))
    return lines


def vocabulary_note(config: Config) -> str:
    """State with which vocabulary rows that differ by over a million have the paper's parameters.

    A piece adds D parameters, because embeddings and output projection share one matrix, (V, D).
    The size of the vocabulary is rounded to thousands. The note is empty if even the row `base`
    differs, as at another scale than the paper's.
    """
    notes = []
    for name, row in table3_rows().items():
        missing = float(row["parameters"]) * 1e6 - count_row(config, name)
        if abs(missing) <= 1e6:
            continue
        if name == BASE_ROW:
            return ""
        more_pieces = missing / with_row(config, name).model.width
        size = round((config.tokenizer.vocabulary_size + more_pieces) / 1000) * 1000
        other = replace(config, tokenizer=replace(config.tokenizer, vocabulary_size=size))
        notes.append(f"{name}: {count_row(other, name) / 1e6:.2f} with a vocabulary of {size:,}")
    return "; ".join(notes)


def result_rows(sweep: Sweep) -> tuple[list[tuple[str, ...]], str]:
    """Return the cells of RESULT_COLUMNS for rows with complete runs, and a line of correlations.

    Perplexity and BLEU are means over seeds on validation.
    """
    rows, scores = table3_rows(), []
    lines: list[tuple[str, ...]] = []
    names = list(rows)
    groups = [group for group in sweep.groups if group.complete]
    for group in sorted(groups, key=lambda group: names.index(group.values[ROW_KEY])):
        row, runs = rows[group.values[ROW_KEY]], group.complete
        perplexity = Spread.of(math.exp(run.score("loss") or 0.0) for run in runs)
        bleu = Spread.of(run.score("bleu") or 0.0 for run in runs)
        count = runs[0].parameters
        lines.append(
            (
                *(row["row"], str(len(runs))),
                *(perplexity.format("perplexity"), row["perplexity"]),
                *(bleu.format("bleu"), row["bleu"]),
                *(f"{count / 1e6:.2f}" if count else "–", row["parameters"]),
            )
        )
        printed = float(row["perplexity"]), float(row["bleu"])
        scores.append((perplexity.mean, bleu.mean, *printed))
    if len(lines) < 3:
        return lines, "fewer than three rows are complete, so there is no rank correlation"
    columns = list(zip(*scores, strict=True))
    of_perplexity, of_bleu = (rank_correlation(columns[i], columns[i + 2]) for i in (0, 1))
    return lines, (
        f"rank correlation with the paper (Spearman) over {len(lines)} rows:"
        f" perplexity {of_perplexity:.2f}, BLEU {of_bleu:.2f}"
    )
