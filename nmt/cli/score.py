"""Score given translations with a trained model: how probable it finds each.

python -m nmt.cli.score source=news.en target=news.de       → news.de.scores.tsv
"""

import json
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

from rich.progress import Progress

from nmt.cli.common import (
    STDOUT,
    console,
    name_files,
    parse_arguments,
    run_command,
    set_up_logging,
    stdout,
)
from nmt.cli.translate import decoding_config, open_model
from nmt.config import DecodingConfig
from nmt.decoding.forced import ForcedDecoder
from nmt.decoding.hypothesis import length_penalty
from nmt.errors import UserError
from nmt.files import atomic_writer, check_aligned, check_writable, iterate_lines, writing
from nmt.trained_model import TrainedModel
from nmt.training.experiment import find_model

# Not __name__, which is __main__ when the module is the command.
logger = logging.getLogger("nmt.cli")

USAGE = """python -m nmt.cli.score source=FILE target=FILE [model=FOLDER] [out=FILE] [key=value …]

  source=FILE target=FILE   the pairs, aligned line by line, UTF-8
  model=FOLDER    a trained model's folder (default: that of the last completed run)
  out=FILE        where to (default: the target's name with .scores.tsv or .scores.jsonl; - is
                  stdout)
  format=FORMAT   tsv (log_prob, tokens, perplexity, score; no head line) or jsonl, which tells the
                  log-probability of each token too (default: tsv)
  decoding.length_penalty=A   of score, and decoding.length_penalty_kind=gnmt, average or none
                  (default: what the model was scored with)
  device=DEVICE   cpu or cuda (default: cuda where there is one)"""

_CHUNK_LINES = 1024


@dataclass(frozen=True)
class Arguments:
    """Arguments of the command; `USAGE` explains them."""

    source: str = ""
    target: str = ""
    model: str = ""
    out: str = ""
    format: str = "tsv"
    device: str = ""
    decoding: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PairScore:
    """How probable the model finds a translation.

    Attributes:
        token_log_probs: of each token, EOS last; natural logarithms.
        score: their sum over the length penalty, as search ranks by without other penalties.
    """

    token_log_probs: list[float]
    score: float

    @property
    def log_prob(self) -> float:
        """The sum."""
        return sum(self.token_log_probs)

    @property
    def perplexity(self) -> float:
        """A token's."""
        return math.exp(-self.log_prob / len(self.token_log_probs))


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments, USAGE)
    set_up_logging()
    if not (arguments.source and arguments.target):
        raise UserError("source= and target= are needed: name both files")
    if arguments.format not in ("tsv", "jsonl"):
        raise UserError(f"format={arguments.format}: no such format; take tsv or jsonl")
    source, target = Path(arguments.source), Path(arguments.target)
    num_lines = _checked_length(source, target)
    out = Path(arguments.out or f"{target}.scores.{arguments.format}")
    to_stdout = arguments.out == "-"
    if not to_stdout and out.resolve() in (source.resolve(), target.resolve()):
        raise UserError(f"out={out} would be overwritten by its own scores; name another file")
    if not to_stdout:
        if out.is_dir():
            raise UserError(f"out={out} is a folder; name a file")
        check_writable(out)
    model = open_model(Path(arguments.model) if arguments.model else find_model(), arguments.device)
    config = _search(model, arguments.decoding)
    with _sink(out, to_stdout) as sink, _progress(num_lines) as advance:
        total = _Total()
        pairs = zip(iterate_lines(source), iterate_lines(target), strict=True)
        line = 1
        while chunk := list(islice(pairs, _CHUNK_LINES)):
            for pair, score in zip(chunk, pair_scores(model, chunk, config, advance), strict=True):
                if score is None:
                    logger.warning("line %d: too long for the model; it gets no score", line)
                total.add(score)
                sink.write(_told(pair, score, arguments.format))
                line += 1
    console.print(total.told(), markup=False, soft_wrap=True)
    if not to_stdout:
        name_files([out])


