"""Foreign weights and tokenizers are checked before they are used."""

from pathlib import Path

import pytest
import sentencepiece
import torch

from nmt.base.errors import UserError
from nmt.exchange.foreign_tokenizer import pieces_in_order, read_sentencepiece, write_tokenizer
from nmt.exchange.foreign_weights import ForeignWeights
from nmt.exchange.import_huggingface import HuggingFaceImporter
from nmt.exchange.registry import open_importer
from nmt.tokenizer import Tokenizer
from tests.support import made_up_sentences, train_tokenizer


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ("source.bpe decoder.yml model.npz", "is a release whose text is split by subword-nmt"),
        (
            "adapter_config.json adapter_model.safetensors source.spm",
            "is an adapter .LoRA. w",
        ),
        ("config.yaml weights.safetensors", "is already a model folder of this program.*MODEL="),
        ("config.json model.bin shared_vocabulary.json", "is a model of CTranslate2, .*converted"),
        ("config.json source.spm onnx/encoder_model.onnx", "is a model of ONNX"),
        ("checkpoint_best.pt dict.en.txt", "is a model of fairseq"),
        ("readme.txt", "is not a model of Hugging Face or Marian"),
    ],
)
def test_other_models_are_named(tmp_path: Path, files: str, message: str) -> None:
    for name in files.split():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=f"^given: {message}"):
        open_importer(tmp_path, "given")


def test_a_complete_folder_with_graphs_is_imported(tmp_path: Path) -> None:
    for name in ("config.json", "source.spm", "model.safetensors", "onnx/encoder_model.onnx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert isinstance(open_importer(tmp_path, "given"), HuggingFaceImporter)


def foreign(**tensors: torch.Tensor) -> ForeignWeights:
    return ForeignWeights(Path("w.bin"), tensors)


def test_weights_become_float32() -> None:
    weights = foreign(a=torch.ones(2, 3, dtype=torch.float16))
    assert weights.take("a", 2, 3).dtype is torch.float32
    weights.check_all_taken()


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(3, 2), r"w\.bin: weight has shape \(3, 2\), .* require \(2, 3\)"),
        (torch.ones(2, 3).log() / 0, r"w\.bin: weight holds NaN or infinity"),
        (torch.ones(2, 3, dtype=torch.int32), r"w\.bin: weight holds torch\.int32, not floating"),
    ],
)
def test_bad_tensors_are_rejected(tensor: torch.Tensor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        foreign(weight=tensor).take("weight", 2, 3)


def test_renamed_and_left_tensors_are_named() -> None:
    weights = foreign(weights=torch.ones(1), other=torch.ones(1))
    with pytest.raises(UserError, match=r"lacks the tensor weight; it has weights instead"):
        weights.take("weight", 1)
    with pytest.raises(UserError, match=r"holds the tensor weights, which"):
        weights.check_all_taken(["other"])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({"</s>": 0, "<unk>": 2}, "not the numbers from 0 to 1"),
        ({"</s>": 0, "<unk>": 0}, "not the numbers from 0 to 1"),
        ({"</s>": 0, "a": 1}, "lacks the piece <unk>"),
        ({}, "lacks the piece </s>"),
    ],
)
def test_bad_vocabularies_are_rejected(ids: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        pieces_in_order(ids, Path("vocab.json"), 2)


def test_a_sentencepiece_model_without_pieces_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.spm").touch()
    with pytest.raises(UserError, match=r"a\.spm: is not a sentencepiece model"):
        read_sentencepiece(tmp_path / "a.spm")


def test_a_tokenizer_has_the_ids_of_the_vocabulary(tmp_path: Path) -> None:
    """Pieces of the other language are unused, except characters and target languages."""
    options = {"model_type": "unigram", "bos_id": -1, "pad_id": -1}
    lines = made_up_sentences(200)
    path = train_tokenizer(tmp_path / "a.spm", lines, 60, **options)
    original = sentencepiece.SentencePieceProcessor(model_file=str(path))
    model = read_sentencepiece(path)
    own = sorted({piece.piece for piece in model.pieces} - {"<unk>", "</s>"})
    pieces = ["</s>", "<unk>", *own, ">>deu<<", "foreign", "\u0416", "<pad>"]
    write_tokenizer(tmp_path / "b.model", model, pieces)
    tokenizer = Tokenizer(tmp_path / "b.model")
    ids = {piece: index for index, piece in enumerate(pieces)}
    assert (tokenizer.eos_id, tokenizer.unknown_id, tokenizer.pad_id) == (0, 1, ids["<pad>"])
    assert tokenizer.bos_id == len(pieces) == tokenizer.vocabulary_size - 1
    for line, found in zip(lines, tokenizer.encode(lines), strict=True):
        expected = [ids[piece] for piece in original.EncodeAsPieces(line)]
        assert found == expected
        [tagged] = tokenizer.encode([f">>deu<< {line}"])
        assert tagged == [ids[">>deu<<"], *expected]
    assert tokenizer.encode(["\u0416"])[0][-1] == ids["\u0416"]
    assert ids["foreign"] not in tokenizer.encode(["foreign"])[0]
