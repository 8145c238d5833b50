import random
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from data_prep.manifest import FactsCache
from data_prep.prepare import prepare
from data_prep.progress import Reporter
from data_prep.sources import open_corpus
from nmt.base.files import read_lines, write_lines
from nmt.config import CorpusConfig, CorpusSource, PrepareConfig, TokenizerConfig

WORDS = {
    "en": ["the", "a", "dog", "cat", "house", "tree", "red", "small", "runs", "sees", "near"],
    "fr": ["le", "un", "chien", "chat", "maison", "arbre", "rouge", "petit", "court", "voit", "à"],
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

    def prepare(
        self,
        tokenizer: TokenizerConfig | None = None,
        work: PrepareConfig | None = None,
        **corpus: object,
    ) -> Path:
        config, quiet = replace(self.config, **corpus), Reporter(quiet=True)
        return prepare(config, tokenizer or self.tokenizer, self.outputs, quiet, work)


def write_toy(folder: Path) -> Toy:
    """A small aligned corpus: 200 training pairs, 5 for validation, one test set of 4."""
    for split, count in (("train", 200), ("valid", 5), ("test", 4)):
        lines = sentences("en", count, count), sentences("de", count, count)
        write_pairs(folder / "raw", split, *lines)
    config = CorpusConfig(name="toy", source=CorpusSource.folder, path=str(folder / "raw"))
    return Toy(config, TokenizerConfig(vocabulary_size=330), folder / "outputs/corpora")


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return write_toy(tmp_path)


@pytest.fixture(scope="session")
def prepared_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("toy")).prepare()


@pytest.fixture
def prepared(toy: Toy, prepared_once: Path) -> Path:
    """The folder of the prepared toy corpus: a copy, because preparing takes a second."""
    shutil.copytree(prepared_once.parent, toy.outputs)
    return toy.outputs / prepared_once.name


@pytest.fixture
def opened(tmp_path: Path):
    """Open the source of a configuration with some changes."""

    def open_source(config: CorpusConfig, **changes):
        facts = FactsCache(tmp_path / "facts.json")
        return open_corpus(replace(config, **changes), tmp_path, facts, print)[0]

    return open_source
