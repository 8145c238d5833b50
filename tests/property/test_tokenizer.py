"""Text that is encoded and decoded is the normalised text, whatever the string."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from data_prep.clean import normalise
from data_prep.progress import Reporter
from data_prep.train_tokenizer import train_tokenizer
from nmt.base.files import write_lines
from nmt.config import TokenizerConfig
from nmt.tokenizer import Tokenizer
from tests.support import made_up_sentences

FOLDERS: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    FOLDERS.append(tmp_path_factory.mktemp("tokenizer"))


@cache
def tokenizer() -> Tokenizer:
    text, model = FOLDERS[-1] / "text.txt", FOLDERS[-1] / "tokenizer.model"
    write_lines(text, made_up_sentences(300))
    train_tokenizer([text], 300, TokenizerConfig(vocabulary_size=400), model, Reporter(quiet=True))
    return Tokenizer(model)


# Without lone surrogates, which no file can contain.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS)
@example("a\0b \ufeff c\u2028d\re\u2581f")
@example("e\u0302\u0301 e\u0301\u0302 q\u0307\u0323 \u1112\u1161\u11ab")  # orders of marks, jamo
@example("</s> <s> <pad> <unk> <0xE2>")
@example("\U0001f468\u200d\U0001f469\u200d\U0001f467 \u202eabc\u202c")
def test_decoding_restores_the_normalised_text(text: str) -> None:
    [ids] = tokenizer().encode([text])
    assert tokenizer().decode([ids]) == [normalise(text)]
    assert len(tokenizer().word_indices([text])[0]) == len(ids)
