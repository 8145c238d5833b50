import random
from pathlib import Path

import pytest

from data_prep.progress import Reporter
from nmt.config import CorpusConfig, CorpusSource, TokenizerConfig
from nmt.files import write_lines

WORDS = {
    "en": ["the", "a", "dog", "cat", "house", "tree", "red", "small", "runs", "sees", "near"],
    "de": ["der", "ein", "Hund", "Katze", "Haus", "Baum", "rot", "klein", "läuft", "sieht", "an"],
}


def sentences(language: str, count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS[language], k=chance.randint(3, 9))) for _ in range(count)]


@pytest.fixture
def quiet() -> Reporter:
    return Reporter(quiet=True)


@pytest.fixture
def text_folder(tmp_path: Path) -> Path:
    """A small aligned corpus: 200 training pairs, 5 for validation, one test set of 4."""
    folder = tmp_path / "raw"
    folder.mkdir()
    for split, count in (("train", 200), ("valid", 5), ("test", 4)):
        for language in ("en", "de"):
            write_lines(folder / f"{split}.{language}", sentences(language, count, seed=count))
    return folder


@pytest.fixture
def folder_config(text_folder: Path) -> CorpusConfig:
    return CorpusConfig(name="toy", source=CorpusSource.folder, path=str(text_folder))


@pytest.fixture
def small_tokenizer() -> TokenizerConfig:
    return TokenizerConfig(vocabulary_size=330)
