"""Adapt a model to text of the user, and show which translations became better or worse."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from data_prep.manifest import FACTS_FILE, FactsCache
from data_prep.protocol import TEST, TRAIN, VALID
from data_prep.sources import open_source
from data_prep.text_files import plain_name
from nmt.base import layout
from nmt.base.errors import UserError, one_line
from nmt.base.files import to_json, to_lines, write_texts
from nmt.base.log import console, print_line, print_written
from nmt.base.outputs import Outputs
from nmt.base.progress import progress_bar
from nmt.config import Config
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation import evaluate
from nmt.evaluation.evaluate import TestSet
from nmt.evaluation.systems import open_system
from nmt.evaluation.tables import as_text, new_table
from nmt.metrics.scores import METRIC_NAMES, sentence_chrf
from nmt.metrics.significance import Comparison, compare, format_difference, format_p
from nmt.metrics.terms import DEFINITION, TermRecall, find_terms, term_recall
from nmt.pages.html_page import render_text
from nmt.runs.dry_run import dry_run
from nmt.runs.train import train
from nmt.tokenizer import Tokenizer
from nmt.trained_model import load_trained_model
from nmt.training import distributed
from nmt.translation.request import notes_on
from nmt.translation.translator import Translator

GENERAL = "general"
"""Key in `corpus.sources` of general text, which is mixed in so that the model forgets less."""

_TEMPLATE = Path(__file__).with_name("templates") / "adapt.md.jinja"
_METRICS = ("bleu", "chrf")
_NUM_CHANGED = 5  # number of better sentences to show, and of worse sentences
_TARGETS_AT_A_TIME = 10_000  # target sentences that are decoded at once


@dataclass(frozen=True)
class Compared:
    """A test set with its translations by the original model and by the adapted one."""

    test_set: TestSet
    before: list[str]
    after: list[str]
    comparison: Comparison


@dataclass(frozen=True)
class Changed:
    """A test sentence whose translations before and after differ in chrF (from 0 to 100)."""

    source: str
    reference: str
    before: str
    after: str
    chrf_before: float
    chrf_after: float


def check_languages(data: Path, languages: tuple[str, str], model: Path) -> None:
    """Raise UserError if the text lacks a file of a language that the model translates.

    `data` is a folder, or the common beginning of two files. Other text is not checked here.
    """
    folder, beginning = (data, "") if data.is_dir() else (data.parent, f"{data.name}.")
    if data.is_file() or not folder.is_dir():
        return
    names = [plain_name(path) for path in folder.iterdir() if path.name.startswith(beginning)]
    endings = sorted({name.rpartition(".")[2] for name in names if "." in name})
    missing = [code for code in languages if code not in endings]
    if missing and endings:
        raise UserError(
            f"{data} has no file of the language {missing[0]}, only {', '.join(endings)}, but"
            f" {model} translates {'-'.join(languages)}; name other text or another model"
        )


def general_test_set(config: Config, beginning: str) -> TestSet | None:
    """Return the test set of general text, `general_<name>`; None if there is none.

    It is read from two files, `<beginning>.<language>`. If `beginning` is empty, it is
    `test`, or the first test set, of the general text in `corpus.sources`.
    """
    languages = (config.corpus.source_language, config.corpus.target_language)
    if beginning:
        source, reference = (Path(f"{beginning}.{language}") for language in languages)
        test_set = evaluate.files_test_set(source, reference, languages)
        return replace(test_set, name=f"{GENERAL}_{test_set.name}")
    if GENERAL not in config.corpus.sources:
        return None
    origin = config.corpus.origin_of(GENERAL)
    facts = FactsCache(config.corpora_folder / FACTS_FILE)
    text = open_source(origin, config.corpora_folder, facts, print_line)
    splits = [split for split in text.splits() if split not in (TRAIN, VALID)]
    if not splits:
        return None
    split = TEST if TEST in splits else splits[0]
    sources, first = map(list, zip(*text.pairs(split), strict=True))
    references = [first, *text.more_references(split)]
    return TestSet(f"{GENERAL}_{split}", languages, sources, references)


def adapt(config: Config, general: TestSet | None, outputs: Outputs | None) -> None:
    """Adapt the model `training.initial_model`, and compare the adapted model with the original.

    The test sets are those of the corpus and, if given, `general`. If `outputs` is given, the
    adapted model is copied to it.
    """
    if config.run.dry_run:
        dry_run(config)
        return
    train(config)
    system = open_system(config.run_folder)
    corpus = system.corpus
    assert corpus is not None
    tests = _test_sets(corpus, general)
    valid = evaluate.corpus_test_set(corpus, VALID)
    old_valid, *before = _translations(config, Path(config.training.initial_model), [valid, *tests])
    # `train` has evaluated the test sets of the corpus, but not `valid` and `general`.
    stored = [evaluate.stored_hypotheses(system, test) for test in tests]
    missing = [test for test, lines in zip(tests, stored, strict=True) if lines is None]
    others = iter(_translations(config, system.model, missing))
    after = [next(others) if lines is None else lines for lines in stored]
    why = "the original model"
    compared = [
        Compared(test, old, new, Comparison("before", why, compare(old, new, *test.references)))
        for test, old, new in zip(tests, before, after, strict=True)
    ]
    first = compared[0]
    terms = find_terms(_training_targets(corpus, config), valid.references[0], old_valid)
    recall = term_recall(terms, first.test_set.references[0], first.before, first.after)
    _report(config, corpus, compared, recall)
    if outputs is not None:
        with outputs.written() as [folder]:
            shutil.copytree(system.model, folder, dirs_exist_ok=True)
        print_line(f"the adapted model: {outputs.paths[0]}")


def _test_sets(corpus: PreparedCorpus, general: TestSet | None) -> list[TestSet]:
    """Return the test sets of the corpus and `general`, which gets a name that they do not have."""
    splits = corpus.test_splits or [VALID]
    tests = [evaluate.corpus_test_set(corpus, split) for split in splits]
    while general and general.name in splits:
        general = replace(general, name=f"{GENERAL}_{general.name}")
    return [*tests, general] if general else tests


def _translations(config: Config, model: Path, tests: Sequence[TestSet]) -> list[list[str]]:
    """Translate test sets with the model in a folder."""
    if not tests:
        return []
    loaded = load_trained_model(model, distributed.local_device())
    translator = Translator(loaded, config.decoding)
    found = []
    for test in tests:
        with progress_bar(f"translating {test.name}", len(test.sources)) as advance:
            translated = translator.translate(test.sources, advance)
        for note in notes_on(translated):
            print_line(note)
        found.append([best[0].text for best in translated])
    return found


def _training_targets(corpus: PreparedCorpus, config: Config) -> Iterator[str]:
    """Yield the target sentences of the training text, without those of `corpus.sources`."""
    pairs, tokenizer = corpus.train(), Tokenizer(corpus.target_tokenizer)
    num_own = corpus.manifest.get("sources", {}).get(config.corpus.name, len(pairs))
    for first in range(0, num_own, _TARGETS_AT_A_TIME):
        indices = range(first, min(num_own, first + _TARGETS_AT_A_TIME))
        yield from tokenizer.decode([pairs.pair(index)[1].tolist() for index in indices])


def most_changed(compared: Compared) -> tuple[list[Changed], list[Changed]]:
    """Return the sentences whose chrF has risen most, and those whose chrF has fallen most."""
    references = compared.test_set.references
    before, after = (sentence_chrf(t, *references) for t in (compared.before, compared.after))
    columns = (compared.test_set.sources, references[0], compared.before, compared.after)
    rows = [Changed(*row) for row in zip(*columns, before, after, strict=True)]
    rows.sort(key=lambda row: row.chrf_before - row.chrf_after)
    better = [row for row in rows if row.chrf_after > row.chrf_before]
    worse = [row for row in reversed(rows) if row.chrf_after < row.chrf_before]
    return better[:_NUM_CHANGED], worse[:_NUM_CHANGED]


def _report(
    config: Config, corpus: PreparedCorpus, compared: Sequence[Compared], recall: TermRecall
) -> None:
    """Print the comparison, and write `adapt.md`, `adapt.json` and the translations."""
    run, first = config.run_folder, one_line(compared[0].test_set.name)
    better, worse = most_changed(compared[0])
    columns = ("test set", "metric", "before", "after", "difference", "p", "verdict")
    rows = [row for each in compared for row in _rows(each)]
    table = new_table("Before and after", *columns, texts=["test set", "metric", "verdict"])
    for cells in rows:
        table.add_row(*map(as_text, cells))
    console.print(table)
    notes = [f"{recall} ({first})", DEFINITION]
    if len(compared) == len(corpus.test_splits or [VALID]):  # only those of the corpus
        notes.insert(0, "no general test set; general_test=BEGINNING reads one from two files")
    context = {
        "run": run.name,
        "initial_model": config.training.initial_model,
        "table": [columns, ["---"] * len(columns), *rows],
        "notes": notes,
        "test_set": first,
        "changed": {"better": better, "worse": worse},
        "format_difference": format_difference,
        "one_line": one_line,
    }
    text = render_text(_TEMPLATE, context)
    console.print(text[text.index(notes[0]) :], markup=False, soft_wrap=True)
    values = {
        "initial_model": config.training.initial_model,
        "test_sets": {each.test_set.name: each.comparison.to_json() for each in compared},
        "terms": {"definition": DEFINITION, **asdict(recall)},
        "better": [asdict(row) for row in better],
        "worse": [asdict(row) for row in worse],
    }
    texts = {run / "adapt.md": text, run / "adapt.json": to_json(values)}
    for each in compared:
        test = each.test_set
        contents = test.sources, test.references[0], each.before, each.after
        for name, lines in zip(("source", "reference", "before", "after"), contents, strict=True):
            texts[run / layout.ADAPTATION_FOLDER / test.name / f"{name}.txt"] = to_lines(lines)
    write_texts(texts)
    print_written([*texts, run / layout.MODEL_FOLDER, corpus.folder / layout.REPORT_FILE])


def _rows(compared: Compared) -> list[list[str]]:
    """Return a row of cells for each metric."""
    rows = []
    for key in _METRICS:
        found = compared.comparison.differences[key]
        scores = f"{found.baseline:.2f}", f"{found.baseline + found.difference:.2f}"
        outcome = format_difference(found.difference), format_p(found.p), found.verdict
        rows.append([one_line(compared.test_set.name), METRIC_NAMES[key], *scores, *outcome])
    return rows
