"""report.html of a run: how it was trained, what it scored and how it translates, on one page.

The page needs nothing else and runs nothing; it is made of what lies in the run's folder, in its
baseline's and in its corpus's, so it can be made again at any time.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.data.corpus import PreparedCorpus
from nmt.evaluation import attention, charts
from nmt.evaluation.attention import AttentionMap, attention_map, short_sentences
from nmt.evaluation.report_sections import (
    attention_section,
    configuration_section,
    corpus_section,
    curves_section,
    environment_section,
    head_section,
    scores_section,
)
from nmt.evaluation.report_sentences import SENTENCES_STYLE, split_section
from nmt.evaluation.run_data import RunData, read_run
from nmt.files import atomic_writer
from nmt.html_page import page
from nmt.trained_model import TrainedModel

REPORT_FILE = "report.html"

_NUM_PICTURES = 3


def write_report(
    run: Path,
    result: Mapping[str, Any],
    model: TrainedModel,
    corpus: PreparedCorpus | None,
    outputs: Path,
) -> Path:
    """Write the report of a run into its folder.

    Args:
        run: the run's folder, complete but for `result.json`, which may be there or not.
        result: what `result.json` holds or will hold.
        model: the trained model, for pictures of its attention.
        corpus: the corpus that it was trained on; None where it is gone.
        outputs: the folder with the runs that the baseline is chosen among.

    Returns:
        The file.

    Raises:
        UserError: a file of the run is missing or damaged, or the report cannot be written.
    """
    data = read_run(run, result, corpus, outputs)
    path = run / REPORT_FILE
    with atomic_writer(path) as out:
        out.write(report_page(data, _pictures(data, model)))
    return path


def report_page(data: RunData, pictures: list[AttentionMap]) -> str:
    """The whole page."""
    sections = [
        head_section(data),
        scores_section(data),
        curves_section(data),
        *[
            split_section(test_set, data, number)
            for number, test_set in enumerate(data.test_sets, start=1)
        ],
        attention_section(pictures),
        configuration_section(data),
        environment_section(data),
        corpus_section(data),
    ]
    style = charts.STYLE + attention.STYLE + SENTENCES_STYLE
    return page(f"{data.training.name}: report", sections, style)


def _pictures(data: RunData, model: TrainedModel) -> list[AttentionMap]:
    for test_set in data.test_sets[:1]:
        sources, translations = test_set.sources, test_set.translations
        places = short_sentences(model, sources, translations, _NUM_PICTURES)
        return [attention_map(model, sources[place], translations[place]) for place in places]
    return []
