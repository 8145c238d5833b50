"""Make training pairs of text in the target language alone: its translations become the sources.

python -m nmt.cli.backtranslate file=mono.de model=FOLDER     → mono.de.back/train.{en,de}
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nmt.cli.common import name_files, parse_arguments, run_command, set_up_logging
from nmt.cli.translate import decoding_config, open_model
from nmt.cli.translating import Work, checked_length, raw_lines, translate_to_files
from nmt.config import is_language_code, search_keys
from nmt.decoding.formats import Format, Item, LineReader, LineWriter
from nmt.decoding.pipeline import Pipeline
from nmt.decoding.translator import Translator
from nmt.errors import UserError
from nmt.files import check_readable, check_writable, iterate_lines
from nmt.part_files import PartFiles
from nmt.trained_model import weights_digest

# Not __name__, which is __main__ when the module is the command.
logger = logging.getLogger("nmt.cli")

USAGE = """python -m nmt.cli.backtranslate file=FILE model=FOLDER [out=FOLDER] [key=value …]

  file=FILE       text in the target language of the corpus, one sentence a line, UTF-8
  model=FOLDER    a trained model of the other direction: for a corpus en-de, one of de-en
  out=FOLDER      where to (default: FILE.back); it gets train.<language> of both languages
  tag=TAG         put before each translation, so that training can tell it from text that people
                  wrote (default: <BT>; empty: none)
  resume=false    begin anew, and do not go on with what an interruption has left
  decoding.KEY=…  the search (default: what the model was scored with)
  device=DEVICE   cpu or cuda (default: cuda where there is one)
Then train with corpus.more_path=FOLDER corpus.copies=N; docs/translating.md explains them."""

TAG = "<BT>"


@dataclass(frozen=True)
class Arguments:
    """Arguments of the command; `USAGE` explains them."""

    file: str = ""
    model: str = ""
    out: str = ""
    tag: str = TAG
    device: str = ""
    resume: bool = True
    decoding: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BackTranslation(Work):
    """Two texts of each chunk: translations with a tag, and the lines themselves.

    Attributes:
        tag: what stands before each translation.
    """

    tag: str = TAG

    def texts(
        self, items: list[Item], first: int, progress: Callable[[float], None] | None = None
    ) -> list[str]:
        """Lines without words, and those whose translation is empty, give nothing."""
        answers = self.pipeline.answers(items, progress, first)
        pairs = [
            (answer.translations[0].text.strip(), item.source)
            for item, answer in zip(items, answers, strict=True)
        ]
        kept = [(source, target) for source, target in pairs if source and target.strip()]
        tag = f"{self.tag} " if self.tag else ""
        return [
            "".join(f"{tag}{source}\n" for source, _ in kept),
            "".join(f"{target}\n" for _, target in kept),
        ]


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments, USAGE)
    set_up_logging()
    if not arguments.file:
        raise UserError("file= is missing: name text in the target language of the corpus")
    if arguments.tag.split() != ([arguments.tag] if arguments.tag else []):
        raise UserError(f"tag={arguments.tag!r} has white space; a tag is one word")
    file = Path(arguments.file)
    check_readable(file)
    out = Path(arguments.out or f"{file}.back")
    if not arguments.model:
        raise UserError("model= is missing: name a model of the other direction")
    folder = Path(arguments.model)
    model = open_model(folder, arguments.device)
    ours, theirs = model.config.source_language, model.config.target_language
    ending = file.suffix.removeprefix(".")
    if ending == theirs and is_language_code(ending):
        raise UserError(
            f"{file} is {theirs} by its name, and the model translates {ours} into {theirs}; name a"
            f" model that translates from {theirs}"
        )
    decoding = decoding_config(model, arguments.decoding)
    work = BackTranslation(
        str(file),
        LineReader(Format.text),
        Pipeline(Translator(model, decoding, logger.warning)),
        LineWriter(Format.text, model.target_tokenizer),
        tag=arguments.tag,
    )
    # The sources of the corpus to be are what the model gives.
    outs = [out / f"train.{theirs}", out / f"train.{ours}"]
    check_writable(outs[0])
    total = checked_length(work, file)
    made_with = {
        "model": weights_digest(folder),
        "tag": arguments.tag,
        **search_keys(decoding),
    }
    # Out may be a folder of text that people wrote.
    with PartFiles.opened(outs, made_with, arguments.resume, replaces=False) as parts:
        translate_to_files(work, raw_lines(file), parts, file.stat().st_size, total)
    num_pairs = sum(1 for _ in iterate_lines(outs[0]))
    logger.info(
        "%s pairs; %s lines gave none: they or their translations are empty",
        f"{num_pairs:,}",
        f"{total - num_pairs:,}",
    )
    name_files(outs)


if __name__ == "__main__":
    run_command(main)
