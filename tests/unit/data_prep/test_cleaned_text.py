from dataclasses import replace
from pathlib import Path

import pytest

from data_prep import clean_shard, cleaned_text
from data_prep.cleaned_text import CLEANING_FILE, CleanedText, write_cleaned_text
from data_prep.manifest import FactsCache, damage
from data_prep.progress import Reporter
from data_prep.sources import open_corpus
from nmt.base.errors import UserError
from nmt.base.files import read_lines, write_lines
from nmt.config import CleaningConfig, CorpusConfig, PrepareConfig, SourceConfig
from tests.unit.data_prep.conftest import Toy, write_pairs


def cleaned(config: CorpusConfig, folder: Path, **options) -> CleanedText:
    folder.mkdir()
    sources = open_corpus(config, folder, FactsCache(folder.parent / "facts.json"), print)
    shards = folder.with_suffix(".shards")
    write_cleaned_text(sources, config, folder, shards, Reporter(quiet=True), **options)
    return CleanedText(folder, (config.source_language, config.target_language))


def test_dropped_pairs_are_counted_with_examples(toy: Toy, tmp_path: Path) -> None:
    english = ["A dog.", "", "A dog.\r", "one two three", "x" * 3000, "a b"]
    german = ["Ein Hund.", "leer", "Ein  Hund.", "one two three", "y" * 3000, "x" * 50]
    write_pairs(toy.raw, "train", english, german)
    summary = cleaned(toy.config, tmp_path / "out").summary()
    assert (summary.num_read, summary.num_kept) == (6, 1)
    dropped = {name: count for name, count in summary.dropped.items() if count}
    assert dropped == {"empty": 1, "length": 1, "ratio": 1, "copy": 1, "duplicate": 1}
    examples = summary.ledger["toy"].examples
    assert examples["length"][0].detail == "source has 3000 characters"
    assert len(examples["length"][0].source) == 300
    assert examples["empty"][0].target == "leer"
    assert examples["kept"][0].source == "A dog."
    assert summary.words == {"en": {2: 1}, "de": {2: 1}}


def test_scores_beside_the_text_are_a_filter(toy: Toy, tmp_path: Path) -> None:
    write_pairs(toy.raw, "train", ["A dog.", "A cat.", "", "A cow."], ["Hund", "Katze", "x", "Kuh"])
    write_lines(toy.raw / "train.score", ["0.9", "-1", "0.1", "0.5"])
    assert cleaned(toy.config, tmp_path / "all").summary().num_kept == 3
    config = replace(toy.config, cleaning=CleaningConfig(min_score=0.5))
    summary = cleaned(config, tmp_path / "out").summary()
    assert (summary.num_kept, summary.dropped["score"], summary.dropped["empty"]) == (2, 1, 1)
    assert summary.ledger["toy"].examples["score"][0].detail == "score -1"
    (toy.raw / "train.score").unlink()
    with pytest.raises(UserError, match=r"min_score=0\.5: pairs of toy have no score; give a"):
        cleaned(config, tmp_path / "none")
    write_lines(toy.raw / "train.score", ["0.9", "0.1"])
    with pytest.raises(UserError, match=r"train\.score has 2; they must be aligned"):
        cleaned(config, tmp_path / "short")


@pytest.mark.parametrize("shard_pairs", [7, 64, 1000])
def test_parts_keep_every_pair_in_order(
    toy: Toy, tmp_path: Path, shard_pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaned_text, "PAIRS_PER_PART", 64)
    monkeypatch.setattr(cleaned_text, "SHARD_PAIRS", shard_pairs)
    config = replace(toy.config, cleaning=CleaningConfig(drop_duplicates=False))
    text = cleaned(config, tmp_path / "out")
    assert text.summary().parts == [64, 64, 64, 8]
    for language in ("en", "de"):
        lines = [line for part in range(4) for line in read_lines(text.part_path(part, language))]
        assert lines == read_lines(toy.raw / f"train.{language}")


