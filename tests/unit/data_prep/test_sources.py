import errno
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep.protocol import Annotation
from data_prep.sources import open_source
from nmt.config import CorpusConfig, CorpusSource
from nmt.errors import UserError
from nmt.files import write_lines

SPLITS = {"train": "train", "valid": "validation", "newstest": "test"}


def opened(config: CorpusConfig, tmp_path: Path):
    return open_source(config, tmp_path / "cache", lambda text: None)


def test_folder(folder_config: CorpusConfig, text_folder: Path, tmp_path: Path) -> None:
    write_lines(text_folder / "other.fr", ["un"])
    write_lines(text_folder / "lonely.en", ["one"])
    source = opened(folder_config, tmp_path)
    assert source.splits() == ["train", "valid", "test"]
    assert source.num_pairs("train") == len(list(source.pairs("train"))) == 200
    assert source.annotations("test") is None


def test_folder_lines_are_never_shifted(
    folder_config: CorpusConfig, text_folder: Path, tmp_path: Path
) -> None:
    write_lines(text_folder / "valid.en", ["a\u2028b", "c\x85d\r", "e\x0bf", "\u2029"])
    write_lines(text_folder / "valid.de", ["1", "2", "3", "4"])
    pairs = list(opened(folder_config, tmp_path).pairs("valid"))
    assert pairs == [("a\u2028b", "1"), ("c\x85d\r", "2"), ("e\x0bf", "3"), ("\u2029", "4")]


def test_folder_further_references(
    folder_config: CorpusConfig, text_folder: Path, tmp_path: Path
) -> None:
    plain = opened(folder_config, tmp_path)
    assert plain.more_references("test") == []
    before = plain.identity()
    write_lines(text_folder / "test.de.1", ["1", "2", "3", "4"])
    write_lines(text_folder / "test.de.2", ["5", "6", "7", "8"])
    write_lines(text_folder / "train.de.1", ["left alone"])
    source = opened(folder_config, tmp_path)
    assert source.splits() == ["train", "valid", "test"]
    assert source.more_references("test") == [["1", "2", "3", "4"], ["5", "6", "7", "8"]]
    assert source.identity() != before
    # From German, the English text is the reference, and it has one.
    back = opened(replace(folder_config, direction="de-en"), tmp_path)
    assert back.more_references("test") == []
    write_lines(text_folder / "test.de.2", ["5", "6", "7"])
    with pytest.raises(UserError, match=r"test.en has 4 lines and .*test.de.2 has 3"):
        opened(folder_config, tmp_path)


def test_folder_directions(folder_config: CorpusConfig, tmp_path: Path) -> None:
    there = opened(folder_config, tmp_path)
    back = opened(replace(folder_config, direction="de-en"), tmp_path)
    assert [(b, a) for a, b in there.pairs("train")] == list(back.pairs("train"))


def test_folder_identity_is_its_contents(
    folder_config: CorpusConfig, text_folder: Path, tmp_path: Path
) -> None:
    before = opened(folder_config, tmp_path).identity()
    moved = text_folder.rename(tmp_path / "moved")
    config = replace(folder_config, path=str(moved))
    assert opened(config, tmp_path).identity() == before
    lines = (moved / "train.en").read_text().splitlines()
    write_lines(moved / "train.en", [lines[0].swapcase(), *lines[1:]])
    assert opened(config, tmp_path).identity() != before


def test_folder_unequal_counts(
    folder_config: CorpusConfig, text_folder: Path, tmp_path: Path
) -> None:
    write_lines(text_folder / "valid.de", ["nur eine"])
    with pytest.raises(UserError, match=r"valid\.en has 5 lines and .*valid\.de has 1"):
        opened(folder_config, tmp_path)


@pytest.mark.parametrize("name", ["train.en", "train.de", "valid.en", "valid.de"])
def test_folder_missing_file(
    folder_config: CorpusConfig, text_folder: Path, tmp_path: Path, name: str
) -> None:
    (text_folder / name).unlink()
    with pytest.raises(UserError, match=rf"{name}: no such file"):
        opened(folder_config, tmp_path)


def test_folder_missing_itself(folder_config: CorpusConfig, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"corpus\.path=nowhere is not a folder"):
        opened(replace(folder_config, path="nowhere"), tmp_path)


