import errno
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import Mock

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep.clean import score_of
from data_prep.manifest import FactsCache
from data_prep.protocol import Annotation
from data_prep.sources import open_all
from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.config import CorpusConfig, CorpusSource, SourceConfig
from tests.unit.data_prep.conftest import Toy, write_pairs

SPLITS = {"train": "train", "valid": "validation", "newstest": "test"}


def test_folder(toy: Toy, opened) -> None:
    write_lines(toy.raw / "other.fr", ["un"])
    write_lines(toy.raw / "lonely.en", ["one"])
    source = opened(toy.config)
    assert source.splits() == ["train", "valid", "test"]
    assert source.num_pairs("train") == len(list(source.pairs("train"))) == 200
    assert source.annotations("test") is None
    back = opened(toy.config, direction="de-en")
    assert [(b, a) for a, b in source.pairs("train")] == list(back.pairs("train"))


@pytest.mark.parametrize("name", [b"a\x1b[2Jb", b"caf\xe9"])
def test_folder_with_an_unprintable_split_name(toy: Toy, opened, name: bytes) -> None:
    write_pairs(toy.raw, os.fsdecode(name), ["text"], ["text"])
    with pytest.raises(UserError, match=r"split .* rename its files") as error:
        opened(toy.config)
    assert str(error.value).isprintable()


def test_folder_lines_end_only_at_line_feeds(toy: Toy, opened) -> None:
    lines, numbers = ["a\u2028b", "c\x85d\r", "e\x0bf", "\u2029"], ["1", "2", "3", "4"]
    write_pairs(toy.raw, "valid", lines, numbers)
    pairs = list(opened(toy.config).pairs("valid"))
    assert pairs == list(zip(lines, numbers, strict=True))


def test_folder_with_additional_references(toy: Toy, opened) -> None:
    plain = opened(toy.config)
    assert plain.more_references("test") == []
    before = plain.identity()
    write_lines(toy.raw / "test.de.1", ["1", "2", "3", "4"])
    write_lines(toy.raw / "test.de.2", ["5", "6", "7", "8"])
    write_lines(toy.raw / "train.de.1", ["left alone"])
    source = opened(toy.config)
    assert source.splits() == ["train", "valid", "test"]
    assert source.more_references("test") == [["1", "2", "3", "4"], ["5", "6", "7", "8"]]
    assert source.identity() != before
    # From German, the English text is the reference, and it has one.
    back = opened(toy.config, direction="de-en")
    assert back.more_references("test") == []
    write_lines(toy.raw / "test.de.2", ["5", "6", "7"])
    with pytest.raises(UserError, match=r"test.en has 4 lines and .*test.de.2 has 3"):
        opened(toy.config)


def test_folder_identity_depends_on_contents_only(toy: Toy, opened, tmp_path: Path) -> None:
    before = opened(toy.config).identity()
    moved = toy.raw.rename(tmp_path / "moved")
    config = replace(toy.config, path=str(moved))
    assert opened(config).identity() == before
    lines = (moved / "train.en").read_text().splitlines()
    write_lines(moved / "train.en", [lines[0].swapcase(), *lines[1:]])
    assert opened(config).identity() != before


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        *[(name, None, f"{name}: no such file") for name in ("train.en", "train.de", "valid.de")],
        ("valid.de", "Wörter\n".encode("utf-16"), r"valid\.de: is UTF-16"),
        ("valid.de", b"nur eine\n", r"valid\.en has 5 lines and .*valid\.de has 1"),
        ("valid.de", b"1\n2\ndr\xe4i\n4\n5\n", r"valid\.de: line 3, byte 3: 0xe4 is not valid"),
        ("test.de", b"", r"test\.en has 4 lines and .*test\.de has 0"),
    ],
)
def test_folder_with_a_wrong_file(
    toy: Toy, opened, name: str, contents: bytes | None, message: str
) -> None:
    (toy.raw / name).unlink()
    if contents is not None:
        (toy.raw / name).write_bytes(contents)
    with pytest.raises(UserError, match=message):
        list(opened(toy.config).pairs("valid"))


def test_folder_without_text(toy: Toy, opened) -> None:
    with pytest.raises(UserError, match=r"corpus\.path=nowhere is neither a folder nor a file"):
        opened(toy.config, path="nowhere")
    write_pairs(toy.raw, "test", [], [])
    with pytest.raises(UserError, match=r"test\.en and .*test\.de are empty"):
        opened(toy.config)
    (toy.raw / "train.en").unlink()
    (toy.raw / "train.en").mkdir()
    with pytest.raises(UserError, match=r"train\.en: is not a file"):
        opened(toy.config)


