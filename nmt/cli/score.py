"""Score given translations by the log-probability that a model gives them.

nmt score source=news.en target=news.de       → news.de.scores.tsv
"""

import json
import math
from dataclasses import asdict
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.base.errors import UserError
from nmt.base.files import check_aligned, check_unchanged, file_version, iterate_lines
from nmt.base.log import print_line, print_written
from nmt.base.progress import progress_bar
from nmt.cli.application import application
from nmt.cli.common import open_output
from nmt.cli.models import ModelArguments, check_languages, model_folder, open_model
from nmt.config import checked_dataclass

if TYPE_CHECKING:
    from nmt.search.hypothesis import Hypothesis

Format = StrEnum("Format", "tsv jsonl")

_CHUNK_LINES = 1024


@checked_dataclass
class _Arguments(ModelArguments):
    source: str
    """File with the sources, one sentence per line, UTF-8."""
    target: str
    """File with the translations of the sources, line by line."""
    out: str = ""
    """Output (default: TARGET.scores.tsv or TARGET.scores.jsonl); - is stdout."""
    format: Format = Format.tsv
    """tsv has the columns log_prob, tokens, perplexity and score, without a header; jsonl has
    the log-probability of each token instead of the number of tokens. Of the keys of decoding,
    only length_penalty and length_penalty_kind have an effect."""


@application(_Arguments)
def main(arguments: _Arguments) -> None:
    """Run the command."""
    from nmt.translation.forced import score_pairs

    for key in arguments.decoding:
        if key not in ("length_penalty", "length_penalty_kind"):
            raise UserError(f"decoding.{key} has no effect on scores; leave it out")
    source, target = Path(arguments.source), Path(arguments.target)
    versions = {path: file_version(path) for path in (source, target)}
    lengths = {path: sum(1 for _ in iterate_lines(path)) for path in (source, target)}
    check_aligned(lengths)
    default = Path(f"{target}.scores.{arguments.format}")
    folder = model_folder(arguments.model)
    with open_output(arguments.out, default, [source, target, folder]) as (sink, paths):
        model = open_model(folder, arguments.device)
        check_languages(model.config.direction, source, target)
        config = arguments.decoding_config(model)
        scored: list[tuple[float, int, float]] = []  # log_prob, number of tokens, score
        line = 0
        with progress_bar("scoring", lengths[source]) as advance:
            # If a file changes meanwhile, the lengths may differ; `check_unchanged` reports it.
            pairs = zip(iterate_lines(source), iterate_lines(target), strict=False)
            while chunk := list(islice(pairs, _CHUNK_LINES)):
                scores = score_pairs(model, chunk, config, advance)
                for pair, score in zip(chunk, scores, strict=True):
                    line += 1
                    if score is None:
                        print_line(f"line {line}: too long for the model; no score")
                    else:
                        scored.append((score.log_prob, len(score.token_log_probs), score.score))
                    sink.write(_formatted(pair, score, arguments.format))
            check_unchanged(versions)
    print_line(_summary(scored, line))
    if paths:
        print_written(paths)


def _perplexity(log_prob: float, num_tokens: int) -> float:
    try:
        return math.exp(-log_prob / num_tokens)
    except OverflowError:
        raise UserError(
            "a perplexity is not finite: the weights of the model are damaged"
        ) from None


def _summary(scored: list[tuple[float, int, float]], num_pairs: int) -> str:
    if not scored:
        return "no pair was scored"
    log_probs, numbers, scores = zip(*scored, strict=True)
    log_prob, num_tokens, mean = sum(log_probs), sum(numbers), sum(scores) / len(scores)
    return (
        f"{len(scored):,} pairs, {num_tokens:,} target tokens, log-probability {log_prob:,.2f},"
        f" perplexity {_perplexity(log_prob, num_tokens):,.4f}, mean score {mean:.4f};"
        f" {num_pairs - len(scored):,} pairs too long for the model"
    )


def _formatted(pair: tuple[str, str], score: "Hypothesis | None", output: Format) -> str:
    """Format the line of a pair; without a score, tsv columns are empty and JSON values null."""
    values: dict[str, Any] = {}
    if score is not None:
        num_tokens = len(score.token_log_probs)
        perplexity = _perplexity(score.log_prob, num_tokens)
        values = {**asdict(score), "tokens": num_tokens, "perplexity": perplexity}
    if output is Format.jsonl:
        keys = ("log_prob", "perplexity", "score", "token_log_probs")
        record = {"source": pair[0], "target": pair[1], **{key: values.get(key) for key in keys}}
        return json.dumps(record, ensure_ascii=False) + "\n"
    columns = "{log_prob:.6f}\t{tokens}\t{perplexity:.6f}\t{score:.6f}\n"
    return columns.format(**values) if values else "\t\t\t\n"
