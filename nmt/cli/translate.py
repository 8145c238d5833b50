"""Translate raw text: N lines in, N lines out.

python -m nmt.cli.translate file=news.en                    → news.de
python -m nmt.cli.translate file=- < news.en > news.de      line by line as they come
python -m nmt.cli.translate file=items.jsonl                → items.de.jsonl
"""

import io
import logging
import sys
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nmt.cli.common import (
    STDOUT,
    name_files,
    named_folders,
    parse_arguments,
    run_command,
    set_up_logging,
    stdout,
)
from nmt.cli.engines import USAGE_LINES, EngineName, engine_note, open_engine
from nmt.cli.translating import (
    Work,
    checked_length,
    raw_lines,
    translate_lines,
    translate_stream,
    translate_to_files,
)
from nmt.config import DecodingConfig, search_keys
from nmt.decoding.alignment import Aligner
from nmt.decoding.formats import Format, LineReader, LineWriter, check_formats
from nmt.decoding.pipeline import Pipeline, Utilities
from nmt.decoding.protection import ProtectingTranslator
from nmt.decoding.translator import Translator
from nmt.errors import UserError
from nmt.evaluation.mbr import Utility, expected_utilities
from nmt.files import check_readable, check_writable, writing
from nmt.part_files import PartFiles
from nmt.trained_model import TrainedModel, load_trained_model, weights_digest
from nmt.training.experiment import find_model

# Not __name__, which is __main__ when the module is the command.
logger = logging.getLogger("nmt.cli")

USAGE = f"""python -m nmt.cli.translate file=FILE [model=FOLDER] [out=FILE] [key=value …]

  file=FILE       text to translate, one sentence a line, UTF-8; - streams stdin to stdout
  model=FOLDER    a trained model's folder (default: that of the last completed run)
  ensemble="A B"  folders of further models of the same vocabularies, that decode together with it;
                  one whose name has blanks is quoted: "'my model' B"
  out=FILE        where to (default: FILE with the target language's ending; - is stdout)
  format=FORMAT   what is written: text, jsonl or tsv (default: as input_format, else by FILE's
                  ending)
  input_format=FORMAT   what is read (default: by FILE's ending; of stdin, that of format)
  column=N        tsv: the column to translate, counted from 1; the others are kept
  alignment=true  which source word each word comes from, as 0-0 1-2: in jsonl a key, else a file
                  beside, OUT.align; alignment_layer=N takes another decoder layer, from 1
  document=true   each line is a paragraph of several sentences, and a source of JSON lines may
                  have several lines: they are translated sentence by sentence
  protect=true    tags, addresses and placeholders such as {{name}} stay as they are
  mbr=UTILITY     chrf or bleu: of the decoding.num_best translations that which is most like all
                  of them, by minimum Bayes risk, in place of the most probable
  resume=false    begin anew, and do not go on with what an interruption has left in OUT.part
  decoding.KEY=…  beam_size, length_penalty, num_best, batch_size, max_length_ratio, …
                  (default: what the model was scored with)
  device=DEVICE   cpu or cuda (default: cuda where there is one)
{USAGE_LINES}
With decoding.num_best above 1 each line holds the translations, best first, split by tabs.
jsonl reads objects with the key source and adds translations; the keys prefix, required and banned
ask something of them. docs/translating.md has examples."""


