"""Translate text: N lines in, N lines out.

nmt translate file=news.en                    → news.de
nmt translate file=- < news.en > news.de      line by line as they arrive
nmt translate file=items.jsonl                → items.de.jsonl
nmt translate file=report.docx                → report.de.docx, with its layout

With decoding.num_best above 1, a line has several translations, best first, separated by tabs.
JSON lines are objects with the text in the key source; the output adds the key translations. The
keys prefix, required and banned constrain the translations. docs/guides/translate.md has examples.
"""

import hashlib
import io
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.base.errors import UserError
from nmt.base.files import check_readable
from nmt.base.log import print_line, print_written
from nmt.base.progress import progress_bar
from nmt.cli.application import application
from nmt.cli.common import open_output, parse_folders
from nmt.cli.models import TranslatorArguments, model_folder, open_model
from nmt.config import (
    EngineName,
    EvaluationConfig,
    TextFormat,
    Utility,
    checked_dataclass,
    option,
    require,
    search_keys,
    to_plain,
)

if TYPE_CHECKING:
    from nmt.trained_model import TrainedModel
    from nmt.translation.formats import LineReader
    from nmt.translation.pipeline import Pipeline

# Arguments that, besides models and the search, change the output.
_SETTINGS = (
    *("input_format", "format", "column", "document", "protect", "checks", "mbr", "alignment"),
    *("alignment_layer", "engine", "compute_type", "glossary"),
)


@checked_dataclass
class _Arguments(TranslatorArguments):
    file: str
    """The text: one sentence per line, UTF-8; - reads stdin; or a document: docx, pptx,
    xlsx, odt, html, md, srt, vtt, xlf, po, json or idml."""
    ensemble: str = ""
    """Folders of further models with the same vocabularies, for an ensemble; a name with spaces is
    quoted: "'my model' B"."""
    out: str = ""
    """Output (default: FILE with the ending of the target language, or stdout for stdin); - is
    stdout."""
    format: TextFormat | None = None
    """Output format (default: as input_format, else by the ending of FILE)."""
    input_format: TextFormat | None = None
    """Input format (default: by the ending of FILE; for stdin, the output format)."""
    column: int = option(1, ge=1, le=10_000)
    """tsv: column to translate, counted from 1; the other columns are kept."""
    document: bool = False
    """Each line is a paragraph of several sentences, to be translated sentence by sentence; the
    source of a JSON line may contain several such lines."""
    protect: bool = False
    """Keep tags, entities, addresses, paths, code in backquotes, placeholders such as {name} and
    numbers with units as they are; of ICU plurals and selects, translate the texts."""
    checks: bool = False
    """Compare each translation with its source: tags and placeholders, numbers, dates, brackets,
    the mark at the end, the length. A line that lost a number is translated again with it."""
    mbr: Utility | None = None
    """Of the decoding.num_best translations, choose the one that by this measure is most similar to
    all of them (minimum Bayes risk), instead of the most probable one."""
    alignment: bool = False
    """Write the links between source and target words, as 0-0 1-2: into a key of JSON lines, or
    for other formats into a file OUT.align."""
    alignment_layer: int = option(0, ge=0, le=200)
    """Decoder layer to align with, counted from 1; 0 takes the last but one of four or more layers,
    else the last."""
    resume: bool = True
    """Continue an interrupted translation; false starts from the beginning."""


