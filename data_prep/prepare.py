"""The stages in order: clean, learn subwords, encode, report; one writer at a time per corpus.

Each stage's result is written into a temporary folder and renamed when it is complete, so a corpus
is there or it is not, whatever interrupts. `data_prep.manifest` says how unchanged stages are
skipped.
"""

import shutil
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data_prep.bpe_dropout import DROPOUT_VERSION
from data_prep.build_shards import SideFigures, build_shards
from data_prep.clean import CLEANING_VERSION
from data_prep.cleaned_text import CleanedText, CleaningSummary, write_cleaned_text
from data_prep.data_report import REPORT_FILE, write_report
from data_prep.leakage import leakage_of
from data_prep.manifest import (
    FACTS_FILE,
    FactsCache,
    describe_outputs,
    fingerprint,
    missing_output,
    tool_versions,
)
from data_prep.more_pairs import MorePairs
from data_prep.progress import Reporter
from data_prep.protocol import TRAIN, VALID, Source
from data_prep.sources import open_source
from data_prep.train_tokenizer import TOKENIZER_VERSION, train_tokenizer
from nmt.config import CorpusConfig, TokenizerConfig, to_plain
from nmt.data.corpus import MANIFEST_FILE
from nmt.files import atomic_folder, exclusive, read_json, write_json
from nmt.tokenizer import tokenizer_files

CORPUS_VERSION = 1
"""Part of the corpus's fingerprint: raise it whenever the layout of the folder changes."""

CLEANED_FOLDER = ".cleaned"

_MODEL_AND_REPORT_BYTES = 2_000_000


def prepare(
    corpus: CorpusConfig,
    tokenizer: TokenizerConfig,
    corpora_folder: Path,
    reporter: Reporter | None = None,
    num_processes: int = 0,
) -> Path:
    """Make the corpus, or find it made; returns its folder, `<name>-<fingerprint>`.

    Args:
        corpus: where the pairs come from and how they are cleaned.
        tokenizer: the subwords.
        corpora_folder: `outputs/corpora`; caches are kept in hidden folders within.
        reporter: where progress goes; stderr when absent.
        num_processes: processes that encode; 0 means one a core.

    Raises:
        UserError: the source lacks something or cannot be read, cleaning leaves nothing, the
            vocabulary does not fit the text, or the disk refuses to take it (DiskFault).
    """
    reporter = reporter or Reporter()
    source = open_source(corpus, corpora_folder, reporter.say)
    facts = FactsCache(corpora_folder / FACTS_FILE)
    more = MorePairs(corpus, facts) if corpus.more_path else None
    cleaned_fingerprint = fingerprint(_cleaning_inputs(source, corpus, more))
    inputs = _inputs(cleaned_fingerprint, tokenizer)
    folder = corpora_folder / f"{corpus.name}-{fingerprint(inputs)}"
    if _is_complete(folder, reporter):
        reporter.say(f"{folder}: is prepared already")
        return folder
    with _lock(corpora_folder / f".{folder.name}.lock", folder, reporter):
        # Whoever was waited for has probably made it.
        if not _is_complete(folder, reporter):
            text = _cleaned_text(
                source, more, corpus, corpora_folder, cleaned_fingerprint, reporter
            )
            with atomic_folder(folder, _room_needed(text, tokenizer)) as temporary:
                _build(text, corpus, tokenizer, temporary, inputs, reporter, num_processes)
            reporter.say(f"{folder}: prepared; {folder / REPORT_FILE} shows what is in it")
    return folder


def find_prepared(
    corpus: CorpusConfig, tokenizer: TokenizerConfig, corpora_folder: Path
) -> Path | None:
    """The folder of the corpus where `prepare` has made it; nothing is made but sums of files."""
    reporter = Reporter(quiet=True)
    source = open_source(corpus, corpora_folder, reporter.say)
    facts = FactsCache(corpora_folder / FACTS_FILE)
    more = MorePairs(corpus, facts) if corpus.more_path else None
    inputs = _inputs(fingerprint(_cleaning_inputs(source, corpus, more)), tokenizer)
    folder = corpora_folder / f"{corpus.name}-{fingerprint(inputs)}"
    return folder if _is_complete(folder, reporter) else None


def _inputs(cleaned_fingerprint: str, tokenizer: TokenizerConfig) -> dict[str, Any]:
    described = to_plain(tokenizer)
    versions = [TOKENIZER_VERSION, CORPUS_VERSION]
    if tokenizer.dropout:
        versions.append(DROPOUT_VERSION)
    else:
        # Corpora made before there was such a key stay as they are.
        del described["dropout"]
    return {"cleaned": cleaned_fingerprint, "tokenizer": described, "versions": versions}


def _lock(path: Path, folder: Path, reporter: Reporter) -> AbstractContextManager[None]:
    return exclusive(
        path, lambda: reporter.say(f"{folder}: another process is preparing it; waiting for it")
    )


def _room_needed(text: CleanedText, tokenizer: TokenizerConfig) -> int:
    """Bytes that the corpus takes while it is made, roughly: for the message when they lack.

    At first the tokenizer's sample stands beside the text of valid and the test sets, later the
    shards: four bytes a token, where a token is three letters or four, or down to one where merges
    are left out.
    """
    sizes = text.summary().sizes
    train = sum(size for name, size in sizes.items() if name.startswith(f"{TRAIN}-"))
    shards = int(train * min(4.0, 1.5 + 6 * tokenizer.dropout))
    return shards + sum(sizes.values()) - train + _MODEL_AND_REPORT_BYTES