def translation_rows(count: int, tag: str) -> dict[str, list]:
    return {
        "translation": [{"de": f"{tag} Satz {i}", "en": f"{tag} line {i}"} for i in range(count)]
    }


@pytest.fixture
def hub_config(tmp_path: Path) -> CorpusConfig:
    folder = tmp_path / "parquet" / "de-en"
    folder.mkdir(parents=True)
    for part in range(2):
        name = f"train-0000{part}-of-00002.parquet"
        pq.write_table(pa.table(translation_rows(1500, f"part {part}")), folder / name)
    for split in ("validation", "test"):
        name = f"{split}-00000-of-00001.parquet"
        pq.write_table(pa.table(translation_rows(3, split)), folder / name)
    return CorpusConfig(
        name="local",
        source=CorpusSource.hub,
        path=str(folder.parent),
        hub_subset="de-en",
        hub_splits=SPLITS,
    )


def test_hub_reads_local_parquet(hub_config: CorpusConfig, opened) -> None:
    source = opened(hub_config)
    assert source.splits() == ["train", "valid", "newstest"]
    pairs = list(source.pairs("train"))
    assert len(pairs) == 3000
    assert pairs[0] == ("part 0 line 0", "part 0 Satz 0")
    assert pairs[-1] == ("part 1 line 1499", "part 1 Satz 1499")
    assert len(list(source.pairs("newstest"))) == 3
    back = opened(hub_config, direction="de-en")
    assert next(back.pairs("valid")) == ("validation Satz 0", "validation line 0")


def test_a_data_set_without_validation_has_it_held_out(hub_config: CorpusConfig, opened) -> None:
    source = opened(hub_config, hub_splits={"train": "train"})
    assert source.splits() == ["train", "valid", "test"]
    numbers = {split: len(list(source.pairs(split))) for split in source.splits()}
    assert sum(numbers.values()) == 3000
    assert numbers["valid"] == numbers["test"] == 150


def test_hub_column_of_scores(hub_config: CorpusConfig, opened) -> None:
    files = {path: pq.read_table(path) for path in Path(hub_config.path).rglob("train-*.parquet")}

    def write_scores(last: float | None) -> None:
        for path, rows in files.items():
            scores = [*[0.5] * (rows.num_rows - 1), last]
            pq.write_table(rows.append_column("comet", [scores]), path)

    write_scores(1.5)
    source = opened(hub_config, hub_score="comet")
    assert {score_of(pair) for pair in source.pairs("train")} == {0.5, 1.5}
    with pytest.raises(UserError, match=r"hub_score=qe: the rows have only .*comet"):
        list(opened(hub_config, hub_score="qe").pairs("train"))
    write_scores(None)
    with pytest.raises(UserError, match=r"hub_score=comet: None is not a finite number"):
        list(opened(hub_config, hub_score="comet").pairs("train"))


def test_errors_of_a_further_source_name_its_keys(toy: Toy, tmp_path: Path) -> None:
    sources = {"web": SourceConfig(source=CorpusSource.hub)}
    config = replace(toy.config, sources=sources)
    facts = FactsCache(tmp_path / "facts.json")
    with pytest.raises(UserError, match=r"^corpus\.sources\.web\.hub_splits lacks train"):
        open_all(config, tmp_path, facts, print)


