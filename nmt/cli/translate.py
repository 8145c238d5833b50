"""Translate raw text: N lines in, N lines out.

python -m nmt.cli.translate file=news.en                    → news.de
python -m nmt.cli.translate file=- < news.en > news.de      line by line as they come
"""

import logging
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO

import torch
from rich.progress import Progress

from nmt.cli.common import (
    STDOUT,
    console,
    name_files,
    parse_arguments,
    run_command,
    set_up_logging,
)
from nmt.cli.engines import USAGE_LINES, EngineName, open_engine
from nmt.config import DecodingConfig
from nmt.decoding.translator import Translation, Translator
from nmt.errors import UserError
from nmt.files import (
    atomic_writer,
    check_readable,
    check_writable,
    decode_line,
    iterate_lines,
    writing,
)
from nmt.trained_model import TrainedModel, load_trained_model
from nmt.training.experiment import find_model

# Not __name__, which is __main__ when the module is the command.
logger = logging.getLogger("nmt.cli")

USAGE = f"""python -m nmt.cli.translate file=FILE [model=FOLDER] [out=FILE] [key=value …]

  file=FILE       text to translate, one sentence a line, UTF-8; - streams stdin to stdout
  model=FOLDER    a trained model's folder (default: that of the last completed run)
  out=FILE        where to (default: FILE with the target language's ending; - is stdout)
  decoding.KEY=…  beam_size, length_penalty, num_best, batch_size, max_length_ratio, …
                  (default: what the model was scored with)
  device=DEVICE   cpu or cuda (default: cuda where there is one)
{USAGE_LINES}
With decoding.num_best above 1 each line holds the translations, best first, split by tabs."""

# Lines held in memory at a time; sentences of like length are found among so many.
_CHUNK_LINES = 8192


@dataclass(frozen=True)
class Arguments:
    """Arguments of the command; `USAGE` explains them."""

    file: str = ""
    model: str = ""
    out: str = ""
    device: str = ""
    engine: EngineName = EngineName.torch
    compute_type: str = ""
    decoding: dict[str, str] = field(default_factory=dict)


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments, USAGE)
    set_up_logging()
    if not arguments.file:
        raise UserError("file= is missing: name the text to translate, or - for stdin")
    streams = arguments.file == "-"
    if not streams:
        check_readable(Path(arguments.file))
    folder = Path(arguments.model) if arguments.model else find_model()
    model = open_model(folder, arguments.device)
    config = decoding_config(model, arguments.decoding)
    engine = open_engine(arguments.engine, arguments.compute_type, model, config, folder)
    translator = Translator(model, config, logger.warning, engine)
    if streams and arguments.out in ("", "-"):
        with writing(STDOUT):
            _stream(translator, sys.stdin.buffer, sys.stdout)
        return
    out = output_path(arguments.file, arguments.out, model)
    lines = _decoded(sys.stdin.buffer) if streams else iterate_lines(Path(arguments.file))
    total = None if streams else sum(1 for _ in iterate_lines(Path(arguments.file)))
    if out is None:
        with writing(STDOUT):
            _translate_lines(translator, lines, sys.stdout, total)
        return
    # A translation is about as long as its source.
    needed = None if streams else Path(arguments.file).stat().st_size
    with atomic_writer(out, needed) as sink:
        _translate_lines(translator, lines, sink, total)
    name_files([out])


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
    changes: dict[str, int | float] = {}
    for key, text in overrides.items():
        if key not in known:
            raise UserError(f"decoding.{key}: no such key; the keys are {', '.join(known)}")
        try:
            changes[key] = known[key](text)
        except ValueError:
            raise UserError(f"decoding.{key}={text} is not {known[key].__name__}") from None
    return replace(stored, **changes)  # type: ignore[arg-type]


def output_path(file: str, out: str, model: TrainedModel) -> Path | None:
    """Where translations go; None is stdout.

    Raises:
        UserError: it would be the input itself, or cannot be written.
    """
    if out == "-":
        return None
    if not out and file == "-":
        return None
    path = Path(out) if out else Path(file).with_suffix(f".{model.config.target_language}")
    if path.is_dir():
        raise UserError(f"out={path} is a folder; name a file")
    check_writable(path)
    if file != "-" and path.resolve() == Path(file).resolve():
        raise UserError(
            f"{path} would be overwritten by its own translation; name another with out="
        )
    return path


def _translate_lines(
    translator: Translator, lines: Iterable[str], sink: IO[str], total: int | None
) -> None:
    iterator = iter(lines)
    done = 0
    with Progress(*Progress.get_default_columns(), console=console, transient=True) as progress:
        task = progress.add_task("translating", total=total)
        while chunk := list(islice(iterator, _CHUNK_LINES)):
            translations = translator.translate(
                chunk, lambda count: progress.advance(task, count), first_line=done + 1
            )
            sink.writelines(f"{_line(best)}\n" for best in translations)
            done += len(chunk)
            progress.update(task, completed=done)
    console.print(f"{done:,} line{'' if done == 1 else 's'} translated")


def _line(best: list[Translation]) -> str:
    return "\t".join(translation.text for translation in best)


def _decoded(stream: IO[bytes]) -> Iterator[str]:
    for number, raw in enumerate(stream, start=1):
        yield decode_line(raw, "stdin", number)


def _stream(translator: Translator, source: IO[bytes], sink: IO[str]) -> None:
    """Translate lines as they come: whatever has arrived is one batch, so none waits for more."""
    arrived: deque[bytes | None] = deque()
    ready = threading.Semaphore(0)

    def read() -> None:
        for raw in source:
            arrived.append(raw)
            ready.release()
        arrived.append(None)
        ready.release()

    threading.Thread(target=read, daemon=True).start()
    number = 0
    ended = False
    while not ended:
        ready.acquire()
        chunk: list[str] = []
        while True:
            raw = arrived.popleft()
            if raw is None:
                ended = True
                break
            chunk.append(decode_line(raw, "stdin", number + len(chunk) + 1))
            if len(chunk) == _CHUNK_LINES or not ready.acquire(blocking=False):
                break
        for best in translator.translate(chunk, first_line=number + 1):
            sink.write(f"{_line(best)}\n")
        sink.flush()
        number += len(chunk)


if __name__ == "__main__":
    run_command(main)
