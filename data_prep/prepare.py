"""Prepare a corpus: clean, learn subwords, encode and report.

Only one process at a time writes a corpus. Cleaned text and corpora are written to a temporary
folder, which is renamed when it is complete, so an interruption leaves no partial results.
`data_prep.manifest` describes how unchanged stages are skipped.
"""

import shutil
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data_prep.build_shards import build_shards
from data_prep.clean import CLEANING_VERSION
from data_prep.cleaned_text import CLEANING_FILE, CleanedText, write_cleaned_text
from data_prep.data_report import write_report, write_runs_page
from data_prep.leakage import leakage_of
from data_prep.ledger import LEDGER_FILE, ledger_table, vanished, write_ledger
from data_prep.manifest import (
    FACTS_FILE,
    ChangedError,
    FactsCache,
    damage,
    describe_outputs,
    fingerprint,
    tool_versions,
    write_record_of,
)
from data_prep.own_tokenizer import own_models
from data_prep.progress import Reporter
from data_prep.protocol import TRAIN, VALID
from data_prep.sources import open_corpus, open_source
from data_prep.terminology import TERMINOLOGY_VERSION, learn_terms
from data_prep.train_tokenizer import TOKENIZER_VERSION, train_tokenizer
from nmt.base.files import atomic_folder, remove
from nmt.base.layout import MANIFEST_FILE, REPORT_FILE
from nmt.base.locks import exclusive
from nmt.base.terms import TERM_TAGS
from nmt.config import (
    Config,
    CorpusConfig,
    CorpusSource,
    EvaluationConfig,
    PrepareConfig,
    TokenizerConfig,
    to_plain,
)
from nmt.tokenizer import completed_model, tokenizer_files

CORPUS_VERSION = 1
"""Part of the fingerprint of a corpus: raise it whenever the layout of the folder changes."""

CLEANED_FOLDER = ".cleaned"

_MODEL_AND_REPORT_BYTES = 2_000_000


def prepare_corpus(config: Config) -> Path:
    """Prepare the corpus of an experiment, see `prepare`."""
    return prepare(
        config.corpus,
        config.tokenizer,
        config.corpora_folder,
        work=config.prepare,
        evaluation=config.evaluation,
    )


def prepare(
    corpus: CorpusConfig,
    tokenizer: TokenizerConfig,
    corpora_folder: Path,
    reporter: Reporter | None = None,
    work: PrepareConfig | None = None,
    evaluation: EvaluationConfig | None = None,
) -> Path:
    """Prepare a corpus unless it exists; return its folder, `<name>-<fingerprint>`.

    Args:
        corpus: the sources of the pairs, and the filters.
        tokenizer: kind and size of the vocabulary.
        corpora_folder: `outputs/corpora`; hidden folders in it are caches.
        reporter: receives messages and progress; stderr by default.
        work: where text is cleaned and encoded; one process per core by default.
        evaluation: whether references may be blank; by default, they may not.

    Raises:
        UserError: a source lacks a split or cannot be read, references are blank, no pair passes
            the filters, the vocabulary does not fit the text, or the disk is full (DiskError).
    """
    reporter, work = reporter or Reporter(), work or PrepareConfig()
    job = _Job(corpus, tokenizer, corpora_folder, reporter)
    folder = job.folder
    manifest = folder / MANIFEST_FILE
    if _is_complete(job, manifest):
        reporter.print(f"{folder}: already prepared")
        return folder
    with _lock(corpora_folder / f".{folder.name}.lock", folder, reporter):
        # Another process may have prepared the corpus meanwhile.
        if not _is_complete(job, manifest):
            text = _clean(job, work, evaluation)
            with atomic_folder(folder, _estimate_bytes(text)) as temporary:
                _build(job, text, temporary, work)
            reporter.print(f"{folder}: prepared; {folder / REPORT_FILE} describes its contents")
    return folder


