"""Make training pairs from text in the target language: translate it back.

nmt backtranslate file=mono.de model=FOLDER     → mono.de.back/train.{en,de}

For a corpus en-de, the model translates from de to en. Then train with
corpus.sources.back.path=mono.de.back; see docs/guides/your-text.md.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.base.errors import UserError
from nmt.base.files import check_readable, iterate_lines, to_lines
from nmt.base.log import print_line, print_written
from nmt.cli.application import application
from nmt.cli.models import ModelArguments, check_languages, model_folder, open_model
from nmt.config import TextFormat, checked_dataclass, search_keys

if TYPE_CHECKING:
    from nmt.translation.request import Request, Translation


@checked_dataclass
class _Arguments(ModelArguments):
    model: str = field()
    """Model or run folder that translates from the target language of the corpus."""
    file: str
    """Text in the target language of the corpus, one sentence per line, UTF-8."""
    out: str = ""
    """Output folder, which gets train.<language> of both languages (default: FILE.back)."""
    resume: bool = True
    """Continue an interrupted translation; false starts from the beginning."""


def _pairs(requests: Sequence["Request"], found: Sequence[Sequence["Translation"]]) -> list[str]:
    """Return a text of the translations and a text of the original lines.

    Both have an empty line instead of a pair in which one side is empty.
    """
    best = [translations[0].text.strip() for translations in found]
    pairs = zip(best, [request.source for request in requests], strict=True)
    kept = [pair if all(map(str.strip, pair)) else ("", "") for pair in pairs]
    return [to_lines(pair[side] for pair in kept) for side in (0, 1)]


@application(_Arguments)
def main(arguments: _Arguments) -> None:
    """Run the command."""
    from nmt.trained_model import weights_digest
    from nmt.translation.files import translate_to_files
    from nmt.translation.formats import LineReader
    from nmt.translation.lines import LineTranslator
    from nmt.translation.pipeline import Pipeline
    from nmt.translation.translator import Translator

    file = Path(arguments.file)
    check_readable(file)
    folder = model_folder(arguments.model)
    model = open_model(folder, arguments.device)
    source, target = model.config.languages
    out = Path(arguments.out or f"{file}.back")
    outs = [out / f"train.{target}", out / f"train.{source}"]
    check_languages(model.config.direction, file, outs[0])
    decoding = arguments.decoding_config(model)
    if "num_best" in arguments.decoding:
        raise UserError("decoding.num_best has no effect here: each line gives one pair")
    pipeline = Pipeline(Translator(model, decoding))
    translator = LineTranslator(str(file), LineReader(TextFormat.text), pipeline, _pairs)
    settings = {"model": weights_digest(folder), **search_keys(decoding)}
    outs = translate_to_files(translator, file, outs, settings, [folder], arguments.resume)
    lines = Counter(bool(line) for line in iterate_lines(outs[0]))
    print_line(
        f"{lines[True]:,} pairs; lines without one, because text or translation is empty:"
        f" {lines[False]:,}"
    )
    print_written(outs)
