import json
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import data_prep.prepare as module
from data_prep.prepare import prepare
from data_prep.progress import Reporter
from nmt.config import CleaningConfig, CorpusConfig, CorpusSource, TokenizerConfig
from nmt.data.corpus import PreparedCorpus
from nmt.errors import UserError
from nmt.files import exclusive, iterate_lines, read_json, read_lines, write_lines
from nmt.tokenizer import Tokenizer
from tests.support import dead_process

MULTI30K = Path(__file__).parents[4] / "shared" / "data" / "multi30k"


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    return tmp_path / "outputs" / "corpora"


def noting(ran: list[str], name: str):
    original = getattr(module, name)

    def wrapped(*args, **options):
        ran.append(name)
        return original(*args, **options)

    return wrapped


@pytest.fixture
def stages(monkeypatch) -> list[str]:
    """Names of the stages that really ran."""
    ran: list[str] = []
    for name in ("write_cleaned_text", "train_tokenizer", "build_shards"):
        monkeypatch.setattr(module, name, noting(ran, name))
    return ran


ALL_STAGES = ["write_cleaned_text", "train_tokenizer", "build_shards"]


def test_a_corpus_from_end_to_end(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, outputs: Path, capfd
) -> None:
    folder = prepare(folder_config, small_tokenizer, outputs)
    assert folder.parent == outputs
    assert folder.name.startswith("toy-")
    prepared = PreparedCorpus(folder)
    assert (prepared.source_language, prepared.target_language) == ("en", "de")
    assert prepared.test_splits == ["test"]
    pairs = prepared.train()
    tokenizer = Tokenizer(prepared.source_tokenizer)
    manifest = read_json(folder / "manifest.json")
    assert len(pairs) == manifest["num_pairs"]["train"] == manifest["cleaning"]["num_kept"]
    raw = Path(folder_config.path)
    assert tokenizer.decode(pairs.pair(0)) == [
        read_lines(raw / "train.en")[0],
        read_lines(raw / "train.de")[0],
    ]
    assert prepared.read_text("test")[1] == read_lines(raw / "test.de")
    assert set(manifest["outputs"]) >= {"train-00000.arrow", "tokenizer.model", "report.html"}
    assert str(outputs) not in json.dumps(manifest)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "training pairs" in captured.err


def test_further_references_come_along(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, outputs: Path, quiet
) -> None:
    raw = Path(folder_config.path)
    write_lines(raw / "test.de.1", ["eins ", "zwei", "drei", "vier\r"])
    prepared = PreparedCorpus(prepare(folder_config, small_tokenizer, outputs, quiet))
    assert prepared.more_references("test") == [["eins", "zwei", "drei", "vier"]]
    assert prepared.more_references("valid") == []


def test_unchanged_stages_are_skipped(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, outputs: Path, quiet, stages
) -> None:
    first = prepare(folder_config, small_tokenizer, outputs, quiet)
    assert stages == ALL_STAGES
    assert prepare(folder_config, small_tokenizer, outputs, quiet) == first
    assert stages == ALL_STAGES
    stages.clear()
    other = prepare(folder_config, replace(small_tokenizer, vocabulary_size=331), outputs, quiet)
    assert other != first
    assert stages == ALL_STAGES[1:]
    stages.clear()
    config = replace(folder_config, cleaning=CleaningConfig(max_words=5))
    assert prepare(config, small_tokenizer, outputs, quiet) not in (first, other)
    assert stages == ALL_STAGES


def test_an_edited_file_is_noticed(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, outputs: Path, quiet
) -> None:
    first = prepare(folder_config, small_tokenizer, outputs, quiet)
    path = Path(folder_config.path) / "test.de"
    write_lines(path, [line.swapcase() for line in read_lines(path)])
    second = prepare(folder_config, small_tokenizer, outputs, quiet)
    assert second != first
    assert PreparedCorpus(second).read_text("test")[1] == read_lines(path)


def test_a_damaged_corpus_is_made_again(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, outputs: Path, quiet
) -> None:
    folder = prepare(folder_config, small_tokenizer, outputs, quiet)
    shard = folder / "train-00000.arrow"
    contents = shard.read_bytes()
    shard.write_bytes(contents[:100])
    assert prepare(folder_config, small_tokenizer, outputs, quiet) == folder
    assert shard.read_bytes() == contents


