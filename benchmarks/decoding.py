"""Decoding speed beside CTranslate2 and Hugging Face's `generate`, on a CPU.

    python -m benchmarks.decoding [model=FOLDER] [source=FILE reference=FILE] [rounds=3] …

  model=FOLDER        a trained model's folder (default: that of the last completed run)
  source=FILE reference=FILE   the text (default: Multi30k's test_2016_flickr of ../shared/data)
  sentences=1000      number of its sentences to translate
  singles=200         sentences translated one by one, for the latency
  length_penalty=0.6  alpha; the penalties of the programs have different forms, except for 0
  batch_size=64       sentences searched together
  longest=0           longest translation in tokens, for all programs; 0: see `decoders.Job`
  peer_python=FILE    an interpreter with torch, transformers and safetensors, to measure Hugging
                      Face with models that its architectures can represent

All programs have the same weights, beam, threads and batches. Each runs in a process of its own;
they take turns, so that all see the same noise of the machine, and results are ratios within a
round.
"""

import statistics
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import ctranslate2

from benchmarks.decoders import Job, Measurement, Peer, ctranslate2_decoder, handler, nmt_decoder
from benchmarks.figures import print_table, write_result
from benchmarks.setting import Worker
from nmt.base.errors import UserError
from nmt.base.files import check_aligned, read_lines
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import Activation, EngineName, Positions, TiedEmbeddings, checked_dataclass
from nmt.evaluation.systems import find_model
from nmt.metrics.scores import bleu_score
from nmt.trained_model import load_trained_model

_TEXT = "../shared/data/multi30k/test_2016_flickr"

TORCH, CT2, HUGGING_FACE = "torch engine", "CTranslate2, bare", "Hugging Face generate"
_DECODERS = {
    TORCH: partial(nmt_decoder, EngineName.torch, ""),
    # Stops when K hypotheses have ended, as CTranslate2 does.
    "torch engine, patience 1": partial(nmt_decoder, EngineName.torch, "", patience=1.0),
    "ctranslate2 engine": partial(nmt_decoder, EngineName.ctranslate2, "float32"),
    CT2: partial(ctranslate2_decoder, "float32"),
    "ctranslate2 engine, int8": partial(nmt_decoder, EngineName.ctranslate2, "int8"),
    "CTranslate2, bare, int8": partial(ctranslate2_decoder, "int8"),
}
# Largest accepted difference of BLEU to the torch engine, with int8 and in float32.
_ALLOWED_INT8, _ALLOWED_FLOAT32 = 0.3, 0.1

_FEWEST_SINGLES = 2

# Arguments that are part of the file name of a result, and their names there.
_NAMED = {"length_penalty": "alpha", "longest": "longest", "batch_size": "batch"}


