import json
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import data_prep.prepare as module
from data_prep.prepare import prepare
from data_prep.progress import Reporter
from nmt.base.errors import UserError
from nmt.base.files import read_json, read_lines, write_lines
from nmt.base.locks import exclusive
from nmt.base.log import converted_errors
from nmt.config import CleaningConfig, CorpusConfig, MixingConfig, SourceConfig
from nmt.data.corpus import PreparedCorpus
from nmt.tokenizer import Tokenizer
from tests.support import dead_process
from tests.unit.data_prep.conftest import Toy

ALL_STAGES = ["write_cleaned_text", "train_tokenizer", "build_shards"]


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the stages that ran."""
    ran: list[str] = []

    def recording(name: str):
        original = getattr(module, name)
        return lambda *args, **options: (ran.append(name), original(*args, **options))[1]

    for name in ALL_STAGES:
        monkeypatch.setattr(module, name, recording(name))
    return ran


def test_a_corpus_from_end_to_end(toy: Toy, capfd: pytest.CaptureFixture[str]) -> None:
    write_lines(toy.raw / "test.de.1", ["eins ", "zwei", "drei", "vier\r"])
    folder = prepare(toy.config, toy.tokenizer, toy.outputs)
    assert folder.parent == toy.outputs
    assert folder.name.startswith("toy-")
    prepared = PreparedCorpus(folder)
    assert (prepared.source_language, prepared.target_language) == ("en", "de")
    assert prepared.test_splits == ["test"]
    pairs = prepared.train()
    manifest = read_json(folder / "manifest.json")
    assert len(pairs) == manifest["num_pairs"]["train"] == manifest["cleaning"]["num_kept"]
    decoded = Tokenizer(prepared.source_tokenizer).decode(pairs.pair(0))
    assert decoded == [toy.lines("train.en")[0], toy.lines("train.de")[0]]
    assert prepared.read_text("test")[1] == toy.lines("test.de")
    _, additional = prepared.reference_paths("test")
    assert read_lines(additional) == ["eins", "zwei", "drei", "vier"]
    assert len(prepared.reference_paths("valid")) == 1
    assert set(manifest["outputs"]) >= {"train-00000.arrow", "tokenizer.model", "report.html"}
    assert str(toy.outputs) not in json.dumps(manifest)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "training pairs" in captured.err


def test_only_changed_stages_run(toy: Toy, prepared: Path, stages: list[str]) -> None:
    assert toy.prepare() == prepared
    assert stages == []
    other = toy.prepare(replace(toy.tokenizer, vocabulary_size=331))
    assert other != prepared
    assert stages == ALL_STAGES[1:]
    stages.clear()
    assert toy.prepare(cleaning=CleaningConfig(max_words=5)) not in (prepared, other)
    assert stages == ALL_STAGES


def test_what_is_left_of_a_damaged_corpus_is_replaced(toy: Toy, prepared: Path) -> None:
    leftover = toy.outputs / f".{prepared.name}.{dead_process()}.tmp"
    leftover.mkdir()
    shard = prepared / "train-00000.arrow"
    contents = shard.read_bytes()
    shard.write_bytes(contents[:100])
    assert toy.prepare() == prepared
    assert shard.read_bytes() == contents
    assert not leftover.exists()  # of a killed process


@pytest.mark.parametrize("name", ["manifest.json", "cleaning.json", "leakage.json"])
def test_a_json_file_of_the_wrong_shape_is_written_again(
    toy: Toy, prepared: Path, name: str
) -> None:
    [path] = toy.outputs.rglob(name)
    expected = read_json(path).keys()
    for size, text in enumerate(("null", '{"version": [], "outputs": 1, "words": 2}'), start=331):
        path.write_text(text)
        is_manifest = name == "manifest.json"
        toy.prepare(toy.tokenizer if is_manifest else replace(toy.tokenizer, vocabulary_size=size))
        assert read_json(path).keys() == expected


def test_a_shard_with_a_flipped_bit_is_written_again(toy: Toy, prepared: Path) -> None:
    [shard] = prepared.glob("train-*.arrow")
    contents = shard.read_bytes()
    shard.write_bytes(contents[:500] + bytes([contents[500] ^ 1]) + contents[501:])
    assert toy.prepare() == prepared
    assert shard.read_bytes() == contents


def test_separate_vocabularies(toy: Toy) -> None:
    folder = toy.prepare(replace(toy.tokenizer, joint=False, vocabulary_size=300))
    prepared = PreparedCorpus(folder)
    models = prepared.source_tokenizer, prepared.target_tokenizer
    for side, language in enumerate(("en", "de")):
        assert models[side].name == f"tokenizer.{language}.model"
        decoded = Tokenizer(models[side]).decode([prepared.train().pair(3)[side]])
        assert decoded == [toy.lines(f"train.{language}")[3]]
    assert "one vocabulary for each language" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("failing", "error"), [("write_cleaned_text", KeyboardInterrupt), ("build_shards", UserError)]
)
def test_an_interruption_leaves_no_partial_files(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, failing: str, error: type[BaseException]
) -> None:
    original = getattr(module, failing)

    def interrupted(*args, **options):
        original(*args, **options)
        raise error

    monkeypatch.setattr(module, failing, interrupted)
    with pytest.raises(error):
        toy.prepare()
    left = [path.name for path in toy.outputs.rglob("*") if path.suffix not in {".lock", ".json"}]
    assert not [name for name in left if name.startswith(("toy-", ".toy-", "tokenizer"))]
    assert not [name for name in left if name.endswith((".tmp", ".old"))]
    monkeypatch.setattr(module, failing, original)
    assert len(PreparedCorpus(toy.prepare()).train())


def test_a_second_process_waits_for_the_first(toy: Toy, prepared: Path, stages: list[str]) -> None:
    manifest = (prepared / "manifest.json").read_bytes()
    (prepared / "manifest.json").unlink()
    waiting, messages, results = threading.Event(), [], []
    reporter = SimpleNamespace(print=lambda text: (messages.append(text), waiting.set()))

    def second() -> None:
        results.append(prepare(toy.config, toy.tokenizer, toy.outputs, reporter))

    thread = threading.Thread(target=second)
    with exclusive(toy.outputs / f".{prepared.name}.lock", lambda: None):
        thread.start()
        assert waiting.wait(timeout=10)
        (prepared / "manifest.json").write_bytes(manifest)
    thread.join(timeout=10)
    assert results == [prepared]
    assert messages[0] == f"{prepared}: another process is preparing it; waiting"
    assert stages == []


def test_invalid_text_leaves_no_corpus(toy: Toy) -> None:
    (toy.raw / "train.de").write_bytes(b"ok\n" * 100 + b"\xe4\n" + b"ok\n" * 99)
    with pytest.raises(UserError, match=r"train\.de: line 101, byte 1: 0xe4"):
        toy.prepare()
    assert not list(toy.outputs.glob("toy-*"))


def test_an_output_folder_that_cannot_be_made_is_named(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("")
    message = "outputs/corpora: cannot be written: not a dir"
    with pytest.raises(UserError, match=message), converted_errors():
        toy.prepare()


def test_annotations_are_written_with_the_text(toy: Toy) -> None:
    phrasebook = replace(toy, config=CorpusConfig(num_train=100, num_valid=4, num_test=20))
    folder = phrasebook.prepare()
    annotations = list(map(json.loads, read_lines(folder / "text" / "riddle.annotations.jsonl")))
    texts = read_lines(folder / "text" / "riddle.de")
    assert len(texts) >= 2
    for text, annotation in zip(texts, annotations, strict=True):
        assert annotation["phenomena"]
        assert annotation["group"]
        assert all(words in text for words in annotation["must_contain"])
        assert not any(words in text for words in annotation["must_not_contain"])
    assert "cannot be compared" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("name", "lines", "max_train_pairs", "message"),
    [
        # Not read to its end.
        ("train.en", ["a changed sentence"] * 200, 20, "raw: was changed while it was read"),
        ("train.en", ["a changed sentence"] * 200, 0, "train.en: was changed while it was read"),
        ("test.de.1", ["fewer", "lines"], 0, "test.de.1 has 2; they must be aligned"),
    ],
)
def test_text_that_changes_after_its_fingerprint_is_refused_and_not_kept(
    toy: Toy,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    lines: list[str],
    max_train_pairs: int,
    message: str,
) -> None:
    monkeypatch.setattr("data_prep.cleaned_text.SHARD_PAIRS", 50)
    monkeypatch.setattr("data_prep.executors.num_cores", lambda: 1)
    write_lines(toy.raw / "test.de.1", ["eins", "zwei", "drei", "vier"])
    original, before = module.write_cleaned_text, toy.lines(name)

    def late(*arguments: object, **options: object) -> object:
        write_lines(toy.raw / name, lines)
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_cleaned_text", late)
        with pytest.raises(UserError, match=message):
            toy.prepare(max_train_pairs=max_train_pairs)
    write_lines(toy.raw / name, before)
    prepared = PreparedCorpus(toy.prepare(max_train_pairs=max_train_pairs))
    first = Tokenizer(prepared.source_tokenizer).decode(prepared.train().pair(0))[0]
    assert first == toy.lines("train.en")[0]


def test_duplicates_stay_in_the_source_with_the_larger_weight(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own").mkdir()
    for language in ("en", "de"):
        write_lines(tmp_path / "own" / f"train.{language}", toy.lines(f"train.{language}")[:40])
    sources = {"own": SourceConfig(path=str(tmp_path / "own"))}
    manifests = []
    for weights in ({"toy": 1, "own": 3}, {"toy": 3, "own": 1}):
        config = replace(toy.config, sources=sources, mixing=MixingConfig(weights=weights))
        folder = prepare(config, toy.tokenizer, toy.outputs, Reporter())
        manifests.append(read_json(folder / "manifest.json")["sources"])
        assert len(PreparedCorpus(folder).train()) == sum(manifests[-1].values())
    assert list(manifests[0]) == ["own", "toy"]
    assert manifests[0]["own"] == 40
    assert manifests[1]["own"] == 0
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("warning: ") == 1
    assert "warning: 0 of 40 pairs of own are kept; 40 were dropped by the filter duplicate" in said