def test_separate_vocabularies(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, outputs: Path, quiet
) -> None:
    tokenizer = replace(small_tokenizer, joint=False, vocabulary_size=300)
    prepared = PreparedCorpus(prepare(folder_config, tokenizer, outputs, quiet))
    assert prepared.source_tokenizer.name == "tokenizer.en.model"
    assert prepared.target_tokenizer.name == "tokenizer.de.model"
    source, target = prepared.train().pair(3)
    raw = Path(folder_config.path)
    assert Tokenizer(prepared.source_tokenizer).decode([source]) == [
        read_lines(raw / "train.en")[3]
    ]
    assert Tokenizer(prepared.target_tokenizer).decode([target]) == [
        read_lines(raw / "train.de")[3]
    ]


@pytest.mark.parametrize("failing", ["write_cleaned_text", "build_shards"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, UserError])
def test_an_interruption_leaves_nothing_half_written(
    folder_config: CorpusConfig,
    small_tokenizer: TokenizerConfig,
    outputs: Path,
    quiet,
    monkeypatch,
    failing: str,
    error: type[BaseException],
) -> None:
    original = getattr(module, failing)

    def interrupted(*args, **options):
        original(*args, **options)
        raise error

    monkeypatch.setattr(module, failing, interrupted)
    with pytest.raises(error):
        prepare(folder_config, small_tokenizer, outputs, quiet)
    left = [path.name for path in outputs.rglob("*") if path.suffix not in {".lock", ".json"}]
    assert not [name for name in left if name.startswith(("toy-", ".toy-", "tokenizer"))]
    assert not [name for name in left if name.endswith((".tmp", ".old"))]
    monkeypatch.setattr(module, failing, original)
    assert len(PreparedCorpus(prepare(folder_config, small_tokenizer, outputs, quiet)).train())


def test_what_a_killed_process_left_is_removed(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, outputs: Path, quiet
) -> None:
    folder = prepare(folder_config, small_tokenizer, outputs, quiet)
    leftover = outputs / f".{folder.name}.{dead_process()}.tmp"
    leftover.mkdir()
    (folder / "manifest.json").unlink()
    prepare(folder_config, small_tokenizer, outputs, quiet)
    assert not leftover.exists()


def test_a_second_process_waits_for_the_first(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, outputs: Path, quiet, stages
) -> None:
    folder = prepare(folder_config, small_tokenizer, outputs, quiet)
    manifest = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").unlink()
    stages.clear()
    waiting, said = threading.Event(), []

    def say(text: str) -> None:
        said.append(text)
        waiting.set()

    results = []

    def second() -> None:
        reporter = SimpleNamespace(say=say)
        results.append(prepare(folder_config, small_tokenizer, outputs, reporter))

    thread = threading.Thread(target=second)
    with exclusive(outputs / f".{folder.name}.lock", lambda: None):
        thread.start()
        assert waiting.wait(timeout=10)
        (folder / "manifest.json").write_bytes(manifest)
    thread.join(timeout=10)
    assert results == [folder]
    assert said[0] == f"{folder}: another process is preparing it; waiting for it"
    assert stages == []


def test_bad_input_leaves_nothing(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, outputs: Path, quiet
) -> None:
    (Path(folder_config.path) / "train.de").write_bytes(b"ok\n" * 100 + b"\xe4\n" + b"ok\n" * 99)
    with pytest.raises(UserError, match=r"train\.de: line 101, byte 1: 0xe4"):
        prepare(folder_config, small_tokenizer, outputs, quiet)
    assert not list(outputs.glob("toy-*"))


def test_vocabulary_too_large(folder_config: CorpusConfig, outputs: Path, quiet) -> None:
    with pytest.raises(UserError, match=r"tokenizer\.vocabulary_size=8000 is larger"):
        prepare(folder_config, TokenizerConfig(), outputs, quiet)
    assert not list(outputs.glob("*toy-*.tmp"))


