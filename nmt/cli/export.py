"""Convert a trained model for another program.

nmt export model=FOLDER format=ctranslate2
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.base.errors import UserError
from nmt.base.layout import EXPORT_FILE, README_FILE, SCORES_FILE
from nmt.base.log import print_line, print_written
from nmt.base.outputs import Outputs
from nmt.cli.application import application
from nmt.cli.models import check_languages, model_folder, open_model
from nmt.config import ExportFormat, checked_dataclass

if TYPE_CHECKING:
    from nmt.exchange.verify import Text
    from nmt.trained_model import TrainedModel

_MAX_SENTENCES = 3_000


@checked_dataclass
class _Arguments:
    model: str = ""
    """Model or run folder (default: the last completed run)."""
    format: ExportFormat = ExportFormat.ctranslate2
    """Program or format that the model is converted for."""
    out: str = ""
    """Output folder; an earlier export there is replaced (default: the model folder's name with the
    format at its end)."""
    compute_type: str = ""
    """With format=ctranslate2 or argos, the type in which weights are stored: float32, float16,
    bfloat16, int8 or int16 (default: float32)."""
    source: str = ""
    """File with the text to translate in a comparison of the export with the model (default: the
    validation text of the run's corpus)."""
    reference: str = ""
    """File with the references of source."""


@application(_Arguments)
def main(arguments: _Arguments) -> None:
    """Run the command."""
    from nmt.evaluation.model_card import model_card, read_facts
    from nmt.exchange.registry import open_exporter
    from nmt.exchange.verify import compare
    from nmt.model.build import count_parameters

    folder = model_folder(arguments.model)
    model = open_model(folder, "cpu")
    default = os.path.relpath(f"{os.path.abspath(folder)}-{arguments.format}")
    out = Path(arguments.out or default)
    with Outputs.folder(out, record=EXPORT_FILE) as outputs:
        exporter = open_exporter(arguments.format, arguments.compute_type)
        exporter.check(model)
        text = _text(arguments, folder, model)
        with outputs.written(4 * count_parameters(model.network)) as [temporary]:
            exporter.export(model, temporary)
            lines = compare(lambda: exporter.open(model, temporary), model, text)
            if text is None:
                lines.append("no text was translated; name some with source= and reference=")
            facts = read_facts(folder / SCORES_FILE)
            card = model_card(
                model.config, count_parameters(model.network), facts, exporter.usage(model), lines
            )
            (temporary / README_FILE).write_text(card, encoding="utf-8")
    for line in lines:
        print_line(line)
    print_written(outputs.written_files())


def _text(arguments: _Arguments, folder: Path, model: "TrainedModel") -> "Text | None":
    """Read the text of the comparison; None if none is named and the corpus is unknown."""
    from nmt.evaluation.evaluate import corpus_test_set, files_test_set
    from nmt.evaluation.systems import open_system
    from nmt.exchange.verify import Text

    if bool(arguments.source) != bool(arguments.reference):
        raise UserError("give source= and reference= together")
    if arguments.source:
        source, reference = Path(arguments.source), Path(arguments.reference)
        check_languages(model.config.direction, source, reference)
        test_set = files_test_set(source, reference, model.config.languages)
    else:
        corpus = open_system(folder).corpus
        if corpus is None:
            return None
        test_set = corpus_test_set(corpus, "valid")
    sources = test_set.sources[:_MAX_SENTENCES]
    references = test_set.references[0][:_MAX_SENTENCES]
    return Text(f"the first {len(sources):,} lines of {test_set.name}", sources, references)
