from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from data_prep.own_tokenizer import own_models
from nmt.base.errors import UserError
from nmt.config import SourceConfig, TokenizerConfig
from nmt.data.corpus import PreparedCorpus
from nmt.tokenizer import Tokenizer
from tests.unit.data_prep.conftest import Toy, write_pairs


@pytest.fixture
def learned(toy: Toy) -> Path:
    """A corpus with a vocabulary for each language, with symbols and digits of their own."""
    symbols = ["<name>", "€"]
    return toy.prepare(replace(toy.tokenizer, joint=False, user_symbols=symbols, split_digits=True))


def test_symbols_are_pieces(learned: Path) -> None:
    tokenizer = Tokenizer(learned / "tokenizer.en.model")
    [ids] = tokenizer.encode(["a<name>b 5€"])
    assert {"<name>", "€"} <= set(tokenizer.pieces(ids))
    assert tokenizer.decode([ids]) == ["a<name>b 5€"]


def test_models_of_a_folder_are_used(learned: Path, toy: Toy) -> None:
    again = toy.prepare(TokenizerConfig(path=str(learned), joint=False), name="again")
    for language in ("en", "de"):
        name = f"tokenizer.{language}.model"
        assert (again / name).read_bytes() == (learned / name).read_bytes()
    first, second = PreparedCorpus(learned).train(), PreparedCorpus(again).train()
    for index in range(len(first)):
        for one, other in zip(first.pair(index), second.pair(index), strict=True):
            assert one.tolist() == other.tolist()


def test_the_contents_of_a_model_are_part_of_the_corpus(
    learned: Path, toy: Toy, tmp_path: Path
) -> None:
    own = tmp_path / "own.model"
    own.write_bytes((learned / "tokenizer.en.model").read_bytes())
    first = toy.prepare(TokenizerConfig(path=str(own)))
    assert (first / "tokenizer.model").read_bytes() == own.read_bytes()
    own.write_bytes((learned / "tokenizer.de.model").read_bytes())
    assert toy.prepare(TokenizerConfig(path=str(own))) != first


@pytest.mark.parametrize(
    ("options", "pad_id", "bos_id"),
    [
        ({}, 28, 1),
        ({"bos_id": -1}, 28, 29),
        ({"user_defined_symbols": "<pad>"}, 3, 1),
        ({"pad_id": 3}, 3, 1),
    ],
    ids=str,
)
def test_padding_and_bos_are_added(
    toy: Toy, tmp_path: Path, options: dict[str, Any], pad_id: int, bos_id: int
) -> None:
    """All other ids stay."""
    text, plain = toy.raw / "train.en", tmp_path / "plain"
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(plain), vocab_size=28, minloglevel=2, **options
    )
    corpus = toy.prepare(TokenizerConfig(path=f"{plain}.model"))
    tokenizer = Tokenizer(corpus / "tokenizer.model")
    assert (tokenizer.pad_id, tokenizer.bos_id) == (pad_id, bos_id)
    original = sentencepiece.SentencePieceProcessor(model_file=f"{plain}.model")
    lines = text.read_text().splitlines()
    assert tokenizer.encode(lines) == original.EncodeAsIds(lines)
    assert tokenizer.decode([[pad_id, *ids] for ids in tokenizer.encode(lines)]) == lines


def test_models_that_cannot_be_used_are_named(learned: Path, toy: Toy, tmp_path: Path) -> None:
    for path, joint, message in (
        ("nowhere", True, "nowhere: no such file"),
        (learned / "tokenizer.en.model", False, "is not a folder; .* needs one with tokenizer"),
        (learned, True, r"tokenizer\.model: no such file"),
        (learned / "manifest.json", True, "is not a sentencepiece model"),
    ):
        with pytest.raises(UserError, match=message):
            toy.prepare(TokenizerConfig(path=str(path), joint=joint))
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tokenizer.en.model").write_bytes((learned / "tokenizer.en.model").read_bytes())
    (broken / "tokenizer.de.model").write_text("no model")
    with pytest.raises(UserError, match=r"tokenizer\.de\.model: is not a sentencepiece model"):
        own_models(TokenizerConfig(path=str(broken), joint=False), toy.config)
    text, plain = toy.raw / "train.en", tmp_path / "plain"
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(plain), vocab_size=28, eos_id=-1, minloglevel=2
    )
    with pytest.raises(UserError, match=r"lacks the special piece eos; train .* --eos_id=N"):
        toy.prepare(TokenizerConfig(path=f"{plain}.model"))
    write_pairs(tmp_path / "back", "train", ["a"], ["b"])
    sources = {"back": SourceConfig(path=str(tmp_path / "back"), tag="<BT>")}
    own = TokenizerConfig(path=str(learned / "tokenizer.en.model"))
    with pytest.raises(UserError, match=r"lacks the piece <BT>, corpus\.sources\.back\.tag"):
        toy.prepare(own, sources=sources)
