import random
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from data_prep.prepare import prepare
from data_prep.progress import Reporter
from nmt.base.files import read_lines, write_lines
from nmt.config import CorpusConfig, CorpusSource, TokenizerConfig

WORDS = {
    "en": ["the", "a", "dog", "cat", "house", "tree", "red", "small", "runs", "sees", "near"],
    "de": ["der", "ein", "Hund", "Katze", "Haus", "Baum", "rot", "klein", "läuft", "sieht", "an"],
}


def sentences(language: str, count: int, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [
        " ".join(generator.choices(WORDS[language], k=generator.randint(3, 9)))
        for _ in range(count)
    ]


def write_pairs(folder: Path, split: str, english: list[str], german: list[str]) -> None:
    write_lines(folder / f"{split}.en", english)
    write_lines(folder / f"{split}.de", german)


@dataclass(frozen=True)
class Toy:
    """A folder of aligned text and the settings with which it is prepared."""

    config: CorpusConfig
    tokenizer: TokenizerConfig
    outputs: Path

    @property
    def raw(self) -> Path:
        return Path(self.config.path)

    def lines(self, name: str) -> list[str]:
        return read_lines(self.raw / name)

    def prepare(self, tokenizer: TokenizerConfig | None = None, **corpus: object) -> Path:
        config = replace(self.config, **corpus)
        return prepare(config, tokenizer or self.tokenizer, self.outputs, Reporter(quiet=True))


@pytest.fixture
def text_folder(tmp_path: Path) -> Path:
    """A small aligned corpus: 200 training pairs, 5 for validation, one test set of 4."""
    folder = tmp_path / "raw"
    folder.mkdir()
    for split, count in (("train", 200), ("valid", 5), ("test", 4)):
        write_pairs(folder, split, sentences("en", count, count), sentences("de", count, count))
    return folder


@pytest.fixture
def folder_config(text_folder: Path) -> CorpusConfig:
    return CorpusConfig(name="toy", source=CorpusSource.folder, path=str(text_folder))


@pytest.fixture
def toy(folder_config: CorpusConfig, tmp_path: Path) -> Toy:
    return Toy(folder_config, TokenizerConfig(vocabulary_size=330), tmp_path / "outputs/corpora")


@pytest.fixture
def quiet() -> Reporter:
    return Reporter(quiet=True)
