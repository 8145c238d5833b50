from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from data_prep.cleaned_text import CleanedText, write_cleaned_text
from data_prep.manifest import FactsCache
from data_prep.more_pairs import MorePairs
from data_prep.progress import Reporter
from data_prep.sources import open_source
from nmt.config import CleaningConfig, CorpusConfig
from nmt.errors import UserError
from nmt.files import read_lines, write_lines


def cleaned(config: CorpusConfig, folder: Path, **options) -> CleanedText:
    folder.mkdir()
    source = open_source(config, folder.parent / "cache", lambda text: None)
    write_cleaned_text(source, config, folder, Reporter(quiet=True), **options)
    return CleanedText(folder, (config.source_language, config.target_language))


def test_rules_are_counted_with_examples(
    folder_config: CorpusConfig, text_folder: Path, tmp_path: Path
) -> None:
    rows = [
        ("A dog.", "Ein Hund."),
        ("", "leer"),
        ("A dog.\r", "Ein  Hund."),
        ("one two three", "one two three"),
        ("x" * 3000, "y" * 3000),
        ("a b", "x" * 50),
    ]
    write_lines(text_folder / "train.en", [source for source, _ in rows])
    write_lines(text_folder / "train.de", [target for _, target in rows])
    summary = cleaned(folder_config, tmp_path / "out").summary()
    assert (summary.num_read, summary.num_kept) == (6, 1)
    assert summary.dropped == {"empty": 1, "length": 1, "ratio": 1, "copy": 1, "duplicate": 1}
    assert summary.examples["length"][0].detail == "source has 3000 characters"
    assert len(summary.examples["length"][0].source) == 300
    assert summary.examples["empty"][0].target == "leer"
    assert summary.samples[0].source == "A dog."
    assert summary.words == {"en": {2: 1}, "de": {2: 1}}


def test_parts_keep_every_pair_in_order(
    folder_config: CorpusConfig, text_folder: Path, tmp_path: Path
) -> None:
    config = replace(folder_config, cleaning=CleaningConfig(drop_duplicates=False))
    text = cleaned(config, tmp_path / "out", pairs_per_part=64)
    assert text.summary().parts == [64, 64, 64, 8]
    for language in ("en", "de"):
        lines = [line for part in range(4) for line in read_lines(text.part_path(part, language))]
        assert lines == read_lines(text_folder / f"train.{language}")


def test_more_pairs_come_once_and_the_corpus_as_often_as_is_said(
    folder_config: CorpusConfig, text_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir()
    write_lines(tmp_path / "more" / "train.en", ["<BT> A cat.", "<BT> A cat.", ""])
    write_lines(tmp_path / "more" / "train.de", ["Eine Katze.", "Eine Katze.", "leer"])
    config = replace(folder_config, more_path=str(tmp_path / "more"), copies=3)
    more = MorePairs(config, FactsCache(tmp_path / "facts.json"))
    text = cleaned(config, tmp_path / "out", more=more)
    summary = text.summary()
    plain = cleaned(folder_config, tmp_path / "plain").summary()
    # What is counted of cleaning is about what was read, not about copies.
    assert summary.num_read == plain.num_read + 3
    assert summary.num_kept == plain.num_kept + 1
    assert summary.parts == [3 * plain.num_kept + 1]
    assert summary.num_pairs["train"] == 3 * plain.num_kept + 1
    lines = Counter(read_lines(text.part_path(0, "en")))
    assert lines.pop("<BT> A cat.") == 1
    assert set(lines.values()) == {3}


def test_more_pairs_have_to_be_aligned(folder_config: CorpusConfig, tmp_path: Path) -> None:
    config = replace(folder_config, more_path=str(tmp_path))
    facts = FactsCache(tmp_path / "facts.json")
    with pytest.raises(UserError, match=r"train\.en: no such file; corpus\.more_path="):
        MorePairs(config, facts)
    write_lines(tmp_path / "train.en", ["a", "b"])
    write_lines(tmp_path / "train.de", ["c"])
    with pytest.raises(UserError, match=r"has 2 lines and .* has 1"):
        MorePairs(config, facts)
    for language in ("en", "de"):
        (tmp_path / f"train.{language}").write_text("")
    with pytest.raises(UserError, match="are empty"):
        MorePairs(config, facts)


def test_test_sets_are_normalised_and_never_dropped(
    folder_config: CorpusConfig, text_folder: Path, tmp_path: Path
) -> None:
    write_lines(text_folder / "test.en", [" a\u2028b\r", "", "same same same", "x" * 5000])
    write_lines(text_folder / "test.de", ["eins", "zwei", "same same same", "drei"])
    text = cleaned(folder_config, tmp_path / "out")
    expected = ["a b", "", "same same same", "x" * 5000]
    assert read_lines(text.text_folder() / "test.en") == expected
    assert text.summary().num_pairs["test"] == 4


def test_max_train_pairs(folder_config: CorpusConfig, tmp_path: Path) -> None:
    text = cleaned(replace(folder_config, max_train_pairs=10), tmp_path / "out")
    assert text.summary().num_read == 10


def test_nothing_left(folder_config: CorpusConfig, text_folder: Path, tmp_path: Path) -> None:
    write_lines(text_folder / "train.en", ["", ""])
    write_lines(text_folder / "train.de", ["", ""])
    with pytest.raises(UserError, match=r"dropped all 2 training pairs \(empty 2\)"):
        cleaned(folder_config, tmp_path / "out")


def test_completeness(folder_config: CorpusConfig, tmp_path: Path) -> None:
    text = cleaned(folder_config, tmp_path / "out")
    assert text.is_complete()
    text.part_path(0, "en").write_text("cut short\n")
    assert not text.is_complete()
    assert not CleanedText(tmp_path / "nowhere", ("en", "de")).is_complete()