def find_prepared(
    corpus: CorpusConfig, tokenizer: TokenizerConfig, corpora_folder: Path
) -> Path | None:
    """Return the folder of a corpus, or None if the corpus is not prepared.

    Nothing is stored, but missing text of OPUS is downloaded, because the fingerprint covers the
    hash of the text.
    """
    job = _Job(corpus, tokenizer, corpora_folder, Reporter(quiet=True), is_kept=False)
    return job.folder if _is_complete(job, job.folder / MANIFEST_FILE) else None


class _Job:
    """The inputs of a preparation, their fingerprints, and the folders of the results."""

    def __init__(
        self,
        corpus: CorpusConfig,
        tokenizer: TokenizerConfig,
        corpora_folder: Path,
        reporter: Reporter,
        is_kept: bool = True,
    ) -> None:
        self.corpus, self.tokenizer, self.reporter = corpus, tokenizer, reporter
        self.facts = FactsCache(corpora_folder / FACTS_FILE, is_kept)
        self.sources = open_corpus(corpus, corpora_folder, self.facts, reporter.print)
        cleaned = fingerprint(
            {
                "sources": [source.identity() for source in self.sources],
                "names": [corpus.name, *corpus.sources],
                "order": corpus.sources_by_weight,
                "tags": [each.tag for each in corpus.sources.values()],
                "changes": [each.cleaning for each in corpus.sources.values()],
                "direction": corpus.direction,
                "max_train_pairs": corpus.max_train_pairs,
                "cleaning": to_plain(corpus.cleaning),
                "version": CLEANING_VERSION,
            }
        )
        self.own_models = own_models(tokenizer, corpus)
        models = {path.name: self.facts.facts(path).sha256 for path in self.own_models}
        self.inputs: dict[str, Any] = {
            "cleaned": cleaned,
            "tokenizer": models or to_plain(tokenizer),
            "versions": [TOKENIZER_VERSION, CORPUS_VERSION],
        }
        if corpus.terminology:
            self.inputs["terminology"] = [corpus.terminology, TERMINOLOGY_VERSION]
        self.cleaned_folder = corpora_folder / CLEANED_FOLDER / cleaned
        self.folder = corpora_folder / f"{corpus.name}-{fingerprint(self.inputs)}"


def _lock(path: Path, folder: Path, reporter: Reporter) -> AbstractContextManager[None]:
    return exclusive(
        path, lambda: reporter.print(f"{folder}: another process is preparing it; waiting")
    )


def _estimate_bytes(text: CleanedText) -> int:
    """Estimate the size of the corpus, for messages about a full disk.

    Shards have four bytes per token, and a token has about three characters.
    """
    sizes = {name: output.size for name, output in text.summary().outputs.items()}
    train = sum(size for name, size in sizes.items() if name.startswith(f"{TRAIN}-"))
    shards = int(1.5 * train)
    return shards + sum(sizes.values()) - train + _MODEL_AND_REPORT_BYTES


def _is_complete(job: _Job, record: Path) -> bool:
    """Whether `record`, a manifest or `cleaning.json`, and its files are intact; report damage."""
    if not record.is_file():
        return False
    found = damage(record, job.facts)
    if found:
        job.reporter.print(f"{found}; preparing it again")
    return not found


def _clean(job: _Job, work: PrepareConfig, evaluation: EvaluationConfig | None) -> CleanedText:
    """Clean the text, unless it is in the cache."""
    folder = job.cleaned_folder
    text = CleanedText(folder, job.corpus.languages)
    # Corpora that differ only in the tokenizer share the cleaned text.
    with _lock(folder.with_suffix(".lock"), folder, job.reporter):
        shards = folder.with_suffix(".shards")
        if _is_complete(job, folder / CLEANING_FILE):
            job.reporter.print(f"{folder}: already cleaned")
        else:
            try:
                with atomic_folder(folder) as temporary:
                    summary = write_cleaned_text(
                        job.sources, job.corpus, temporary, shards, job.reporter, work, evaluation
                    )
                    _check_unchanged(job)
            except ChangedError:
                remove(shards)  # some may have the old text, and others the new one
                raise
            job.reporter.print(f"kept {summary.num_kept:,} of {summary.num_read:,} training pairs")
            job.reporter.print_table(ledger_table(summary.ledger))
        remove(shards)
    for line in vanished(text.summary().ledger) if job.corpus.sources else ():
        job.reporter.print(line)
    return text


