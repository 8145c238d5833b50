"""Translate text: N lines in, N lines out.

python -m nmt.cli.translate file=news.en                    → news.de
python -m nmt.cli.translate file=- < news.en > news.de      line by line as they arrive
python -m nmt.cli.translate file=items.jsonl                → items.de.jsonl

With decoding.num_best above 1 each line has the translations, best first, separated by tabs.
JSON lines are objects with the key source, to which translations are added; the keys prefix,
required and banned constrain them. docs/translating.md has examples.
"""

import io
import logging
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nmt.base.errors import UserError
from nmt.base.files import check_readable, writing
from nmt.cli.arguments import STDOUT, parse_arguments
from nmt.cli.common import (
    check_output,
    parse_folders,
    print_written,
    run_command,
    set_up_logging,
    stdout,
)
from nmt.cli.models import (
    EngineArguments,
    ModelArguments,
    decoding_config,
    model_folder,
    open_model,
)
from nmt.cli.translating import translate_to_files
from nmt.config import DecodingConfig, bounded, search_keys
from nmt.exchange.engines import open_engine
from nmt.trained_model import TrainedModel, weights_digest
from nmt.translation.alignment import Aligner
from nmt.translation.formats import Format, LineReader, LineWriter, check_formats
from nmt.translation.lines import LineTranslator, arriving_chunks, chunks_of, raw_lines
from nmt.translation.mbr import Utility, expected_utilities
from nmt.translation.pipeline import Pipeline, Utilities
from nmt.translation.protection import ProtectingTranslator
from nmt.translation.translator import Translator

logger = logging.getLogger("nmt.cli")  # not __name__, which is __main__ for a command


@dataclass(frozen=True, kw_only=True)
class Arguments(EngineArguments, ModelArguments):
    """Arguments of the command."""

    file: str
    """The text to translate, one sentence per line, UTF-8; - reads stdin."""
    ensemble: str = ""
    """Folders of further models of the same vocabularies, to translate with together; a name with
    spaces is quoted: "'my model' B"."""
    out: str = ""
    """Output (default: FILE with the ending of the target language); - is stdout."""
    format: Format | None = None
    """Output format (default: as input_format, else by the ending of FILE)."""
    input_format: Format | None = None
    """Input format (default: by the ending of FILE; of stdin, that of format)."""
    column: int = bounded(1, 1, 10_000)
    """tsv: column to translate, counted from 1; the others are kept."""
    document: bool = False
    """Each line is a paragraph of several sentences, to be translated sentence by sentence; a
    source of JSON lines may have several lines."""
    protect: bool = False
    """Keep tags, addresses and placeholders such as {name} as they are."""
    mbr: Utility | None = None
    """Of the decoding.num_best translations choose the one most similar to all of them (minimum
    Bayes risk) instead of the most probable."""
    alignment: bool = False
    """Write which source word each word is from, as 0-0 1-2: in JSON lines a key, else a file
    OUT.align."""
    alignment_layer: int = bounded(0, 0, 200)
    """Decoder layer to align with, counted from 1; 0 chooses one."""
    resume: bool = True
    """Continue an interrupted translation; false starts again."""


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments)
    set_up_logging()
    file = None if arguments.file == "-" else Path(arguments.file)
    read, write = choose_formats(file, arguments.input_format, arguments.format)
    reader = LineReader(read, arguments.column)
    if arguments.alignment_layer and not (arguments.alignment or arguments.protect):
        layer = arguments.alignment_layer
        raise UserError(f"alignment_layer={layer} has no effect without alignment=true")
    if file is not None:
        check_readable(file)
    folder = model_folder(arguments.model)
    model = open_model(folder, arguments.device)
    decoding = decoding_config(model, arguments.decoding)
    others = [model_folder(str(other)) for other in parse_folders(arguments.ensemble)]
    models = [open_model(other, arguments.device) for other in others]
    engine = open_engine(arguments.engine, arguments.compute_type, model, decoding, models)
    plain = Translator(model, decoding, logger.warning, engine)
    aligner = Aligner(model, arguments.alignment_layer)
    translator = ProtectingTranslator(plain, aligner) if arguments.protect else plain
    aligns_beside = arguments.alignment and write is not Format.jsonl
    pipeline = Pipeline(
        translator,
        aligner if arguments.alignment else None,
        _utilities(arguments.mbr, decoding),
        model.config.source_language if arguments.document else "",
        logger.warning,
        aligns_all=not aligns_beside,
    )
    writer = LineWriter(write, model.target_tokenizer, arguments.column)
    lines = LineTranslator(
        arguments.file if file else "stdin", reader, pipeline, writer, aligns_beside
    )
    out = output_path(file, arguments.out, model, write)
    if out is None and aligns_beside:
        raise UserError("alignment=true needs a file beside the output: give format=jsonl or out=")
    outs = [] if out is None else [out, *([Path(f"{out}.align")] if aligns_beside else [])]
    if outs:
        settings = _settings(arguments, [folder, *others], decoding, read, write)
        # The file beside a source is often its reference; a name that was given may be replaced.
        overwrite = bool(arguments.out)
        source = file or iter(_stdin())
        translate_to_files(lines, source, outs, settings, arguments.resume, overwrite)
    else:
        _translate_to_stdout(lines, file)
    if isinstance(translator, ProtectingTranslator):
        logger.info("%s", translator.counts)
    if outs:
        print_written(outs)