def test_folder_empty_file(folder_config: CorpusConfig, text_folder: Path, tmp_path: Path) -> None:
    write_lines(text_folder / "test.en", [])
    write_lines(text_folder / "test.de", [])
    with pytest.raises(UserError, match=r"test\.en and .*test\.de are empty"):
        opened(folder_config, tmp_path)


def test_folder_with_a_folder_for_a_file(
    folder_config: CorpusConfig, text_folder: Path, tmp_path: Path
) -> None:
    (text_folder / "train.en").unlink()
    (text_folder / "train.en").mkdir()
    with pytest.raises(UserError, match=r"train\.en: is not a file"):
        opened(folder_config, tmp_path)


def test_folder_invalid_utf8(
    folder_config: CorpusConfig, text_folder: Path, tmp_path: Path
) -> None:
    (text_folder / "valid.de").write_bytes(b"eins\nzwei\ndr\xe4i\nvier\nfuenf\n")
    with pytest.raises(UserError, match=r"valid\.de: line 3, byte 3: 0xe4 is not valid UTF-8"):
        list(opened(folder_config, tmp_path).pairs("valid"))


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


def test_hub_reads_local_parquet(hub_config: CorpusConfig, tmp_path: Path) -> None:
    source = opened(hub_config, tmp_path)
    assert source.splits() == ["train", "valid", "newstest"]
    pairs = list(source.pairs("train"))
    assert len(pairs) == 3000
    assert pairs[0] == ("part 0 line 0", "part 0 Satz 0")
    assert pairs[-1] == ("part 1 line 1499", "part 1 Satz 1499")
    assert len(list(source.pairs("newstest"))) == 3
    assert next(opened(replace(hub_config, direction="de-en"), tmp_path).pairs("valid")) == (
        "validation Satz 0",
        "validation line 0",
    )


