"""Adapt a model to text of the user: prepare, train, and evaluate with the original as baseline."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from data_prep.manifest import FACTS_FILE, FactsCache
from data_prep.names import split_name
from data_prep.protocol import TEST, TRAIN, VALID
from data_prep.sources import open_source
from data_prep.text_files import plain_name
from nmt.base import layout
from nmt.base.errors import UserError, one_line
from nmt.base.log import console, print_line, print_written
from nmt.base.outputs import Outputs
from nmt.config import Config
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation import evaluate, tables
from nmt.evaluation.evaluate import TestSet
from nmt.evaluation.report import write_report
from nmt.evaluation.systems import open_system
from nmt.metrics.scores import METRIC_NAMES
from nmt.metrics.significance import format_difference, format_p
from nmt.run_folder import Run
from nmt.runs.dry_run import dry_run
from nmt.runs.train import train
from nmt.trained_model import load_trained_model, model_folder
from nmt.training import distributed
from nmt.translation.alignment import Aligner
from nmt.translation.glossary import TermCounts, open_glossary
from nmt.translation.term_files import read_terms
from nmt.translation.term_forms import aligned_forms, write_forms
from nmt.translation.translator import Translator

_PAIRS_AT_A_TIME = 4_096

GENERAL = "general"
"""Key in `corpus.sources` of general text, which is mixed in so that the model forgets less."""


def check_languages(data: Path, languages: tuple[str, str], model: Path) -> None:
    """Raise UserError if the text lacks a file of a language that the model translates.

    `data` is a folder, or the common beginning of two files. Other text is not checked here.
    """
    folder, beginning = (data, "") if data.is_dir() else (data.parent, f"{data.name}.")
    if data.is_file() or not folder.is_dir():
        return
    names = [plain_name(path) for path in folder.iterdir() if path.name.startswith(beginning)]
    endings = sorted({name.rpartition(".")[2] for name in names if "." in name})
    sides = {found.side for name in names if (found := split_name(name, languages))}
    missing = [code for side, code in enumerate(languages) if side not in sides]
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
    languages = config.corpus.languages
    if beginning:
        source, reference = (Path(f"{beginning}.{language}") for language in languages)
        test_set = evaluate.files_test_set(source, reference, languages)
        test_set = evaluate.with_evaluation(test_set, config.evaluation)
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
    test_set = TestSet(f"{GENERAL}_{split}", languages, sources, references)
    return evaluate.with_evaluation(test_set, config.evaluation)


def adapt(
    config: Config, general: TestSet | None, outputs: Outputs | None, glossary: Path | None = None
) -> None:
    """Adapt the model `training.initial_model`, and compare the adapted model with the original.

    The test sets are those of the corpus and, if given, `general`. If `outputs` is given, the
    adapted model is copied to it. The forms of the terms of `glossary` are stored with the model.
    """
    if glossary is not None:
        read_terms(glossary, *config.corpus.languages)  # an error leaves no run
    if config.run.dry_run:
        dry_run(config)
        return
    train(config)
    run = Run(config.run_folder)
    corpus, system = run.corpus, open_system(run.folder)
    assert corpus is not None
    # `train` has evaluated the test sets of the corpus.
    tests = _test_sets(config, corpus, general)
    missing = [test for test in tests if evaluate.stored_hypotheses(system, test) is None]
    if missing:
        model = load_trained_model(run.model, distributed.local_device())
        found = evaluate.evaluate_run(model, config.decoding, corpus, run, missing)
        tables.print_scores(console, found)
        write_report(run, run.result, model, corpus)
    if glossary is not None:
        model = load_trained_model(run.model, distributed.local_device())
        terms = open_glossary(glossary, [model], run.model)
        write_forms(run.model, aligned_forms(terms, Aligner(model), training_pairs(corpus)))
    if outputs is not None:
        with outputs.written() as [folder]:
            shutil.copytree(run.model, folder, dirs_exist_ok=True)
    folders = [run.folder / layout.EVALUATION_FOLDER / test.name for test in tests]
    copies = outputs.paths if outputs else []
    print_written([*folders, run.folder / layout.REPORT_FILE, run.model, *copies])
    scores = Run(config.run_folder).evaluations
    for test in tests:
        for line in summary_lines(test.name, scores[test.name]):
            print_line(line)
    if glossary is not None:
        folders = [Path(config.training.initial_model), run.model]
        for line in term_lines(glossary, folders, tests):
            print_line(line)
    if general is None:
        print_line(
            "no general test set is given; general_test=news (for make: ARGS=general_test=news)"
            " reads news.en and news.de"
        )


def _test_sets(config: Config, corpus: PreparedCorpus, general: TestSet | None) -> list[TestSet]:
    """Return the test sets of the corpus and `general`, which gets a name that they do not have."""
    splits = corpus.test_splits or [VALID]
    tests = [
        evaluate.with_evaluation(evaluate.corpus_test_set(corpus, split), config.evaluation)
        for split in splits
    ]
    while general and general.name in splits:
        general = replace(general, name=f"{GENERAL}_{general.name}")
    return [*tests, general] if general else tests


def summary_lines(test_set: str, scores: Mapping[str, Any]) -> Iterator[str]:
    """Describe BLEU and chrF2++ on a test set before and after the adaptation."""
    before, name = scores.get("baseline", {}), one_line(test_set)
    if not before:
        yield f"{name}: not compared with the original model"
    for key in filter(before.__contains__, ("bleu", "chrf")):
        found, after = before[key], scores[key]["score"]
        p = format_p(max(found["p_bootstrap"], found["p_randomisation"]))
        change = f"{format_difference(found['difference'])}, p {p}, {found['verdict']}"
        title = f"{name} {METRIC_NAMES[key]}"
        yield f"{title}: {found['baseline']:.2f} before, {after:.2f} after, {change}"


def training_pairs(corpus: PreparedCorpus) -> Iterator[tuple[str, str]]:
    """Yield the training pairs as text."""
    pairs, (source, target) = corpus.train(), corpus.tokenizers()
    for first in range(0, len(pairs), _PAIRS_AT_A_TIME):
        indices = range(first, min(len(pairs), first + _PAIRS_AT_A_TIME))
        sources, targets = zip(*map(pairs.pair, indices), strict=True)
        yield from zip(source.decode(sources), target.decode(targets), strict=True)


def term_lines(glossary: Path, models: Sequence[Path], tests: Sequence[TestSet]) -> Iterator[str]:
    """Describe what becomes of the terms of test sets with the original and the adapted model."""
    for folder, when in zip(models, ("before", "after"), strict=True):
        model = load_trained_model(folder, distributed.local_device())
        uncounted = open_glossary(glossary, [model], model_folder(folder))
        for test in tests:
            terms = replace(uncounted, counts=TermCounts())
            sources = [source for source in test.sources if terms.found_in(source)]
            found = Translator(model).with_glossary(terms).translate(sources)
            for source, translations in zip(sources, found, strict=True):
                terms.reported(source, translations)
            yield f"{one_line(test.name)} {when}: {terms.counts}"
