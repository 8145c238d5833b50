from pathlib import Path

import pytest
from omegaconf import OmegaConf

from nmt.config import CorpusConfig, TokenizerConfig, from_mapping

CONF = Path(__file__).parents[3] / "conf"


@pytest.mark.parametrize("path", sorted((CONF / "corpus").glob("*.yaml")), ids=lambda p: p.stem)
def test_corpus_presets_fit_their_dataclass(path: Path) -> None:
    values = OmegaConf.load(path)
    if path.stem == "folder":
        values["path"] = "DIR"  # the one value that only the user knows
    config = from_mapping(CorpusConfig, values, str(path))
    assert config.name == path.stem


@pytest.mark.parametrize("path", sorted((CONF / "tokenizer").glob("*.yaml")), ids=lambda p: p.stem)
def test_tokenizer_presets_fit_their_dataclass(path: Path) -> None:
    config = from_mapping(TokenizerConfig, OmegaConf.load(path), str(path))
    assert config.algorithm.value == path.stem