def test_hub_plain_columns_and_missing_text(tmp_path: Path) -> None:
    for name in ("train", "validation", "test"):
        table = pa.table({"en": ["one", None], "de": ["eins", "zwei"]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    config = CorpusConfig(
        source=CorpusSource.hub, path=str(tmp_path), hub_column="{language}", hub_splits=SPLITS
    )
    assert list(opened(config, tmp_path).pairs("train")) == [("one", "eins"), ("", "zwei")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hub_splits": {"train": "train"}}, r"corpus\.hub_splits lacks valid"),
        ({"hub_column": "text"}, r"corpus\.hub_column=text lacks \{language\}"),
        ({"path": "", "hub_dataset": ""}, r"corpus\.hub_dataset is empty"),
        ({"path": "nowhere"}, r"corpus\.path=nowhere is not a folder"),
        ({"hub_splits": SPLITS | {"more": "extra"}}, r"holds no extra-\*\.parquet"),
    ],
)
def test_hub_mistakes(
    hub_config: CorpusConfig, tmp_path: Path, changes: dict, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        opened(replace(hub_config, **changes), tmp_path)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("{language}", r"asks for en to read en, and the rows have translation"),
        ("translation.{language}_x", r"asks for translation\.en_x .* have translation\.de, trans"),
    ],
)
def test_hub_column_absent(
    hub_config: CorpusConfig, tmp_path: Path, column: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        list(opened(replace(hub_config, hub_column=column), tmp_path).pairs("valid"))


def test_hub_damaged_parquet(hub_config: CorpusConfig, tmp_path: Path) -> None:
    path = next(Path(hub_config.path).rglob("validation-*"))
    path.write_bytes(b"PAR1 damaged")
    with pytest.raises(UserError, match=r"cannot be read \("):
        list(opened(hub_config, tmp_path).pairs("valid"))


def test_hub_identity(hub_config: CorpusConfig, tmp_path: Path) -> None:
    remote = replace(hub_config, path="", hub_dataset="wmt/wmt14", hub_revision="abc")
    identity = opened(remote, tmp_path).identity()
    assert (identity["dataset"], identity["subset"], identity["revision"]) == (
        "wmt/wmt14",
        "de-en",
        "abc",
    )
    before = opened(hub_config, tmp_path).identity()
    pq.write_table(
        pa.table(translation_rows(4, "changed")), next(Path(hub_config.path).rglob("test-*"))
    )
    assert opened(hub_config, tmp_path).identity() != before


def test_hub_without_network(hub_config: CorpusConfig, tmp_path: Path, monkeypatch) -> None:
    asked = {}

    def refuse(*args, **options):
        asked.update(options, args=args)
        raise ConnectionError("Couldn't reach 'wmt/wmt14' on the Hub\nand a long story")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    remote = replace(hub_config, path="", hub_dataset="wmt/wmt14")
    with pytest.raises(UserError, match=r"hub_dataset=wmt/wmt14/de-en cannot be fetched") as caught:
        list(opened(remote, tmp_path).pairs("valid"))
    assert "corpus.path" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert asked == {"args": ("wmt/wmt14", "de-en"), "split": "validation", "revision": None}


def test_a_hub_cache_without_room(hub_config: CorpusConfig, tmp_path: Path, monkeypatch) -> None:
    def refuse(*args, **options):
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError:
            raise RuntimeError("An error occurred while generating the dataset") from None

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    remote = replace(hub_config, path="", hub_dataset="wmt/wmt14")
    with pytest.raises(UserError, match=r"hub's cache \(No space left on device\); .* HF_HOME"):
        list(opened(remote, tmp_path).pairs("valid"))


def test_hub_mapped_data_set(hub_config: CorpusConfig, tmp_path: Path, monkeypatch) -> None:
    rows = datasets.Dataset.from_dict(translation_rows(5, "hub"))
    monkeypatch.setattr(datasets, "load_dataset", lambda *args, **options: rows)
    source = opened(replace(hub_config, path="", hub_dataset="wmt/wmt14"), tmp_path)
    assert source.num_pairs("train") == 5
    assert list(source.pairs("train"))[4] == ("hub line 4", "hub Satz 4")


@dataclass(frozen=True)
class FakePair:
    texts: dict[str, str]
    phenomena: tuple[str, ...]
    must_contain: dict[str, tuple[str, ...]]
    must_not_contain: dict[str, tuple[str, ...]]
    group: str


def fake_generate(languages, num_train, num_valid, num_test, seed):
    def draw(split: str, count: int) -> list[FakePair]:
        return [
            FakePair(
                {language: f"{split} {language} {seed} {i}" for language in languages},
                ("riddle",),
                {"de": ("weil es",), "en": ("because",)},
                {"de": ("weil er",)},
                f"{split}-{i // 2}",
            )
            for i in range(count)
        ]

    counts = {"train": num_train, "valid": num_valid, "test": num_test, "riddle": 2, "held_out": 2}
    return {split: draw(split, count) for split, count in counts.items()}


@pytest.fixture
def fake_phrasebook(monkeypatch) -> None:
    module = ModuleType("data_prep.phrasebook.generate")
    module.generate = fake_generate
    monkeypatch.setitem(sys.modules, "data_prep.phrasebook.generate", module)


@pytest.mark.usefixtures("fake_phrasebook")
def test_phrasebook(tmp_path: Path) -> None:
    config = CorpusConfig(num_train=10, num_valid=3, num_test=4, seed=7)
    source = opened(config, tmp_path)
    assert source.splits() == ["train", "valid", "held_out", "riddle", "test"]
    assert source.num_pairs("train") == 10
    assert next(source.pairs("train")) == ("train en 7 0", "train de 7 0")
    assert (
        source.annotations("riddle")
        == [Annotation(["riddle"], ["weil es"], ["weil er"], "riddle-0")] * 2
    )
    without = opened(replace(config, num_test=0), tmp_path)
    assert without.splits() == ["train", "valid", "held_out", "riddle"]
    back = opened(replace(config, direction="de-en"), tmp_path)
    assert back.annotations("riddle")[0].must_contain == ["because"]
    assert back.annotations("riddle")[0].must_not_contain == []


def test_phrasebook_identity(tmp_path: Path) -> None:
    first = opened(CorpusConfig(seed=1), tmp_path).identity()
    assert opened(CorpusConfig(seed=1), tmp_path).identity() == first
    assert opened(CorpusConfig(seed=2), tmp_path).identity() != first
    assert opened(CorpusConfig(num_test=5), tmp_path).identity() != first


def test_phrasebook_languages(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"corpus\.direction=de-fr: the phrasebook knows"):
        opened(CorpusConfig(direction="de-fr"), tmp_path)
