from pathlib import Path

import pytest

from data_prep.bpe_dropout import BpeDropout
from data_prep.progress import Reporter
from data_prep.train_tokenizer import train_tokenizer
from nmt.base.files import write_lines
from nmt.config import TokenizerConfig
from nmt.tokenizer import Tokenizer
from tests.unit.data_prep.conftest import sentences

UNUSUAL = ["", "😀 läuft", "日本語 x", "a\u2581b", " \u2028 ", "aa" * 500, "e\u0301"]
TINY = 1e-12


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    text, path = folder / "text", folder / "tokenizer.model"
    write_lines(text, sentences("de", 300, seed=1))
    train_tokenizer([text], 300, TokenizerConfig(vocabulary_size=310), path, Reporter(quiet=True))
    return Tokenizer(path)


def test_without_skipped_merges_ids_equal_those_of_sentencepiece(tokenizer: Tokenizer) -> None:
    texts = sentences("de", 200, seed=2) + sentences("en", 50, seed=3) + UNUSUAL
    assert BpeDropout(tokenizer, TINY, seed=1).encode(texts) == tokenizer.encode(texts)


def test_skipping_every_merge_gives_characters(tokenizer: Tokenizer) -> None:
    [ids] = BpeDropout(tokenizer, 1 - TINY, seed=1).encode(["der Hund"])
    assert tokenizer.pieces(ids) == list("\u2581der\u2581Hund")


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_decoding_restores_the_text(tokenizer: Tokenizer, rate: float) -> None:
    texts = sentences("de", 200, seed=2) + UNUSUAL
    split = BpeDropout(tokenizer, rate, seed=1).encode(texts)
    assert tokenizer.decode(split) == tokenizer.decode(tokenizer.encode(texts))
    assert split != tokenizer.encode(texts)


def test_unknown_characters_give_one_unknown_token(tmp_path: Path) -> None:
    text, path = tmp_path / "text", tmp_path / "tokenizer.model"
    write_lines(text, sentences("de", 300, seed=1))
    config = TokenizerConfig(vocabulary_size=60, byte_fallback=False)
    train_tokenizer([text], 300, config, path, Reporter(quiet=True))
    tokenizer = Tokenizer(path)
    texts = ["der 日本 Hund", "日本語", "x日", "日x語"]
    assert BpeDropout(tokenizer, TINY, seed=1).encode(texts) == tokenizer.encode(texts)
    split = BpeDropout(tokenizer, 1 - TINY, seed=1).encode(texts)
    for ids, whole in zip(split, tokenizer.encode(texts), strict=True):
        assert ids.count(tokenizer.unknown_id) == whole.count(tokenizer.unknown_id) > 0


def test_the_seed_determines_the_ids(tokenizer: Tokenizer) -> None:
    texts = sentences("de", 50, seed=2)
    first, again, other = (BpeDropout(tokenizer, 0.3, seed).encode(texts) for seed in (1, 1, 2))
    assert first == again != other


def test_the_rate_applies_to_each_merge(tokenizer: Tokenizer) -> None:
    [whole] = tokenizer.encode(["Hund"])
    num_merges = len("\u2581Hund") - len(whole)
    assert num_merges >= 3
    splits = BpeDropout(tokenizer, 0.25, seed=1).encode(["Hund"] * 10_000)
    share = splits.count(whole) / len(splits)
    assert share == pytest.approx(0.75**num_merges, abs=0.02)
