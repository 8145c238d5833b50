"""Import a model of Marian or OPUS-MT, or an export of this program with format=huggingface.

nmt import folder=opus-mt-en-de
nmt import folder=Helsinki-NLP/opus-mt-en-de
"""

import random
import re
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from nmt.base.errors import UserError, first_line, one_line
from nmt.base.files import iterate_lines
from nmt.base.log import print_line, print_written
from nmt.base.outputs import Outputs
from nmt.cli.application import application
from nmt.config import checked_dataclass
from nmt.evaluation.model_card import Facts, model_card
from nmt.exchange.foreign_tokenizer import plain_piece
from nmt.exchange.registry import open_importer
from nmt.exchange.verify import Text, compare
from nmt.trained_model import TrainedModel, save_trained_model

_NUM_TEXTS = 1_000
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_HUB_FILES = ["*config.json", "*vocab.json", "added_tokens.json", "source.spm", "target.spm"]
# One file of weights, or several (`model-00001-of-00002.safetensors`) with an index.
_HUB_WEIGHTS = (
    ["model.safetensors", "model.safetensors.index.json", "model-*.safetensors"],
    ["pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*.bin"],
)


@checked_dataclass
class _Arguments:
    folder: str = ""
    """Folder of the model, or its name on the Hugging Face hub (for make: FROM=)."""
    out: str = ""
    """New model folder (default: outputs/imports/<name of the folder>)."""
    direction: str = ""
    """Source and target language, such as en-de (default: those that the folder names)."""
    check: str = ""
    """Text in the source language; the model and the original are compared on its first 1,000 lines
    (default: random pieces of the vocabulary)."""


@application(_Arguments)
def main(arguments: _Arguments) -> None:
    """Run the command."""
    if not arguments.folder:
        raise UserError(
            "folder= is missing (for make: FROM=): name a folder of another program, or a"
            " model of the Hugging Face hub"
        )
    name = Path(arguments.folder)
    out = Path(arguments.out or Path("outputs", "imports", name.resolve().name))
    with Outputs.folder(out) as outputs, tempfile.TemporaryDirectory() as temporary:
        if arguments.check:
            next(iterate_lines(Path(arguments.check)), None)  # before long work
        folder, workspace = Path(temporary, name.name), Path(temporary, "tokenizers")
        workspace.mkdir()
        if not name.is_dir():
            _download(arguments.folder, folder)
        try:
            _import(arguments, name if name.is_dir() else folder, workspace, outputs)
        except UserError as error:  # the message quotes files of unknown origin
            raise UserError(one_line(error)) from None
    print_written(outputs.written_files())


def _import(arguments: _Arguments, folder: Path, workspace: Path, outputs: Outputs) -> None:
    importer = open_importer(folder, arguments.folder)
    model = importer.load(folder, workspace, arguments.direction)
    print_line(f"model: {model.config.direction}")
    lines = iterate_lines(Path(arguments.check)) if arguments.check else _made_up(model)
    sources = list(islice(lines, _NUM_TEXTS))
    text = Text(f"{len(sources):,} lines", sources)
    compared = compare(lambda: importer.open(model, folder), model, text)
    for line in compared:
        print_line(line)
    notes = [f"imported from {one_line(arguments.folder)}", *_languages(model)]
    readme = model_card(model, Facts(notes=notes), verification=compared)
    with outputs.written() as [out]:
        save_trained_model(model, out, {"notes": notes}, readme)


def _download(name: str, folder: Path) -> None:
    """Download a model of the hub: its configuration, its vocabularies, and its weights."""
    if not _HUB_NAME.fullmatch(name):
        raise UserError(f"{name}: no such folder, and no name such as Helsinki-NLP/opus-mt-en-de")
    from huggingface_hub import snapshot_download

    print_line(f"downloading {name}")
    for weights in _HUB_WEIGHTS:
        try:
            snapshot_download(name, local_dir=folder, allow_patterns=[*_HUB_FILES, *weights])
        except Exception as error:  # the hub's HTTP client raises errors of many types
            raise UserError(
                f"{name}: no such folder, and not downloaded from the hub: {first_line(error)}"
            ) from None
        if any((folder / weight).exists() for weight in weights):
            return


def _made_up(model: TrainedModel) -> Iterator[str]:
    """Yield texts of random pieces of the source vocabulary."""
    generator, tokenizer = random.Random(1), model.source_tokenizer
    ids = [index for index in range(tokenizer.vocabulary_size) if index != tokenizer.unknown_id]
    for _ in range(_NUM_TEXTS):
        [text] = tokenizer.decode([generator.choices(ids, k=generator.randint(3, 20))])
        if text.isprintable() and "\ufffd" not in text:  # U+FFFD stands for invalid UTF-8
            yield text


def _languages(model: TrainedModel) -> list[str]:
    """Return a sentence on the choice of the target language, if the model has several."""
    pieces = map(plain_piece, model.source_tokenizer.all_pieces())
    names = [one_line(piece) for piece in pieces if piece.startswith(">>")]
    line = f"each source text begins with its target language, one of {', '.join(names)}"
    return [line] if names else []