@application(_Arguments)
def main(arguments: _Arguments) -> None:
    """Run the command."""
    from nmt import trained_model
    from nmt.documents import is_document
    from nmt.translation.alignment import Aligner
    from nmt.translation.confidence import confidence_of
    from nmt.translation.formats import LineReader, choose_formats
    from nmt.translation.mbr import expected_utilities
    from nmt.translation.pipeline import Pipeline
    from nmt.translation.protection import Protection

    file = None if arguments.file == "-" else Path(arguments.file)
    if file is not None:
        check_readable(file)
    # With a format, a file is read line by line, whatever its ending.
    has_format = arguments.format or arguments.input_format
    document = file if file and not has_format and is_document(file) else None
    protects = arguments.protect or document is not None
    needs_aligner = arguments.alignment or protects
    require(
        not arguments.alignment_layer or needs_aligner,
        f"alignment_layer={arguments.alignment_layer} has no effect without alignment=true or"
        " protect=true",
    )
    ignored = {"alignment=true": arguments.alignment, "column=": arguments.column > 1}
    if names := [name for name, is_given in ignored.items() if document and is_given]:
        raise UserError(f"{names[0]} does not apply to {file}; remove it")
    read, write = choose_formats(file, arguments.input_format, arguments.format)
    reader = LineReader(read, arguments.column)
    ensemble = map(trained_model.model_folder, parse_folders(arguments.ensemble))
    folders = [model_folder(arguments.model), *ensemble]
    model, *others = [open_model(folder, arguments.device) for folder in folders]
    if write is TextFormat.jsonl and arguments.engine is EngineName.auto:
        arguments = replace(arguments, engine=EngineName.torch)  # for token_log_probs
    translator = arguments.translator(model, folders[0], others)
    if arguments.mbr and translator.config.num_best == 1:
        raise UserError("mbr= needs alternatives: add decoding.num_best=8 decoding.beam_size=8")
    aligner = Aligner(model, arguments.alignment_layer) if needs_aligner else None
    protection = Protection(aligner) if aligner and protects else None
    tokenizer = EvaluationConfig().tokenizer_of(model.config.target_language)  # of BLEU
    pipeline = Pipeline(
        translator,
        model.config.source_language if arguments.document or document else "",
        protection,
        partial(expected_utilities, utility=arguments.mbr, tokenizer=tokenizer)
        if arguments.mbr
        else None,
        aligner if arguments.alignment or document else None,
        # JSON lines have the alignments of all translations.
        aligns_all=write is TextFormat.jsonl,
        checks=arguments.checks,
        confidence=confidence_of(folders[0], model) if write is TextFormat.jsonl else None,
    )
    if document:
        outs = _translate_document(arguments.out, document, model, pipeline, folders)
    else:
        outs = _translate_lines(arguments, file, reader, write, model, pipeline, folders)
    if protection and (arguments.protect or any(vars(protection.counts).values())):
        print_line(str(protection.counts))
    if translator.glossary:
        print_line(str(translator.glossary.counts))
    if outs:
        print_written(outs)


def _translate_lines(
    arguments: _Arguments,
    file: Path | None,
    reader: "LineReader",
    write: TextFormat,
    model: "TrainedModel",
    pipeline: "Pipeline",
    folders: list[Path],
) -> list[Path]:
    """Translate lines of text; return the files that were written, none for stdout."""
    from nmt import trained_model
    from nmt.base.stdin import Stdin
    from nmt.translation.files import translate_to_files, translate_to_stream
    from nmt.translation.formats import LineWriter, output_name
    from nmt.translation.lines import LineTranslator

    writer = LineWriter(
        write, model.target_tokenizer, arguments.column, arguments.alignment, arguments.checks
    )
    lines = LineTranslator(str(file or "stdin"), reader, pipeline, writer.texts)
    ending = "" if write is TextFormat.text else f".{write.name}"
    default = file and output_name(file, *model.config.languages, ending)
    out = Path(arguments.out) if arguments.out else default
    if out is not None and arguments.out != "-":
        outs = [out, *([Path(f"{out}.align")] if writer.aligns_beside else [])]
        given = {**to_plain(arguments), "input_format": reader.format.name, "format": write.name}
        settings = {
            **{name: given[name] for name in _SETTINGS},
            "models": [trained_model.weights_digest(folder) for folder in folders],
            **search_keys(pipeline.translator.config),
        }
        if name := arguments.glossary:  # a changed one would not fit what is translated already
            digest = hashlib.sha256(Path(name).read_bytes()).hexdigest()[:16]
            settings["SHA-256 of the glossary"] = digest
        # The file beside a source is often its reference, so only out= may replace a file.
        replaces = bool(arguments.out)
        source = file or io.BufferedReader(Stdin())
        return translate_to_files(
            lines, source, outs, settings, folders, arguments.resume, replaces
        )
    if writer.aligns_beside:
        raise UserError("alignment=true needs a file beside the output: give format=jsonl or out=")
    with open_output("-", Path()) as (stdout, paths):
        translate_to_stream(lines, file, stdout)
    return paths


def _translate_document(
    out: str, file: Path, model: "TrainedModel", pipeline: "Pipeline", folders: list[Path]
) -> list[Path]:
    """Translate a document with its layout; return the file that was written, if any."""
    from nmt.documents import open_document
    from nmt.documents.translate import translate_document
    from nmt.translation.formats import output_name
    from nmt.translation.request import notes_on

    document = open_document(file, *model.config.languages)
    default = output_name(file, *model.config.languages, file.suffix)
    with open_output(out, default, [file, *folders]) as (stream, paths):
        with progress_bar("translating", len(document.units)) as advance:
            data, found = translate_document(document, pipeline, advance)
        for note in notes_on(found, unit="paragraph"):
            print_line(note)
        stream.flush()
        stream.buffer.write(data)
    return paths