def contents(text: CleanedText) -> dict[str, bytes]:
    paths = (path for path in text.folder.rglob("*") if path.is_file())
    return {path.relative_to(text.folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def dirty(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> CorpusConfig:
    """A corpus of 30 shards with duplicates of pairs of other shards."""
    monkeypatch.setattr(cleaned_text, "SHARD_PAIRS", 10)
    english, german = toy.lines("train.en"), toy.lines("train.de")
    more = ["", "same same same", "x" * 3000, "short"]
    write_pairs(
        toy.raw,
        "train",
        english + english[50:150:2] + more * 12 + ["end", "end"],
        german + german[50:150:2] + ["leer", "same same same", "y", "z" * 50] * 12 + ["end", "fin"],
    )
    return toy.config


def test_the_result_does_not_depend_on_processes(dirty: CorpusConfig, tmp_path: Path) -> None:
    found = [
        contents(
            cleaned(dirty, tmp_path / f"out{number}", work=PrepareConfig(num_processes=number))
        )
        for number in (1, 2)
    ]
    assert found[0] == found[1]


def test_shards_of_an_interrupted_attempt_are_used(
    dirty: CorpusConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = contents(cleaned(dirty, tmp_path / "out"))
    shards = sorted((tmp_path / "out.shards").iterdir())
    (tmp_path / "again.shards").mkdir()
    for path in shards[1::2]:
        path.rename(tmp_path / "again.shards" / path.name)
    cleaned_pairs = []
    clean_pair = clean_shard.clean_pair

    def counting(source: str, target: str, *more):
        cleaned_pairs.append((source, target))
        return clean_pair(source, target, *more)

    monkeypatch.setattr(clean_shard, "clean_pair", counting)
    assert contents(cleaned(dirty, tmp_path / "again")) == expected
    assert len(cleaned_pairs) == 150


def test_a_damaged_shard_of_an_interrupted_attempt_is_named(
    dirty: CorpusConfig, tmp_path: Path
) -> None:
    cleaned(dirty, tmp_path / "out")
    (tmp_path / "out.shards").rename(tmp_path / "again.shards")
    path = sorted((tmp_path / "again.shards").iterdir())[4]
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)
    with pytest.raises(UserError, match=rf"{path.name}: is damaged; remove it"):
        cleaned(dirty, tmp_path / "again")


def test_examples_are_a_sample_of_what_was_dropped(dirty: CorpusConfig, tmp_path: Path) -> None:
    summary = cleaned(dirty, tmp_path / "out").summary()
    dropped = {name: count for name, count in summary.dropped.items() if count}
    assert dropped == {"empty": 12, "length": 12, "ratio": 24, "copy": 12, "duplicate": 50}
    assert summary.num_read == summary.num_kept + 98 == 300
    examples = summary.ledger[dirty.name].examples
    assert len(examples["duplicate"]) == len(examples["kept"]) == 20
    assert len({one.source for one in examples["duplicate"]}) == 20


@pytest.fixture
def two_sources(toy: Toy, tmp_path: Path) -> CorpusConfig:
    """The toy corpus and a source with a tag and a filter of its own."""
    english = ["A cat.", "A cat.", "", "one two three four", "a b c d e"]
    german = ["Eine Katze.", "Eine Katze.", "leer", "eins zwei drei vier", "a"]
    write_pairs(tmp_path / "more", "train", english, german)
    write_pairs(tmp_path / "more", "test", ["not read"], ["nicht gelesen"])
    source = SourceConfig(path=str(tmp_path / "more"), tag="<BT>", cleaning={"max_words": 3})
    return replace(toy.config, sources={"back": source})


def test_a_source_has_a_tag_and_filters_of_its_own(
    two_sources: CorpusConfig, toy: Toy, tmp_path: Path
) -> None:
    text = cleaned(two_sources, tmp_path / "out")
    plain = cleaned(toy.config, tmp_path / "plain")
    lines = {language: read_lines(text.part_path(0, language)) for language in text.languages}
    for language, line in (("en", "<BT> A cat."), ("de", "Eine Katze.")):
        assert lines[language] == [*read_lines(plain.part_path(0, language)), line]
    ledger = text.summary().ledger
    assert list(ledger) == ["toy", "back"]
    assert (ledger["back"].read.pairs, ledger["back"].kept.pairs) == (5, 1)
    dropped = {name: one.pairs for name, one in ledger["back"].filters.items() if one.pairs}
    assert dropped == {"empty": 1, "length": 2, "duplicate": 1}
    assert text.summary().num_pairs.keys() == {"train", "valid", "test"}


def test_an_error_of_a_source_names_it(toy: Toy, tmp_path: Path) -> None:
    for split, count in (("train", 2), ("other", 1)):
        write_pairs(tmp_path / split, "train", ["a"] * 2, ["b"] * count)
    for path, message in (("nowhere", "neither a folder nor a file"), ("other", "has 2 lines and")):
        sources = {"web": SourceConfig(path=str(tmp_path / path))}
        with pytest.raises(UserError, match=rf"corpus\.sources\.web(: |\.path=).*{message}"):
            cleaned(replace(toy.config, sources=sources), tmp_path / f"out {path}")


def test_test_sets_are_normalised_and_never_dropped(toy: Toy, tmp_path: Path) -> None:
    english = [" a\u2028b\r", "", "same same same", "x" * 5000]
    write_pairs(toy.raw, "test", english, ["eins", "zwei", "same same same", "drei"])
    text = cleaned(toy.config, tmp_path / "out")
    expected = ["a b", "", "same same same", "x" * 5000]
    assert read_lines(text.text_folder() / "test.en") == expected
    assert text.summary().num_pairs["test"] == 4


def test_max_train_pairs_limits_the_pairs_that_are_read(toy: Toy, tmp_path: Path) -> None:
    text = cleaned(replace(toy.config, max_train_pairs=10), tmp_path / "out")
    assert text.summary().num_read == 10


def test_further_references_of_tests_are_dropped_from_training(toy: Toy, tmp_path: Path) -> None:
    dropped = cleaned(toy.config, tmp_path / "one").summary()
    number = len((toy.raw / "test.de").read_text(encoding="utf-8").splitlines())
    train = (toy.raw / "train.de").read_text(encoding="utf-8").splitlines()
    write_lines(toy.raw / "test.de.1", train[:number])
    again = cleaned(toy.config, tmp_path / "two").summary()
    assert sum(again.parts) < sum(dropped.parts)


def test_text_without_a_clean_pair_is_refused(toy: Toy, tmp_path: Path) -> None:
    write_pairs(toy.raw, "train", ["", ""], ["", ""])
    with pytest.raises(UserError, match=r"dropped all 2 training pairs \(empty 2\)"):
        cleaned(toy.config, tmp_path / "out")


def test_a_damaged_file_is_found(toy: Toy, tmp_path: Path) -> None:
    text, cache = cleaned(toy.config, tmp_path / "out"), FactsCache(tmp_path / "facts.json")
    assert damage(text.folder / CLEANING_FILE, cache) == ""
    text.part_path(0, "en").write_text("cut short\n")
    assert damage(text.folder / CLEANING_FILE, cache) == f"{text.part_path(0, 'en')}: is damaged"


def chinese_and_english(number: int) -> tuple[str, str]:
    """An English sentence and a Chinese one of a sixth of its length."""
    text = "".join("甲乙丙丁戊己庚辛壬癸"[int(digit)] for digit in f"{number:05d}")
    english = f"The committee recommends that the state party ratify treaty {number:05d}"
    return english, f"批准{text}条约"


def test_lengths_of_another_script_are_those_of_the_corpus(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held-out pairs and any number of processes have the same ratio, and other sources another."""
    for split, numbers in {"train": range(300), "test": range(300, 310)}.items():
        english, chinese = zip(*map(chinese_and_english, numbers), strict=True)
        write_pairs(toy.raw, split, list(english), list(chinese))
    (toy.raw / "valid.en").unlink()
    (toy.raw / "valid.de").unlink()
    lines = toy.lines("train.en")
    write_lines(toy.raw / "train.en", [" ".join([line] * 6) for line in lines[:3]] + lines[3:])
    write_lines(tmp_path / "more.en", ["An equally long sentence in both."] * 9)
    write_lines(tmp_path / "more.de", [f"Ein gleich langer deutscher Satz {n}." for n in range(9)])
    sources = {"more": SourceConfig(path=str(tmp_path / "more"))}
    config = replace(toy.config, sources=sources, check_languages=False)
    monkeypatch.setattr(cleaned_text, "SHARD_PAIRS", 64)
    texts = []
    for processes in (1, 4):
        work = PrepareConfig(num_processes=processes)
        text = cleaned(config, tmp_path / f"with {processes}", work=work)
        texts.append({path.name: path.read_bytes() for path in text.folder.rglob("*.??")})
        summary = text.summary()
        assert summary.dropped["ratio"] == 3
        assert summary.ledger["more"].kept.pairs == 9
        assert summary.num_pairs["valid"] == 14
        assert 9 in summary.words["de"]  # each of the nine characters is a word
    assert texts[0] == texts[1]


def test_test_sentences_without_blanks_are_dropped_from_training(toy: Toy, tmp_path: Path) -> None:
    tests = [chinese_and_english(number)[1] for number in range(5)]
    japanese = [f"条約{text}を批准" for text in tests]
    sources, targets = ["我们", "昨天我买了书。", "好"], ["私たち", "本を買った。", "良"]
    write_pairs(toy.raw, "train", [*sources, *tests], [*targets, *japanese])
    write_pairs(toy.raw, "test", [*tests, "我们"], [*japanese, "私たち"])
    summary = cleaned(toy.config, tmp_path / "out").summary()
    assert summary.dropped["test_sentence"] == 5
    assert summary.num_kept == 3  # short sentences stay