@dataclass(frozen=True)
class Arguments:
    """Arguments of the command; `USAGE` explains them."""

    file: str = ""
    model: str = ""
    ensemble: str = ""
    out: str = ""
    device: str = ""
    engine: EngineName = EngineName.torch
    compute_type: str = ""
    format: str = ""
    input_format: str = ""
    column: int = 1
    document: bool = False
    protect: bool = False
    mbr: str = ""
    alignment: bool = False
    alignment_layer: int = 0
    resume: bool = True
    decoding: dict[str, str] = field(default_factory=dict)


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments, USAGE)
    set_up_logging()
    if not arguments.file:
        raise UserError("file= is missing: name the text to translate, or - for stdin")
    streams = arguments.file == "-"
    read, write = formats(arguments.file, arguments.input_format, arguments.format)
    reader = LineReader(read, arguments.column)
    if arguments.alignment_layer and not (arguments.alignment or arguments.protect):
        raise UserError(
            f"alignment_layer={arguments.alignment_layer}: nothing is aligned; add alignment=true,"
            " or leave it out"
        )
    if not streams:
        check_readable(Path(arguments.file))
    folder = Path(arguments.model) if arguments.model else find_model()
    model = open_model(folder, arguments.device)
    decoding = decoding_config(model, arguments.decoding)
    others = [open_model(other, arguments.device) for other in named_folders(arguments.ensemble)]
    engine = open_engine(arguments.engine, arguments.compute_type, model, decoding, folder, others)
    translator: Translator | ProtectingTranslator = Translator(
        model, decoding, logger.warning, engine
    )
    aligner = Aligner(model, arguments.alignment_layer)
    if arguments.protect:
        translator = ProtectingTranslator(translator, aligner)
    aligns_beside = arguments.alignment and write is not Format.jsonl
    pipeline = Pipeline(
        translator,
        aligner if arguments.alignment else None,
        _utilities(arguments.mbr, decoding),
        model.config.source_language if arguments.document else "",
        logger.warning,
        aligns_all=not aligns_beside,  # a file beside has the links of what is written
    )
    work = Work(
        "stdin" if streams else arguments.file,
        reader,
        pipeline,
        LineWriter(write, model.target_tokenizer, arguments.column),
        aligns_beside=aligns_beside,
    )
    if aligns_beside and (arguments.out == "-" or (streams and not arguments.out)):
        raise UserError("alignment=true: stdout has no file beside it; take format=jsonl, or out=")
    out = output_path(arguments.file, arguments.out, model, write)
    if out is None:
        _to_stdout(work, streams)
    else:
        outs = [out, out.with_name(f"{out.name}.align")] if aligns_beside else [out]
        made_with = _made_with(arguments, folder, decoding, read, write)
        # What stands beside a source is often its reference; a name that was given is meant.
        _to_files(work, streams, outs, made_with, arguments.resume, bool(arguments.out))
    if isinstance(translator, ProtectingTranslator):
        logger.info("%s", translator.tally.told())
    if out is not None:
        name_files(outs)


def _to_stdout(work: Work, streams: bool) -> None:
    sink = stdout()  # before long work
    if streams:
        with writing(STDOUT):
            translate_stream(work, _stdin().raw, sink)
        return
    file = Path(work.name)
    total = checked_length(work, file)
    with writing(STDOUT):
        translate_lines(work, raw_lines(file), lambda _, texts: sink.write(texts[0]), 0, total)


def _stdin() -> io.BufferedReader:
    if sys.stdin is None:  # closed by who started us
        raise UserError("file=-: there is no stdin; name a file")
    stream = sys.stdin.buffer
    assert isinstance(stream, io.BufferedReader)
    return stream


def _to_files(
    work: Work,
    streams: bool,
    outs: list[Path],
    made_with: dict[str, Any],
    goes_on: bool,
    replaces: bool,
) -> None:
    if streams:
        lines, size, total = iter(_stdin()), None, None
    else:
        file = Path(work.name)
        lines, size, total = raw_lines(file), file.stat().st_size, checked_length(work, file)
    with PartFiles.opened(outs, made_with, goes_on, replaces) as parts:
        translate_to_files(work, lines, parts, size, total)


def formats(file: str, read: str, write: str) -> tuple[Format, Format]:
    """What is read and what is written: as it was said, else by the file's ending.

    Raises:
        UserError: there is no such format, or they do not go together.
    """
    known = {each.name: each for each in Format}
    for key, name in {"input_format": read, "format": write}.items():
        if name and name not in known:
            raise UserError(f"{key}={name}: no such format; take {', '.join(known)}")
    ending = Path(file).suffix.removeprefix(".").lower()
    by_ending = known[ending] if ending in ("jsonl", "tsv") else Format.text
    wanted = known[write or read or by_ending.name]
    implied = wanted if file == "-" or _may_be(by_ending, wanted) else by_ending
    chosen = known[read] if read else implied
    check_formats(chosen, wanted)
    return chosen, wanted


