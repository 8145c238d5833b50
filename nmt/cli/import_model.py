"""Import a model of Marian, OPUS-MT or Hugging Face.

nmt import folder=opus-mt-en-de
nmt import folder=Helsinki-NLP/opus-mt-en-de

Of Hugging Face, these are OPUS-MT's models and exports of this program (format=huggingface).
"""

import re
import tempfile
from itertools import islice
from pathlib import Path

from nmt.base.errors import UserError, first_line, one_line
from nmt.base.files import iterate_lines, write_json, write_texts
from nmt.base.layout import CONFIG_FILE, README_FILE, SCORES_FILE, WEIGHTS_FILE
from nmt.base.log import print_line, print_written
from nmt.base.outputs import Outputs, files_below
from nmt.cli.application import application
from nmt.config import checked_dataclass, from_mapping, save_config
from nmt.exchange.confined import run_confined
from nmt.exchange.import_request import NUM_TEXTS, Imported, Limits, Request

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_HUB_FILES = ["*config.json", "*vocab.json", "added_tokens.json", "source.spm", "target.spm"]
# One file of weights, or several (`model-00001-of-00002.safetensors`) with an index.
_HUB_WEIGHTS = (
    ["model.safetensors", "model.safetensors.index.json", "model-*.safetensors"],
    ["pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*.bin"],
)


@checked_dataclass
class _Arguments:
    folder: str
    """Folder of the model, or its name on the Hugging Face hub."""
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
    name = Path(arguments.folder)
    out = Path(arguments.out or Path("outputs", "imports", name.resolve().name))
    lines = iterate_lines(Path(arguments.check)) if arguments.check else []
    texts = list(islice(lines, NUM_TEXTS))
    with Outputs.folder(out) as outputs, tempfile.TemporaryDirectory() as temporary:
        folder, workspace = name, Path(temporary, "workspace")
        workspace.mkdir()
        if not name.is_dir():
            folder = Path(temporary, name.name)
            _download(arguments.folder, folder)
        with outputs.written() as [new]:
            request = Request(
                folder=str(folder.absolute()),
                name=arguments.folder,
                workspace=str(workspace),
                out=str(new.absolute()),
                direction=arguments.direction,
                texts=texts,
                limits=Limits.of_folder(folder),
            )
            _complete(new, run_confined(request), arguments.folder)
    print_written(outputs.written_files())


def _complete(folder: Path, result: Imported, name: str) -> None:
    """Check what the process has written, and write all but weights and tokenizers again."""
    from nmt.evaluation.model_card import Facts, model_card
    from nmt.tokenizer import tokenizer_files
    from nmt.trained_model import TrainedModelConfig

    config: TrainedModelConfig = from_mapping(TrainedModelConfig, result.config, name)
    files = tokenizer_files(config.joint_vocabulary, *config.languages)
    expected = {CONFIG_FILE, WEIGHTS_FILE, SCORES_FILE, README_FILE, *files}
    if set(files_below(folder)) != expected or any(path.is_symlink() for path in folder.iterdir()):
        raise UserError(f"{name}: cannot be imported: the import wrote other files than expected")
    for line in result.compared:
        print_line(line)
    notes = [f"imported from {one_line(name)}"]
    if result.languages:
        languages = ", ".join(result.languages)
        notes.append(f"each source text begins with its target language, one of {languages}")
    facts = Facts(notes=notes)
    save_config(config, folder / CONFIG_FILE)
    write_json(folder / SCORES_FILE, {"notes": notes})
    readme = model_card(config, result.num_parameters, facts, verification=result.compared)
    write_texts({folder / README_FILE: readme})


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
        if any(any(folder.glob(weight)) for weight in weights):
            return
    raise UserError(f"{name}: the hub has no weights of it that can be imported")
