import random
import unicodedata
from pathlib import Path

import pytest
from sentencepiece import sentencepiece_model_pb2

from nmt.base.errors import UserError
from nmt.tokenizer import Tokenizer, nfc, tokenizer_files
from tests.support import made_up_sentences, train_tokenizer


def test_decoding_inverts_encoding(tokenizer: Tokenizer) -> None:
    texts = made_up_sentences(50, seed=8)
    assert tokenizer.decode(tokenizer.encode(texts)) == texts


def test_unseen_characters_are_encoded_as_bytes(tokenizer: Tokenizer) -> None:
    texts = ["Привет, мир!", "日本語", "😀 x"]
    ids = tokenizer.encode(texts)
    assert all(tokenizer.unknown_id not in row for row in ids)
    assert tokenizer.decode(ids) == texts


def test_text_that_is_not_unicode_is_refused(tokenizer: Tokenizer) -> None:
    text = b"a \xff".decode(errors="surrogateescape")
    with pytest.raises(UserError, match=r"a \\udcff: is not valid UTF-8"):
        tokenizer.encode(["Kalo", text])
    with pytest.raises(TypeError):
        tokenizer.encode([None])  # type: ignore[list-item]


def test_special_ids_are_read_from_the_file(tmp_path: Path, tokenizer: Tokenizer) -> None:
    ids = tokenizer.unknown_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id
    assert ids == (0, 1, 2, 3)
    other = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": 3}
    read = Tokenizer(train_tokenizer(tmp_path / "o.model", made_up_sentences(100), 120, **other))
    assert (read.pad_id, read.eos_id, read.unknown_id, read.bos_id) == (0, 1, 2, 3)


def test_special_ids_are_not_decoded(tokenizer: Tokenizer) -> None:
    [ids] = tokenizer.encode(["Kalo mi."])
    assert not {tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id} & set(ids)
    framed = [tokenizer.bos_id, *ids, tokenizer.eos_id, tokenizer.pad_id, tokenizer.pad_id]
    assert tokenizer.decode([framed, [], ids]) == ["Kalo mi.", "", "Kalo mi."]


def test_pieces(tokenizer: Tokenizer) -> None:
    [ids] = tokenizer.encode(["Kalo mi."])
    assert "".join(tokenizer.pieces(ids)) == "▁Kalo▁mi."
    assert all(0 <= i < tokenizer.vocabulary_size for i in ids)


def test_blank_text_has_no_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode(["", "   "]) == [[], []]
    assert tokenizer.encode([]) == []


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path / 'no.model'}: no such tokenizer"):
        Tokenizer(tmp_path / "no.model")


@pytest.mark.parametrize("data", [b"", b"no model at all", b"\x00" * 100])
def test_a_damaged_file_is_reported(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.model"
    path.write_bytes(data)
    with pytest.raises(UserError, match=str(path)):
        Tokenizer(path)


def test_a_file_without_padding_is_rejected(tmp_path: Path) -> None:
    path = train_tokenizer(tmp_path / "t.model", made_up_sentences(100), 120, pad_id=-1)
    with pytest.raises(UserError, match=f"{path}: lacks the special piece pad; .* with --pad_id=N"):
        Tokenizer(path)


def test_special_ids_must_differ(tmp_path: Path) -> None:
    path = train_tokenizer(tmp_path / "t.model", made_up_sentences(100), 120)
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(path.read_bytes())
    model.trainer_spec.pad_piece = model.trainer_spec.eos_piece
    path.write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match=f"{path}: two special pieces have the same id"):
        Tokenizer(path)


def test_white_space_at_the_end_belongs_to_the_last_word(tmp_path: Path) -> None:
    kept = {"remove_extra_whitespaces": False, "normalization_rule_name": "identity"}
    path = train_tokenizer(tmp_path / "t.model", made_up_sentences(100), 120, **kept)
    [words] = Tokenizer(path).word_indices(["ka lo   "])
    assert words[0] == 0
    assert set(words[-3:]) == {1}


def test_file_names() -> None:
    assert tokenizer_files(True, "en", "de") == ("tokenizer.model", "tokenizer.model")
    assert tokenizer_files(False, "en", "de") == ("tokenizer.en.model", "tokenizer.de.model")


def test_nfc_is_that_of_unicode_and_linear() -> None:
    """A run of 200,000 marks would take minutes with Python's own sorting."""
    generator = random.Random(1)
    marks = "\u0300\u0316\u0301\u0327\u0345\u0903\u093e\u0f71\u0344\u3099\u1161"
    for _ in range(300):
        text = "".join(generator.choices("ae\u00e9\uac00 " + marks * 9, k=200))
        assert nfc(text) == unicodedata.normalize("NFC", text)
    long = "e" + "\u0300\u0316" * 100_000
    assert nfc(long) == "\u00e8" + "\u0316" * 100_000 + "\u0300" * 99_999


def test_a_piece_that_is_not_utf_8_is_reported(tmp_path: Path) -> None:
    path = train_tokenizer(tmp_path / "t.model", made_up_sentences(100), 120)
    path.write_bytes(path.read_bytes().replace("hö".encode(), b"h\xff\xfe"))
    with pytest.raises(UserError, match=f"{path}: is not a sentencepiece model"):
        Tokenizer(path)


def test_a_null_character_is_a_space(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode(["ka\0lo"]) == tokenizer.encode(["ka lo"])