def _check_unchanged(job: _Job) -> None:
    """Raise ChangedError if local text was changed, even text that was not read to its end."""
    origins = [job.corpus, *map(job.corpus.origin_of, job.corpus.sources)]
    for origin, source in zip(origins, job.sources, strict=True):
        if origin.source is CorpusSource.folder:
            known = source.identity()  # has one more key if pairs are held out
            now = open_source(origin, job.folder.parent, job.facts, lambda _: None).identity()
            if known | now != known:
                raise ChangedError(Path(origin.path))


def _build(job: _Job, text: CleanedText, folder: Path, work: PrepareConfig) -> None:
    """Write all files of a corpus; the manifest comes last, because it lists the others."""
    summary, tokenizer, reporter = text.summary(), job.tokenizer, job.reporter
    # Not `copytree`: its exception does not contain the error number of a full disk.
    (folder / "text").mkdir()
    for path in text.text_folder().iterdir():
        shutil.copyfile(path, folder / "text" / path.name)
    names = tokenizer_files(tokenizer.joint, *text.languages)
    paths = (folder / names[0], folder / names[1])
    tags = [source.tag for source in job.corpus.sources.values() if source.tag]
    term_tags = TERM_TAGS if job.corpus.terminology else ()
    written = list(dict.fromkeys(paths))  # one model for both languages, or one for each
    for model, path in zip(job.own_models, written, strict=False):
        path.write_bytes(completed_model(model))
    for path in written[len(job.own_models) :]:
        languages = [code for code, own in zip(text.languages, paths, strict=True) if own == path]
        parts = [
            text.part_path(part, code) for code in languages for part in range(len(summary.parts))
        ]
        num_lines = len(languages) * sum(summary.parts)
        train_tokenizer(parts, num_lines, tokenizer, path, reporter, [*tags, *term_tags])
    jobs_folder = job.folder.with_name(f".{job.folder.name}.jobs")
    leakage = leakage_of(text, reporter, work, jobs_folder, tags)
    terms = learn_terms(text, job.corpus.terminology, folder, reporter)
    token_counts = build_shards(
        text, summary.parts, paths, folder, reporter, work, jobs_folder, terms
    )
    remove(jobs_folder)  # kept after an error: the message names a log in this folder
    write_ledger(summary, folder / LEDGER_FILE)
    write_report(folder / REPORT_FILE, job.corpus, tokenizer, summary, token_counts, paths, leakage)
    manifest = {
        "name": job.corpus.name,
        "direction": job.corpus.direction,
        "source_tokenizer": names[0],
        "target_tokenizer": names[1],
        "test_splits": sorted(summary.num_pairs.keys() - {TRAIN, VALID}),
        "num_pairs": summary.num_pairs,
        "sources": {
            name: summary.ledger[name].kept.pairs if name in summary.ledger else 0
            for name in job.corpus.sources_by_weight
        },
        "cleaning": {
            "num_read": summary.num_read,
            "num_kept": summary.num_kept,
            "dropped": summary.dropped,
        },
        "leakage": leakage,
        "tokens": {
            language: {
                "num_tokens": side.num_tokens,
                "num_unknown": side.num_unknown,
                "longest": max(side.lengths),
            }
            for language, side in zip(text.languages, token_counts, strict=True)
        },
        **({"terminology": terms.counts(paths[0], token_counts[0].id_counts)} if terms else {}),
        "inputs": job.inputs,
        "tools": tool_versions(),
        "outputs": {name: asdict(each) for name, each in describe_outputs(folder).items()},
    }
    write_record_of(folder, MANIFEST_FILE, manifest)
    write_runs_page(folder, job.folder.name)  # after the manifest, which does not list it