def test_outputs_that_cannot_be_made(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, tmp_path: Path, quiet
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file/corpora: cannot be written: not a dir"):
        prepare(folder_config, small_tokenizer, tmp_path / "file" / "corpora", quiet)


def test_annotations_stand_beside_the_text(
    small_tokenizer: TokenizerConfig, outputs: Path, quiet, monkeypatch
) -> None:
    def generate(languages, num_train, num_valid, num_test, seed):
        def draw(count: int) -> list[SimpleNamespace]:
            return [
                SimpleNamespace(
                    texts={code: f"{code} number {i} of {count}" for code in languages},
                    phenomena=("number",),
                    must_contain={"de": (str(i),)},
                    must_not_contain={"en": ("never",)},
                    group=f"pair-{i // 2}",
                )
                for i in range(count)
            ]

        return {"train": draw(num_train), "valid": draw(num_valid), "riddle": draw(num_test)}

    fake = ModuleType("data_prep.phrasebook.generate")
    fake.generate = generate
    monkeypatch.setitem(sys.modules, "data_prep.phrasebook.generate", fake)
    config = CorpusConfig(num_train=100, num_valid=4, num_test=4)
    folder = prepare(config, replace(small_tokenizer, vocabulary_size=285), outputs, quiet)
    lines = read_lines(folder / "text" / "riddle.annotations.jsonl")
    assert len(lines) == len(read_lines(folder / "text" / "riddle.de")) == 4
    assert json.loads(lines[3]) == {
        "phenomena": ["number"],
        "must_contain": ["3"],
        "must_not_contain": [],
        "group": "pair-1",
    }
    assert "compares with no score" in (folder / "report.html").read_text()


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="../shared/data/multi30k is not there")
def test_the_head_of_multi30k(tmp_path: Path, outputs: Path, quiet: Reporter) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for path in MULTI30K.glob("*.[de][en]"):
        head = [line for line, _ in zip(iterate_lines(path), range(1000), strict=False)]
        write_lines(raw / path.name, head)
    config = CorpusConfig(name="head", source=CorpusSource.folder, path=str(raw))
    folder = prepare(config, TokenizerConfig(vocabulary_size=1500), outputs, quiet)
    prepared = PreparedCorpus(folder)
    assert prepared.test_splits == ["test_2016_flickr"]
    assert len(prepared.train()) > 990
    tokenizer = Tokenizer(prepared.target_tokenizer)
    targets = prepared.read_text("test_2016_flickr")[1]
    assert tokenizer.decode(tokenizer.encode(targets)) == targets


def test_copies_are_split_in_ways_of_their_own(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, outputs: Path, quiet: Reporter
) -> None:
    config = replace(folder_config, copies=3)
    plain = PreparedCorpus(prepare(config, small_tokenizer, outputs, quiet)).train()
    split = replace(small_tokenizer, dropout=0.3)
    prepared = PreparedCorpus(prepare(config, split, outputs, quiet))
    pairs, tokenizer = prepared.train(), Tokenizer(prepared.source_tokenizer)
    assert len(pairs) == len(plain)
    ways: dict[str, set[tuple[int, ...]]] = {}
    for index in range(len(pairs)):
        assert tokenizer.decode(pairs.pair(index)) == tokenizer.decode(plain.pair(index))
        ids = pairs.pair(index)[0]
        ways.setdefault(tokenizer.decode([ids])[0], set()).add(tuple(map(int, ids)))
    assert sum(map(len, ways.values())) > 2 * len(ways)
    assert pairs.source_lengths.sum() > plain.source_lengths.sum()


def test_corpora_without_dropout_keep_their_names(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, outputs: Path, quiet: Reporter
) -> None:
    """A key that is not used is not part of the fingerprint."""
    folder = prepare(folder_config, small_tokenizer, outputs, quiet)
    assert "dropout" not in read_json(folder / "manifest.json")["inputs"]["tokenizer"]


def test_more_pairs_make_another_corpus(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, outputs: Path, tmp_path: Path
) -> None:
    plain = prepare(folder_config, small_tokenizer, outputs)
    more = tmp_path / "more"
    more.mkdir()
    write_lines(more / "train.en", ["<BT> A cat sleeps."])
    write_lines(more / "train.de", ["Eine Katze schläft."])
    mixed = prepare(replace(folder_config, more_path=str(more), copies=2), small_tokenizer, outputs)
    num_plain = len(PreparedCorpus(plain).train())
    assert len(PreparedCorpus(mixed).train()) == 2 * num_plain + 1
    assert read_json(mixed / "manifest.json")["num_pairs"]["train"] == 2 * num_plain + 1