def _translate_to_stdout(lines: LineTranslator, file: Path | None) -> None:
    sink = stdout()
    if file is None:
        chunks = arriving_chunks(_stdin().raw.read, lines.name)
    else:
        for _ in lines.read(raw_lines(file)):  # report an invalid line before long work
            pass
        chunks = chunks_of(raw_lines(file))
    with writing(STDOUT):
        for _, (text,) in lines.translate(chunks):
            sink.write(text)
            sink.flush()


def _stdin() -> io.BufferedReader:
    if sys.stdin is None:
        raise UserError("file=-: there is no stdin, because it is closed; name a file")
    stream = sys.stdin.buffer
    assert isinstance(stream, io.BufferedReader)
    return stream


def choose_formats(
    file: Path | None, read: Format | None, write: Format | None
) -> tuple[Format, Format]:
    """Return the formats of input and output: those given, else by the ending of the file."""
    ending = file.suffix.removeprefix(".").lower() if file else ""
    by_ending = Format[ending] if ending in ("jsonl", "tsv") else Format.text
    write = write or read or by_ending
    # A file of another ending may have columns.
    is_columns = write is Format.tsv and by_ending is Format.text
    read = read or (write if file is None or is_columns else by_ending)
    check_formats(read, write)
    return read, write


def _utilities(utility: Utility | None, decoding: DecodingConfig) -> Utilities | None:
    if utility is None:
        return None
    if decoding.num_best == 1:
        raise UserError("mbr= needs several translations: decoding.num_best=8 decoding.beam_size=8")
    return partial(expected_utilities, utility=utility)


def _settings(
    arguments: Arguments, folders: list[Path], decoding: DecodingConfig, read: Format, write: Format
) -> dict[str, Any]:
    """Return what the translations depend on besides the input, to check before resuming."""
    left_out = ("file", "out", "resume", "model", "ensemble", "device", "decoding")
    given = {key: value for key, value in vars(arguments).items() if key not in left_out}
    given |= {"input_format": read, "format": write}
    return {
        **{key: getattr(value, "name", value) for key, value in given.items()},
        "models": [weights_digest(folder) for folder in folders],
        **search_keys(decoding),
    }


def output_path(file: Path | None, out: str, model: TrainedModel, write: Format) -> Path | None:
    """Return the output file, or None for stdout."""
    if out == "-" or (not out and file is None):
        return None
    path = Path(out) if out or file is None else _named_after(file, model, write)
    check_output(path, *([file] if file else []))
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
