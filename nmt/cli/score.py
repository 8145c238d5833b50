"""Score given translations with a trained model: how probable the model finds each of them.

python -m nmt.cli.score source=news.en target=news.de       → news.de.scores.tsv
"""

import json
import logging
import math
import re
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import islice
from pathlib import Path

from nmt.base.errors import UserError
from nmt.base.files import atomic_writer, check_aligned, iterate_lines, writing
from nmt.cli.arguments import STDOUT, parse_arguments
from nmt.cli.common import (
    check_output,
    print_line,
    print_written,
    run_command,
    set_up_logging,
    stdout,
)
from nmt.cli.models import ModelArguments, decoding_config, model_folder, open_model
from nmt.trained_model import TrainedModel
from nmt.training.progress import progress_bar
from nmt.translation.forced import PairScore, score_pairs

logger = logging.getLogger("nmt.cli")  # not __name__, which is __main__ for a command

_CHUNK_LINES = 1024


class Format(Enum):
    """Format of the scores."""

    tsv = "tsv"
    jsonl = "jsonl"


@dataclass(frozen=True, kw_only=True)
class Arguments(ModelArguments):
    """Arguments of the command."""

    source: str
    """The sources, one sentence per line, UTF-8."""
    target: str
    """Their translations, line by line."""
    out: str = ""
    """Output (default: TARGET.scores.tsv or TARGET.scores.jsonl); - is stdout."""
    format: Format = Format.tsv
    """tsv has the columns log_prob, tokens, perplexity and score, without a header; jsonl also has
    the log-probability of each token. Of decoding, only length_penalty and length_penalty_kind have
    an effect."""


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments)
    set_up_logging()
    for key in arguments.decoding:
        if key not in ("length_penalty", "length_penalty_kind"):
            raise UserError(f"decoding.{key} has no effect on scores; leave it out")
    source, target = Path(arguments.source), Path(arguments.target)
    lengths = {path: sum(1 for _ in iterate_lines(path)) for path in (source, target)}
    check_aligned(lengths)
    out = None if arguments.out == "-" else _output_path(arguments)
    model = open_model(model_folder(arguments.model), arguments.device)
    _check_languages(source, target, model)
    config = decoding_config(model, arguments.decoding)
    scored: list[PairScore] = []
    line = 0
    with (
        atomic_writer(out) if out else nullcontext(stdout()) as sink,
        nullcontext() if out else writing(STDOUT),
        progress_bar("scoring", lengths[source]) as advance,
    ):
        pairs = zip(iterate_lines(source), iterate_lines(target), strict=True)
        while chunk := list(islice(pairs, _CHUNK_LINES)):
            for pair, score in zip(chunk, score_pairs(model, chunk, config, advance), strict=True):
                line += 1
                if score is None:
                    logger.warning("line %d: too long for the model; no score", line)
                else:
                    scored.append(score)
                sink.write(_formatted(pair, score, arguments.format))
    print_line(_summary(scored, line))
    if out is not None:
        print_written([out])


def _output_path(arguments: Arguments) -> Path:
    path = Path(arguments.out or f"{arguments.target}.scores.{arguments.format.name}")
    check_output(path, Path(arguments.source), Path(arguments.target))
    if not arguments.out and path.exists():
        raise UserError(f"{path} already exists; remove it, or name a file with out=")
    return path


def _check_languages(source: Path, target: Path, model: TrainedModel) -> None:
    """Raise a UserError if the file endings are languages, but not those of the model."""
    ours = (model.config.source_language, model.config.target_language)
    theirs = (source.suffix.removeprefix("."), target.suffix.removeprefix("."))
    if theirs != ours and all(re.fullmatch("[a-z]{2}", ending) for ending in theirs):
        raise UserError(
            f"{source} and {target} are {'-'.join(theirs)} by their names, but the model translates"
            f" {'-'.join(ours)}; name another with model=, or rename the files"
        )


def _perplexity(score: PairScore) -> float:
    return math.exp(-score.log_prob / len(score.token_log_probs))


def _summary(scored: list[PairScore], num_pairs: int) -> str:
    if not scored:
        return "no pair was scored"
    log_prob = sum(score.log_prob for score in scored)
    num_tokens = sum(len(score.token_log_probs) for score in scored)
    return (
        f"{len(scored):,} pairs, {num_tokens:,} target tokens, log-probability {log_prob:,.2f},"
        f" perplexity {math.exp(-log_prob / num_tokens):,.4f}, mean score"
        f" {sum(score.score for score in scored) / len(scored):.4f};"
        f" {num_pairs - len(scored):,} pairs too long for the model"
    )


def _formatted(pair: tuple[str, str], score: PairScore | None, output: Format) -> str:
    if output is Format.jsonl:
        keys = ("log_prob", "perplexity", "score", "token_log_probs")
        values = {**asdict(score), "perplexity": _perplexity(score)} if score else {}
        record = {"source": pair[0], "target": pair[1], **{key: values.get(key) for key in keys}}
        return json.dumps(record, ensure_ascii=False) + "\n"
    if score is None:
        return "\t\t\t\n"
    numbers = (f"{score.log_prob:.6f}", str(len(score.token_log_probs)))
    return "\t".join([*numbers, f"{_perplexity(score):.6f}", f"{score.score:.6f}"]) + "\n"


if __name__ == "__main__":
    run_command(main)