_KNOWN_KEYS = ("length_penalty", "length_penalty_kind")
# Keys of other penalties, and at what value there is none.
_LEFT_OUT = {"coverage_penalty": 0.0, "repetition_penalty": 1.0}


def _search(model: TrainedModel, overrides: dict[str, str]) -> DecodingConfig:
    """The search whose scores these are."""
    for key in overrides:
        if key not in _KNOWN_KEYS:
            known = " or ".join(f"decoding.{name}" for name in _KNOWN_KEYS)
            raise UserError(f"decoding.{key} is no matter of scores; take {known}")
    config = decoding_config(model, overrides)
    for key, neutral in _LEFT_OUT.items():
        value = getattr(config, key)
        if value != neutral:
            told = "the model's own search has decoding.%s=%g, which these scores leave out"
            logger.warning(told, key, value)
    return config


def pair_scores(
    model: TrainedModel,
    pairs: list[tuple[str, str]],
    config: DecodingConfig,
    progress: Callable[[int], None] | None = None,
) -> list[PairScore | None]:
    """The score of each (source, translation); None where one is too long for the model."""
    forced = ForcedDecoder(model)
    ids = list(
        zip(
            model.source_tokenizer.encode([source for source, _ in pairs]),
            model.target_tokenizer.encode([target for _, target in pairs]),
            strict=True,
        )
    )
    found = iter(forced.token_log_probs([pair for pair in ids if forced.fits(pair)], progress))
    scores: list[PairScore | None] = []
    for pair in ids:
        if not forced.fits(pair):
            scores.append(None)
            continue
        log_probs = next(found)
        penalty = length_penalty(len(log_probs), config)
        scores.append(PairScore(log_probs, sum(log_probs) / penalty))
    return scores


@dataclass
class _Total:
    """Sums over all pairs."""

    num_pairs: int = 0
    num_left_out: int = 0
    num_tokens: int = 0
    log_prob: float = 0.0
    score: float = 0.0

    def add(self, score: PairScore | None) -> None:
        if score is None:
            self.num_left_out += 1
            return
        self.num_pairs += 1
        self.num_tokens += len(score.token_log_probs)
        self.log_prob += score.log_prob
        self.score += score.score

    def told(self) -> str:
        if not self.num_pairs:
            return "no pair was scored"
        left_out = f"; {self.num_left_out:,} too long, left out" if self.num_left_out else ""
        return (
            f"{self.num_pairs:,} pairs, {self.num_tokens:,} target tokens, log-probability"
            f" {self.log_prob:,.2f}, perplexity {math.exp(-self.log_prob / self.num_tokens):,.4f},"
            f" mean score {self.score / self.num_pairs:.4f}{left_out}"
        )


def _checked_length(source: Path, target: Path) -> int:
    lengths = {path: sum(1 for _ in iterate_lines(path)) for path in (source, target)}
    check_aligned(lengths)
    return lengths[source]


def _told(pair: tuple[str, str], score: PairScore | None, write: str) -> str:
    if write == "tsv":
        if score is None:
            return "\t\t\t\n"
        figures = (f"{score.log_prob:.6f}", str(len(score.token_log_probs)))
        return "\t".join([*figures, f"{score.perplexity:.6f}", f"{score.score:.6f}"]) + "\n"
    record = {
        "source": pair[0],
        "target": pair[1],
        "log_prob": score and score.log_prob,
        "perplexity": score and score.perplexity,
        "score": score and score.score,
        "token_log_probs": score and score.token_log_probs,
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


@contextmanager
def _sink(out: Path, to_stdout: bool) -> Iterator[IO[str]]:
    if to_stdout:
        with writing(STDOUT):
            yield stdout()
        return
    with atomic_writer(out) as stream:
        yield stream


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    columns = Progress.get_default_columns()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("scoring", total=total)
        yield lambda count: progress.advance(task, count)


if __name__ == "__main__":
    run_command(main)
