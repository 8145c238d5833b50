"""Models of Marian become model folders with the same scores, and broken ones are refused."""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
import yaml

from nmt.base.errors import UserError
from nmt.config import Activation, StartEmbedding, TiedEmbeddings, Timescales
from nmt.exchange.foreign_folder import ForeignFolder
from nmt.exchange.foreign_weights import NEVER
from nmt.exchange.import_marian import MarianImporter
from nmt.exchange.marian import SETTINGS, MarianExporter
from nmt.exchange.runtimes import TorchRuntime
from nmt.exchange.verify import Text, verify
from nmt.trained_model import TrainedModel
from tests.support import made_up_sentences, tiny_trained_model

SENTENCES = made_up_sentences(30)


def marian_model(tokenizer: Path, **variant: Any) -> TrainedModel:
    values = {"timescales": Timescales.marian, "start": StartEmbedding.zero, **variant}
    return tiny_trained_model(tokenizer, max_source_length=64, **values)


def load(folder: Path, workspace: Path, direction: str = "en-de") -> TrainedModel:
    opened = ForeignFolder(folder)
    with opened.errors_named():
        return MarianImporter().load(opened, workspace, direction)


def exported(model: TrainedModel, folder: Path) -> Path:
    folder.mkdir()
    MarianExporter().export(model, folder)
    return folder


def change_arrays(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    with np.load(folder / "model.npz") as file:
        arrays = dict(file)
    change(arrays)
    np.savez(folder / "model.npz", **arrays)


def change_settings(folder: Path, **changes: Any) -> None:
    def change(arrays: dict[str, Any]) -> None:
        settings = {**yaml.safe_load(bytes(arrays[SETTINGS])[:-1]), **changes}
        text = yaml.safe_dump(settings).encode() + b"\0"
        arrays[SETTINGS] = np.frombuffer(text, np.int8)

    change_arrays(folder, change)


def change_decoder(folder: Path, **changes: Any) -> None:
    path = folder / "decoder.yml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"tied_embeddings": TiedEmbeddings.target, "output_bias": True},
        {"tied_embeddings": TiedEmbeddings.none, "activation": Activation.silu},
    ],
    ids=str,
)
def test_round_trip_keeps_weights_and_translations(
    tokenizer_path: Path, tmp_path: Path, variant: dict[str, Any]
) -> None:
    model = marian_model(tokenizer_path, **variant)
    folder = exported(model, tmp_path / "marian")
    assert MarianImporter().can_read(folder)
    loaded = load(folder, tmp_path)
    assert loaded.config.model == replace(model.config.model, max_length=512, dropout=0.1)
    expected = dict(model.network.named_parameters())
    for name, parameter in loaded.network.named_parameters():
        torch.testing.assert_close(parameter, expected.pop(name), rtol=0, atol=0)
    assert not expected
    limits = {"max_length_ratio": 1.0, "max_length_offset": 4, "min_length": 2}
    decoding = replace(loaded.config.decoding, **limits)
    loaded = replace(loaded, config=replace(loaded.config, decoding=decoding))
    ours, theirs = (
        TorchRuntime(one, torch.float32).translate(SENTENCES) for one in (loaded, model)
    )
    assert ours == theirs
    assert loaded.config.decoding.beam_size == model.config.decoding.beam_size


def test_the_original_is_run_by_ctranslate2(folder: Path, tmp_path: Path) -> None:
    loaded = load(folder, tmp_path)
    [found] = verify(
        MarianImporter().open(loaded, ForeignFolder(folder)),
        loaded,
        Text("texts", [*SENTENCES[:5], ""]),
    )
    assert (len(found.translations), found.other_texts) == (5, [])