def test_hub_plain_columns_and_missing_text(tmp_path: Path, opened) -> None:
    for name in ("train", "validation", "test"):
        table = pa.table({"en": ["one", None], "de": ["eins", "zwei"]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    config = CorpusConfig(
        source=CorpusSource.hub, path=str(tmp_path), hub_column="{language}", hub_splits=SPLITS
    )
    assert list(opened(config).pairs("train")) == [("one", "eins"), ("", "zwei")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hub_splits": {"valid": "train"}}, r"corpus\.hub_splits lacks train"),
        ({"hub_column": "text"}, r"corpus\.hub_column=text lacks \{language\}"),
        ({"path": "", "hub_dataset": ""}, r"corpus\.hub_dataset is empty"),
        ({"path": "nowhere"}, r"corpus\.path=nowhere is not a folder"),
        ({"hub_splits": SPLITS | {"more": "extra"}}, r"contains no extra-\*\.parquet"),
        ({"hub_column": "{language}"}, r"reads en from en, but the rows have translation"),
        (
            {"hub_column": "translation.{language}_x"},
            r"en from translation\.en_x, .* have translation\.de, trans",
        ),
    ],
)
def test_hub_configuration_errors(
    hub_config: CorpusConfig, opened, changes: dict, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        list(opened(hub_config, **changes).pairs("valid"))


def test_hub_damaged_parquet(hub_config: CorpusConfig, opened) -> None:
    path = next(Path(hub_config.path).rglob("validation-*"))
    path.write_bytes(b"PAR1 damaged")
    with pytest.raises(UserError, match=r"cannot be read \("):
        list(opened(hub_config).pairs("valid"))


@pytest.fixture
def remote(hub_config: CorpusConfig) -> CorpusConfig:
    return replace(hub_config, path="", hub_dataset="wmt/wmt14", hub_revision="abc")


def test_hub_identity(hub_config: CorpusConfig, remote: CorpusConfig, opened) -> None:
    identity = opened(remote).identity()
    expected = {"dataset": "wmt/wmt14", "subset": "de-en", "revision": "abc"}
    assert identity | expected == identity
    before = opened(hub_config).identity()
    path = next(Path(hub_config.path).rglob("test-*"))
    pq.write_table(pa.table(translation_rows(4, "changed")), path)
    assert opened(hub_config).identity() != before


@pytest.mark.parametrize(
    ("error", "context", "message"),
    [
        (
            ConnectionError("Couldn't reach 'wmt/wmt14' on the Hub\nand a long story"),
            None,
            r"hub_dataset=wmt/wmt14/de-en cannot be loaded .*corpus\.path",
        ),
        (
            RuntimeError("An error occurred while generating the dataset"),
            OSError(errno.ENOSPC, "No space left on device"),
            r"hub's cache \(No space left on device\); .* HF_HOME",
        ),
    ],
)
def test_hub_without_network_or_space(
    remote: CorpusConfig,
    opened,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    context: Exception | None,
    message: str,
) -> None:
    error.__context__ = context
    load = Mock(side_effect=error)
    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(UserError, match=message) as caught:
        list(opened(remote).pairs("valid"))
    assert "\n" not in str(caught.value)
    load.assert_called_once_with("wmt/wmt14", "de-en", split="validation", revision="abc")


def test_hub_data_set_in_memory(
    remote: CorpusConfig, opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = datasets.Dataset.from_dict(translation_rows(5, "hub"))
    monkeypatch.setattr(datasets, "load_dataset", lambda *args, **options: rows)
    source = opened(remote)
    assert source.num_pairs("train") == 5
    assert list(source.pairs("train"))[4] == ("hub line 4", "hub Satz 4")


def fake_generate(languages, num_train, num_valid, num_test, seed):
    counts = {"train": num_train, "valid": num_valid, "test": num_test, "riddle": 2, "held_out": 2}
    return {
        split: [
            SimpleNamespace(
                texts={language: f"{split} {language} {seed} {i}" for language in languages},
                phenomena=("riddle",),
                must_contain={"de": ("weil es",), "en": ("because",)},
                must_not_contain={"de": ("weil er",)},
                group=f"{split}-{i // 2}",
            )
            for i in range(count)
        ]
        for split, count in counts.items()
    }


def test_phrasebook(opened, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("data_prep.phrasebook.generate")
    module.generate = fake_generate
    monkeypatch.setitem(sys.modules, "data_prep.phrasebook.generate", module)
    config = CorpusConfig(num_train=10, num_valid=3, num_test=4, seed=7)
    source = opened(config)
    assert source.splits() == ["train", "valid", "held_out", "riddle", "test"]
    assert source.num_pairs("train") == 10
    assert next(source.pairs("train")) == ("train en 7 0", "train de 7 0")
    annotation = Annotation(["riddle"], ["weil es"], ["weil er"], "riddle-0")
    assert source.annotations("riddle") == [annotation] * 2
    without = opened(config, num_test=0)
    assert without.splits() == ["train", "valid", "held_out", "riddle"]
    back = opened(config, direction="de-en")
    assert back.annotations("riddle")[0].must_contain == ["because"]
    assert back.annotations("riddle")[0].must_not_contain == []


def test_phrasebook_identity_and_languages(opened) -> None:
    first = opened(CorpusConfig(seed=1)).identity()
    assert opened(CorpusConfig(seed=1)).identity() == first
    assert opened(CorpusConfig(seed=2)).identity() != first
    assert opened(CorpusConfig(num_test=5)).identity() != first
    with pytest.raises(UserError, match=r"corpus\.direction=de-fr: the phrasebook offers"):
        opened(CorpusConfig(direction="de-fr"))
