import math
from pathlib import Path

import pytest

from data_prep.bpe_dropout import BpeDropout
from data_prep.progress import Reporter
from data_prep.train_tokenizer import train_tokenizer
from nmt.config import TokenizerConfig
from nmt.files import write_lines
from nmt.tokenizer import Tokenizer
from tests.unit.data_prep.conftest import sentences

HOSTILE = ["", "😀 läuft", "日本語 x", "a\u2581b", " \u2028 ", "aa" * 500, "e\u0301"]
NEVER = 1e-12


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    text, path = folder / "text", folder / "tokenizer.model"
    write_lines(text, sentences("de", 300, seed=1))
    train_tokenizer([text], 300, TokenizerConfig(vocabulary_size=310), path, Reporter(quiet=True))
    return Tokenizer(path)


def test_nothing_left_out_is_sentencepieces_own_split(tokenizer: Tokenizer) -> None:
    texts = sentences("de", 200, seed=2) + sentences("en", 50, seed=3) + HOSTILE
    assert BpeDropout(tokenizer, NEVER, seed=1).encode(texts) == tokenizer.encode(texts)


def test_merging_word_by_word_gives_the_same(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = sentences("de", 200, seed=2)
    dropout = BpeDropout(tokenizer, NEVER, seed=1)
    # As if a merge were to be left out in every word: none is taken from what is remembered.
    monkeypatch.setattr(dropout, "_whole", lambda word: ([], math.inf))
    assert dropout.encode(texts) == tokenizer.encode(texts)


def test_everything_left_out_is_characters(tokenizer: Tokenizer) -> None:
    [ids] = BpeDropout(tokenizer, 1 - NEVER, seed=1).encode(["der Hund"])
    assert tokenizer.pieces(ids) == list("\u2581der\u2581Hund")


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_text_comes_back(tokenizer: Tokenizer, rate: float) -> None:
    texts = sentences("de", 200, seed=2) + HOSTILE
    split = BpeDropout(tokenizer, rate, seed=1).encode(texts)
    assert tokenizer.decode(split) == tokenizer.decode(tokenizer.encode(texts))
    assert split != tokenizer.encode(texts)


def test_a_character_without_a_piece_does_not_keep_its_word_whole(tokenizer: Tokenizer) -> None:
    splits = BpeDropout(tokenizer, 0.5, seed=1).encode(["Hund😀läuft"] * 50)
    assert len({tuple(split) for split in splits}) > 5
    assert set(tokenizer.decode(splits)) == {"Hund😀läuft"}


def test_characters_that_are_unknown_are_so_once(tmp_path: Path) -> None:
    text, path = tmp_path / "text", tmp_path / "tokenizer.model"
    write_lines(text, sentences("de", 300, seed=1))
    config = TokenizerConfig(vocabulary_size=60, byte_fallback=False)
    train_tokenizer([text], 300, config, path, Reporter(quiet=True))
    tokenizer = Tokenizer(path)
    texts = ["der 日本 Hund", "日本語", "x日", "日x語"]
    assert BpeDropout(tokenizer, NEVER, seed=1).encode(texts) == tokenizer.encode(texts)
    split = BpeDropout(tokenizer, 1 - NEVER, seed=1).encode(texts)
    for ids, whole in zip(split, tokenizer.encode(texts), strict=True):
        assert ids.count(tokenizer.unknown_id) == whole.count(tokenizer.unknown_id) > 0


def test_a_seed_fixes_all_chance(tokenizer: Tokenizer) -> None:
    texts = sentences("de", 50, seed=2)
    first, again, other = (BpeDropout(tokenizer, 0.3, seed).encode(texts) for seed in (1, 1, 2))
    assert first == again != other


def test_the_rate_is_that_of_each_merge(tokenizer: Tokenizer) -> None:
    [whole] = tokenizer.encode(["Hund"])
    num_merges = len("\u2581Hund") - len(whole)
    assert num_merges >= 3
    splits = BpeDropout(tokenizer, 0.25, seed=1).encode(["Hund"] * 10_000)
    share = splits.count(whole) / len(splits)
    assert share == pytest.approx(0.75**num_merges, abs=0.02)