def _may_be(by_ending: Format, wanted: Format) -> bool:
    """Whether what is no JSON by its name is columns, since columns are to be written."""
    return wanted is Format.tsv and by_ending is Format.text


def _utilities(name: str, decoding: DecodingConfig) -> Utilities | None:
    if not name:
        return None
    known = {each.name: each for each in Utility}
    if name not in known:
        raise UserError(f"mbr={name}: no such utility; take {' or '.join(known)}")
    if decoding.num_best == 1:
        raise UserError(
            f"mbr={name} chooses among several translations: give for example"
            " decoding.num_best=8 decoding.beam_size=8"
        )
    return partial(expected_utilities, utility=known[name])


def _made_with(
    arguments: Arguments, folder: Path, decoding: DecodingConfig, read: Format, write: Format
) -> dict[str, Any]:
    """What the translations depend on besides the input: by it an interrupted work is known."""
    return {
        "model": weights_digest(folder),
        "ensemble": [weights_digest(other) for other in named_folders(arguments.ensemble)],
        "input_format": read.name,
        "format": write.name,
        "column": arguments.column,
        "document": arguments.document,
        "protect": arguments.protect,
        "mbr": arguments.mbr,
        "alignment": arguments.alignment,
        "alignment_layer": arguments.alignment_layer,
        "engine": engine_note(arguments.engine, arguments.compute_type) or EngineName.torch.value,
        **search_keys(decoding),
    }


def open_model(folder: Path, device: str) -> TrainedModel:
    """The model that was asked for, on the device that was asked for."""
    name = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(name)
    except RuntimeError:
        raise UserError(f"device={name} is no device; take cpu or cuda") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device={name}: torch finds no such device here; take device=cpu")
    return load_trained_model(folder, chosen)


def decoding_config(model: TrainedModel, overrides: dict[str, str]) -> DecodingConfig:
    """The search that the model was scored with, changed where the user says so."""
    stored = model.config.decoding
    known = {name: type(value) for name, value in vars(stored).items()}
    changes: dict[str, Any] = {}
    for key, text in overrides.items():
        if key not in known:
            raise UserError(f"decoding.{key}: no such key; the keys are {', '.join(known)}")
        try:
            changes[key] = _TRUTH[text] if known[key] is bool else known[key](text)
        except (KeyError, ValueError):
            raise UserError(f"decoding.{key}={text} is not {_described(known[key])}") from None
    return replace(stored, **changes)


_TRUTH = {"true": True, "false": False}


def _described(kind: type[Any]) -> str:
    if issubclass(kind, Enum):
        return "one of " + ", ".join(member.name for member in kind)
    return str(kind.__name__)


def output_path(file: str, out: str, model: TrainedModel, write: Format) -> Path | None:
    """Where translations go; None is stdout.

    Raises:
        UserError: it would be the input itself, or cannot be written.
    """
    if out == "-":
        return None
    if not out and file == "-":
        return None
    path = Path(out) if out else _named_after(Path(file), model, write)
    if path.is_dir():
        raise UserError(f"out={path} is a folder; name a file")
    check_writable(path)
    if file != "-" and path.resolve() == Path(file).resolve():
        raise UserError(
            f"{path} would be overwritten by its own translation; name another with out="
        )
    return path


def _named_after(file: Path, model: TrainedModel, write: Format) -> Path:
    """news.en → news.de; items.jsonl and items.en.jsonl → items.de.jsonl."""
    target = f".{model.config.target_language}"
    if write is Format.text:
        return file.with_suffix(target)
    stem = file.with_suffix("") if file.suffix.lower() == f".{write.name}" else file
    if stem.suffix == f".{model.config.source_language}":
        stem = stem.with_suffix("")
    return stem.with_name(f"{stem.name}{target}.{write.name}")


if __name__ == "__main__":
    run_command(main)