@checked_dataclass
class Arguments:
    """See the docstring of the module."""

    model: str = ""
    source: str = f"{_TEXT}.en"
    reference: str = f"{_TEXT}.de"
    sentences: int = 1000
    singles: int = 200
    rounds: int = 3
    beam_size: int = 5
    length_penalty: float = 0.6
    batch_size: int = 64
    threads: int = 2
    longest: int = 0
    peer_python: str = ""


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the benchmark."""
    sources = read_lines(Path(arguments.source))[: arguments.sentences]
    references = read_lines(Path(arguments.reference))[: arguments.sentences]
    check_aligned(
        {Path(arguments.source): len(sources), Path(arguments.reference): len(references)}
    )
    if arguments.singles < _FEWEST_SINGLES:
        raise UserError(f"singles={arguments.singles} must be at least {_FEWEST_SINGLES}")
    job = Job(
        Path(arguments.model) if arguments.model else find_model(),
        sources,
        arguments.beam_size,
        arguments.length_penalty,
        arguments.threads,
        arguments.batch_size,
        arguments.longest,
    )
    if arguments.peer_python:
        _check_hugging_face_holds(job.model)
    contenders: dict[str, Worker | Peer] = {
        name: Worker(handler, open_decoder, job) for name, open_decoder in _DECODERS.items()
    }
    if arguments.peer_python:
        contenders[HUGGING_FACE] = Peer(arguments.peer_python, job)
    for contender in contenders.values():
        contender.ask(1)  # waits until the model is loaded
    rounds = [
        {name: contender.ask() for name, contender in contenders.items()}
        for _ in range(arguments.rounds)
    ]
    singles = {name: contender.ask(arguments.singles) for name, contender in contenders.items()}
    for contender in contenders.values():
        contender.close()
    result = _summary(arguments, references, rounds, singles)
    _print(result)
    write_result(f"decoding-{_name(arguments)}", result)
    for line in result["warnings"]:
        print(f"warning: {line}", file=sys.stderr)
    ratio = result["contenders"][TORCH]["ratio_to_ctranslate2"]
    print(f"{TORCH} / {CT2}: {ratio:.2f} (median of {arguments.rounds} rounds)", file=sys.stderr)


def _name(arguments: Arguments) -> str:
    """Return the name of the text and of arguments that differ from their defaults."""
    parts = [Path(arguments.source).stem]
    for key, name in _NAMED.items():
        value = getattr(arguments, key)
        if value != getattr(Arguments, key):
            parts.append(f"{name}{value:g}")
    return "-".join([*parts, "hugging-face"] if arguments.peer_python else parts)


def _check_hugging_face_holds(folder: Path) -> None:
    config = load_trained_model(folder).config.model
    needed = {
        "positions": Positions.sinusoidal,
        "tied_embeddings": TiedEmbeddings.three_way,
        "activation": Activation.relu,
    }
    for key, value in needed.items():
        if getattr(config, key) is not value:
            raise UserError(
                f"peer_python=: Hugging Face needs model.{key}={value.name}, and {folder}"
                f" has {getattr(config, key).name}"
            )
    if {config.head_key_width, config.head_value_width} != {config.width // config.num_heads}:
        raise UserError("peer_python=: Hugging Face needs heads of width / num_heads")


def _summary(
    arguments: Arguments,
    references: list[str],
    rounds: list[dict[str, Measurement]],
    singles: dict[str, list[float]],
) -> dict[str, Any]:
    rows = {name: _row(name, references, rounds, singles[name]) for name in rounds[0]}
    return {
        "ctranslate2": ctranslate2.__version__,
        **asdict(arguments),
        "text": Path(arguments.source).name,
        "sentences": len(references),
        "contenders": rows,
        "warnings": _warnings(rows),
    }


def _row(
    name: str, references: list[str], rounds: list[dict[str, Measurement]], singles: list[float]
) -> dict[str, Any]:
    own = [measured[name] for measured in rounds]
    seconds = statistics.median(measured.seconds for measured in own)
    row: dict[str, Any] = {
        "sentences_per_second": round(len(references) / seconds, 1),
        "tokens_per_second": round(statistics.median(t.num_tokens / t.seconds for t in own)),
        "bleu": round(bleu_score(own[0].texts, references).score, 2),
        "same_as_torch": sum(map(str.__eq__, own[0].texts, rounds[0][TORCH].texts)),
        "peak_mebibytes": round(max(t.peak_mebibytes for t in own)),
        "single_milliseconds_median": round(1000 * statistics.median(singles), 1),
        "single_milliseconds_p99": round(
            1000 * statistics.quantiles(singles, n=100, method="inclusive")[98], 1
        ),
    }
    for other, key in ((CT2, "ratio_to_ctranslate2"), (HUGGING_FACE, "ratio_to_hugging_face")):
        if other in rounds[0]:
            ratios = [one[other].seconds / one[name].seconds for one in rounds]
            row[key] = round(statistics.median(ratios), 2)
    return row


def _warnings(rows: dict[str, dict[str, Any]]) -> list[str]:
    """Return a line for each program whose BLEU differs too much from the torch engine's."""
    lines = []
    for name, row in rows.items():
        allowed = _ALLOWED_INT8 if "int8" in name else _ALLOWED_FLOAT32
        difference = abs(row["bleu"] - rows[TORCH]["bleu"])
        if difference > allowed:
            lines.append(f"{name}: BLEU differs by {difference:.2f}, more than {allowed}")
    return lines


def _print(result: dict[str, Any]) -> None:
    title = (
        f"Decoding {result['sentences']:,} sentences of {result['text']}, beam"
        f" {result['beam_size']}, {result['threads']} threads, {result['rounds']} rounds"
    )
    columns = {
        "sentences/s": "sentences_per_second",
        "tokens/s": "tokens_per_second",
        "× HF": "ratio_to_hugging_face",
        "× CT2": "ratio_to_ctranslate2",
        "BLEU": "bleu",
        "same": "same_as_torch",
        "peak MiB": "peak_mebibytes",
        "one, ms": "single_milliseconds_median",
        "p99": "single_milliseconds_p99",
    }
    rows = [
        [name, *(f"{row[key]:,}" if key in row else "" for key in columns.values())]
        for name, row in result["contenders"].items()
    ]
    print_table(title, ["", *columns], rows)


if __name__ == "__main__":
    run_command(main)
