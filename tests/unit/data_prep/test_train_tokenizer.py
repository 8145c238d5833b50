import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from data_prep.clean import normalise
from data_prep.progress import Reporter
from data_prep.train_tokenizer import sample_lines, train_tokenizer
from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.config import TokenizerAlgorithm, TokenizerConfig
from nmt.tokenizer import Tokenizer

CONFIG = TokenizerConfig(vocabulary_size=330)


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "train, with a comma.en"
    words = ["the", "dog", "sees", "a", "small", "cat", "under", "that", "old", "tree", "and"]
    words += ["runs", "home", "quickly"]
    write_lines(path, [" ".join(words[i % 7 : i % 7 + 4 + i % 3]) for i in range(100)])
    return path


def learn(text: Path, config: TokenizerConfig, output: Path) -> Tokenizer:
    train_tokenizer([text], 100, config, output, Reporter(quiet=True))
    return Tokenizer(output)


@pytest.fixture(scope="module")
def tokenizer(text: Path, tmp_path_factory) -> Tokenizer:
    return learn(text, CONFIG, tmp_path_factory.mktemp("model") / "tokenizer.model")


def test_special_ids(tokenizer: Tokenizer) -> None:
    ids = (tokenizer.unknown_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id)
    assert ids == (0, 1, 2, 3)
    assert tokenizer.vocabulary_size == 330


@pytest.mark.parametrize("split_digits", [True, False])
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_options_of_pieces(split_digits: bool, byte_fallback: bool, tmp_path: Path) -> None:
    path = tmp_path / "train.en"
    write_lines(path, ["in 2024 and in 2023"] * 50)
    config = TokenizerConfig(
        vocabulary_size=276 if byte_fallback else 20,
        split_digits=split_digits,
        byte_fallback=byte_fallback,
    )
    pieces = learn(path, config, tmp_path / "tokenizer.model").all_pieces()
    assert any(re.match("▁?20", piece) for piece in pieces) != split_digits
    assert ("<0x41>" in pieces) == byte_fallback


@given(st.text())
@example("the dog")
@example("👩\u200d👩\u200d👧 and 🇩🇪")
@example("ᚠᚢᚦ ꦗꦮ 𐎠𐎼 ქართული 日本語 한국어")
@example("½ ﬁ … ① ™")
@example("<s> </s> <unk> <pad> <0x41> <0x0A>")
@example("\u202ertl\u202c zero\u200bwidth")
@example("Ünïcödé ẹ̀")
def test_decoding_restores_any_text(tokenizer: Tokenizer, any_text: str) -> None:
    any_text = normalise(any_text)
    ids = tokenizer.encode([any_text])
    assert tokenizer.decode(ids) == [any_text]
    assert tokenizer.unknown_id not in ids[0]


@pytest.mark.parametrize(
    "raw",
    ["a\u2028b", "a\x85b\r", "  a \t b ", "Oui\u202f!", "\ufeffthe", "e\u0301te\u0301", "a\u2581b"],
)
def test_the_model_normalises_raw_text_like_cleaning(tokenizer: Tokenizer, raw: str) -> None:
    assert tokenizer.encode([raw]) == tokenizer.encode([normalise(raw)])


def test_the_same_text_gives_the_same_model_and_no_other_file_or_output(
    text: Path, tokenizer: Tokenizer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    again = learn(text, CONFIG, tmp_path / "again.model")
    assert again.path.read_bytes() == tokenizer.path.read_bytes()
    assert list(tmp_path.iterdir()) == [again.path]
    assert tuple(capfd.readouterr()) == ("", "")


@pytest.mark.parametrize("algorithm", list(TokenizerAlgorithm))
def test_a_vocabulary_that_is_too_large_names_the_maximum(
    text: Path, tmp_path: Path, algorithm: TokenizerAlgorithm
) -> None:
    config = TokenizerConfig(algorithm=algorithm, vocabulary_size=50_000)
    with pytest.raises(UserError, match=r"^tokenizer\.vocabulary_size=50000 is larger") as caught:
        learn(text, config, tmp_path / "tokenizer.model")
    largest = int(re.findall(r"\d+", str(caught.value))[-1])
    works = learn(text, replace(config, vocabulary_size=largest), tmp_path / "tokenizer.model")
    assert works.vocabulary_size == largest


def test_a_vocabulary_that_is_too_small_names_the_minimum(text: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tokenizer\.vocabulary_size=100 is too small.* need \d+"):
        learn(text, TokenizerConfig(vocabulary_size=100), tmp_path / "tokenizer.model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [1, 3, 7, 10])
def test_sampled_lines_have_even_distances(tmp_path: Path, size: int) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    write_lines(paths[0], [str(i) for i in range(6)])
    write_lines(paths[1], [str(i) for i in range(6, 10)])
    sample = [int(line) for line in sample_lines(paths, 10, size)]
    assert len(sample) == size
    gaps = [after - before for before, after in pairwise(sample)]
    assert not gaps or max(gaps) - min(gaps) <= 1