def _cleaning_inputs(
    source: Source, corpus: CorpusConfig, more: MorePairs | None
) -> dict[str, Any]:
    # Only where they are asked for: corpora made before there were such keys stay as they are.
    added: dict[str, Any] = {"more": more.identity()} if more is not None else {}
    added |= {"copies": corpus.copies} if corpus.copies != 1 else {}
    return added | {
        "source": source.identity(),
        "direction": corpus.direction,
        "max_train_pairs": corpus.max_train_pairs,
        "cleaning": to_plain(corpus.cleaning),
        "version": CLEANING_VERSION,
    }


def _is_complete(folder: Path, reporter: Reporter) -> bool:
    """Whether the folder is there, with every file of the size that its manifest says."""
    if not (folder / MANIFEST_FILE).is_file():
        return False
    missing = missing_output(folder, read_json(folder / MANIFEST_FILE)["outputs"])
    if missing:
        reporter.say(f"{folder / missing}: is missing or damaged; preparing the corpus again")
    return not missing


def _cleaned_text(
    source: Source,
    more: MorePairs | None,
    corpus: CorpusConfig,
    corpora_folder: Path,
    cleaned_fingerprint: str,
    reporter: Reporter,
) -> CleanedText:
    """The cleaned text, from the cache when its source and rules are unchanged."""
    folder = corpora_folder / CLEANED_FOLDER / cleaned_fingerprint
    text = CleanedText(folder, (corpus.source_language, corpus.target_language))
    # A lock of its own: corpora that differ in the tokenizer alone share the cleaned text.
    with _lock(folder.with_suffix(".lock"), folder, reporter):
        if text.is_complete():
            reporter.say(f"{folder}: the text is clean already")
            return text
        with atomic_folder(folder) as temporary:
            summary = write_cleaned_text(source, corpus, temporary, reporter, more=more)
        reporter.say(_describe(summary))
    return text


def _describe(summary: CleaningSummary) -> str:
    dropped = ", ".join(f"{rule} {count:,}" for rule, count in summary.dropped.items() if count)
    return f"kept {summary.num_kept:,} of {summary.num_read:,} training pairs" + (
        f" (dropped: {dropped})" if dropped else ""
    )


def _build(
    text: CleanedText,
    corpus: CorpusConfig,
    tokenizer: TokenizerConfig,
    folder: Path,
    inputs: dict[str, Any],
    reporter: Reporter,
    num_processes: int,
) -> None:
    """Fill the corpus's temporary folder; the manifest comes last, as it lists the rest."""
    summary = text.summary()
    # Not copytree: its error keeps to itself what the disk said.
    (folder / "text").mkdir()
    for path in text.text_folder().iterdir():
        shutil.copyfile(path, folder / "text" / path.name)
    names = tokenizer_files(tokenizer.joint, *text.languages)
    _train_tokenizers(text, summary, tokenizer, folder, reporter)
    paths = (folder / names[0], folder / names[1])
    leakage = leakage_of(text, reporter)
    figures = build_shards(
        text, summary.parts, paths, folder, reporter, num_processes, tokenizer.dropout
    )
    write_report(folder / REPORT_FILE, corpus, tokenizer, summary, figures, paths, leakage)
    manifest = {
        "name": corpus.name,
        "direction": corpus.direction,
        "source_tokenizer": names[0],
        "target_tokenizer": names[1],
        "test_splits": sorted(summary.num_pairs.keys() - {TRAIN, VALID}),
        "num_pairs": summary.num_pairs,
        "cleaning": {
            "num_read": summary.num_read,
            "num_kept": summary.num_kept,
            "dropped": summary.dropped,
            "examples": {
                rule: [asdict(example) for example in examples]
                for rule, examples in summary.examples.items()
            },
        },
        "leakage": leakage,
        "tokens": {
            language: _describe_tokens(side)
            for language, side in zip(text.languages, figures, strict=True)
        },
        "inputs": inputs,
        "tools": tool_versions(),
        "outputs": describe_outputs(folder),
    }
    write_json(folder / MANIFEST_FILE, manifest)


def _describe_tokens(figures: SideFigures) -> dict[str, int]:
    return {
        "num_tokens": figures.num_tokens,
        "num_unknown": figures.num_unknown,
        "longest": max(figures.lengths),
    }


def _train_tokenizers(
    text: CleanedText,
    summary: CleaningSummary,
    tokenizer: TokenizerConfig,
    folder: Path,
    reporter: Reporter,
) -> None:
    """One model of both languages, or one each."""
    names = tokenizer_files(tokenizer.joint, *text.languages)
    languages_of = (
        {names[0]: text.languages}
        if tokenizer.joint
        else {name: (language,) for name, language in zip(names, text.languages, strict=True)}
    )
    for name, languages in languages_of.items():
        paths = [
            text.part_path(part, language)
            for language in languages
            for part in range(len(summary.parts))
        ]
        num_lines = len(languages) * sum(summary.parts)
        train_tokenizer(paths, num_lines, tokenizer, folder / name, reporter)