@pytest.fixture(scope="module")
def opus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model like those of OPUS-MT: two tokenizers over one vocabulary without BOS and padding."""
    folder = tmp_path_factory.mktemp("opus")
    for side, seed in (("source", 0), ("target", 1)):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(made_up_sentences(200, seed)),
            model_writer=model,
            vocab_size=80,
            model_type="unigram",
            **{"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1},
            minloglevel=2,
        )
        (folder / f"{side}.spm").write_bytes(model.getvalue())
    sides = [
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        for side in ("source", "target")
    ]
    pieces = {side.IdToPiece(i) for side in sides for i in range(2, side.GetPieceSize())}
    names = ["</s>", "<unk>", *sorted(pieces), "yes", "1", "=", '"', "\\", "~"]
    lines = [
        f"{yaml.dump(name, default_style=chr(34)).strip()}: {i}" for i, name in enumerate(names)
    ]
    (folder / "opus.vocab.yml").write_text("\n".join(lines), encoding="utf-8")
    return folder


def as_yaml_1_2(ids: dict[str, int]) -> str:
    """YAML in which only quotes and backslashes are escaped."""
    return "".join(f"{json.dumps(piece, ensure_ascii=False)}: {i}\n" for piece, i in ids.items())


@pytest.mark.parametrize("more_rows", [0, 3, -2])
@pytest.mark.parametrize("ending", ["yml", "json", "vocab", "txt"])
def test_original_release_of_opus_mt(
    tokenizer_path: Path, opus_folder: Path, tmp_path: Path, ending: str, more_rows: int
) -> None:
    """Ids are those of the vocabulary; the added pieces have no probability."""
    folder = Path(shutil.copytree(opus_folder, tmp_path / "opus"))
    listed = yaml.load((folder / "opus.vocab.yml").read_text(), Loader=yaml.CBaseLoader)
    pieces = [*listed, "a\x85b", "\x9f", "\u2028x", "\ufeffy", "last one"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    name = f"opus.vocab.{ending}"
    text = {
        "yml": as_yaml_1_2(vocabulary),
        "json": json.dumps(vocabulary),
        "vocab": "".join(f"{piece}\t-1\n" for piece in pieces),
        "txt": "\n".join(pieces),
    }
    (folder / name).write_text(text[ending], encoding="utf-8")
    size = len(vocabulary) + more_rows
    MarianExporter().export(marian_model(tokenizer_path, activation=Activation.silu), folder)
    names = [f"/somewhere/{name}"] * 2
    change_decoder(folder, vocabs=names, **{"normalize": 1, "beam-size": 6})
    change_settings(folder, **{"dim-vocabs": [size, size]})
    generator = np.random.default_rng(1)

    def resize(arrays: dict[str, Any]) -> None:
        arrays["Wemb"] = generator.normal(size=(size, 16)).astype(np.float32)
        arrays["decoder_ff_logit_out_b"] = generator.normal(size=(1, size)).astype(np.float32)

    change_arrays(folder, resize)
    model = load(folder, tmp_path)
    for side, tokenizer in (("source", model.source_tokenizer), ("target", model.target_tokenizer)):
        original = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        split = [original.EncodeAsPieces(text) for text in SENTENCES]
        ids = [[vocabulary[piece] for piece in sentence] for sentence in split]
        assert tokenizer.encode(SENTENCES) == ids
    found = model.source_tokenizer.all_pieces()
    assert found[: min(size, len(pieces))] == pieces[:size]
    assert not model.config.joint_vocabulary
    assert model.config.decoding.beam_size == 6
    assert model.config.decoding.length_penalty_kind == "average"
    bias = model.network.output_bias
    assert bias is not None
    assert bias[size:].tolist() == [NEVER, NEVER]
    [verified] = verify(
        MarianImporter().open(model, ForeignFolder(folder)), model, Text("texts", SENTENCES[:5])
    )
    assert not verified.other_texts


def rename(name: str, other: str) -> Callable[[Path], None]:
    return lambda folder: change_arrays(folder, lambda a: a.update({other: a.pop(name)}))


def replace_array(name: str, array: Any) -> Callable[[Path], None]:
    return lambda folder: change_arrays(folder, lambda arrays: arrays.update({name: array}))


def settings(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: change_settings(
        folder, **{name.replace("_", "-"): value for name, value in changes.items()}
    )


def decoder(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: change_decoder(folder, **changes)


def write(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content) and None


def truncate(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return change


def link_outside(folder: Path) -> None:
    (folder / "vocab.spm").rename(folder.parent / "elsewhere.spm")
    (folder / "vocab.spm").symlink_to(folder.parent / "elsewhere.spm")


WQ = "encoder_l1_self_Wq"
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no decoder.yml": (lambda folder: (folder / "decoder.yml").unlink(), "decoder.yml: no such"),
    "no models": (decoder(models=None), "models=None does not name 1 file"),
    "missing vocabulary": (decoder(vocabs=["a.spm", "a.spm"]), "a.spm: no such file"),
    "path outside": (decoder(models=["../.."]), "not a plain file name"),
    "link outside": (link_outside, "vocab.spm: leads out of its folder"),
    "code in YAML": (write("decoder.yml", b"models: !!python/name:os.system"), "decoder.yml"),
    "no zip file": (write("model.npz", b"abc"), "model.npz: cannot be read: This file"),
    "pickled array": (replace_array(WQ, np.array([{}, None])), "model.npz: cannot be read: Object"),
    "renamed array": (rename(WQ, "encoder_l1_self_Wx"), f"lacks the tensor {WQ}"),
    "no settings": (rename(SETTINGS, "x"), "lacks special:model.yml"),
    "settings no YAML": (replace_array(SETTINGS, np.frombuffer(b"a: [", np.int8)), "cannot be"),
    "pre-norm": (settings(transformer_preprocess="n"), "transformer-preprocess='n', but this"),
    "trained positions": (
        settings(transformer_train_position_embeddings=True),
        "transformer-train-position-embeddings=True, but",
    ),
    "other activation": (
        settings(transformer_ffn_activation="gelu"),
        "transformer-ffn-activation='gelu' is not one of relu, swish",
    ),
    "huge width": (settings(dim_emb=2**40), "special:model.yml: width="),
    "heads": (settings(transformer_heads=3), "model.width=16 is not divisible"),
}


@pytest.fixture(scope="module")
def export(tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(marian_model(tokenizer_path), tmp_path_factory.mktemp("marian") / "export")


@pytest.fixture
def folder(export: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(export, tmp_path / "marian"))


@pytest.mark.parametrize("name", BROKEN)
def test_broken_folders_are_refused(folder: Path, tmp_path: Path, name: str) -> None:
    change, message = BROKEN[name]
    change(folder)
    with pytest.raises(UserError) as caught:
        load(folder, tmp_path)
    assert message in str(caught.value)
    assert str(folder) in str(caught.value) or "model.width" in message
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("direction", ["", "en", "en-en"])
def test_two_languages_are_needed(folder: Path, tmp_path: Path, direction: str) -> None:
    with pytest.raises(UserError, match=r"does not name its languages; .* direction=en-de"):
        load(folder, tmp_path, direction)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('"</s>": 0\n"<unk>": 1\na: b\n', "opus.vocab.yml: cannot be read: invalid literal"),
        ('"</s>": 0\n"<unk>": 1\na: 5\n', "ids are not the numbers from 0 to 2"),
        ("a: 0\n", "lacks the piece </s>"),
        ("- a\n", "opus.vocab.yml: cannot be read: 'list' object"),
    ],
)
def test_broken_vocabularies_are_refused(
    folder: Path, opus_folder: Path, tmp_path: Path, content: str, message: str
) -> None:
    shutil.copytree(opus_folder, folder, dirs_exist_ok=True)
    (folder / "opus.vocab.yml").write_text(content)
    change_decoder(folder, vocabs=["opus.vocab.yml"] * 2)
    with pytest.raises(UserError) as caught:
        load(folder, tmp_path)
    assert message in str(caught.value)
