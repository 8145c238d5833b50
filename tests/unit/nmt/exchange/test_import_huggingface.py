"""Models of the shape of OPUS-MT compute the same here, and broken folders are rejected."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from nmt.base.errors import UserError
from nmt.cli import import_model
from nmt.config import NormPlacement, StartEmbedding, TiedEmbeddings, Timescales
from nmt.exchange.foreign_folder import ForeignFolder
from nmt.exchange.foreign_tokenizer import read_sentencepiece
from nmt.exchange.foreign_weights import half_split
from nmt.exchange.huggingface import HuggingFaceExporter
from nmt.exchange.import_huggingface import HuggingFaceImporter
from nmt.exchange.verify import Text, Verification, verify
from nmt.model.positions import sinusoidal_table
from nmt.trained_model import TrainedModel, load_trained_model
from nmt.translation.translator import Translator
from tests.support import made_up_sentences, tiny_trained_model, train_tokenizer

transformers = pytest.importorskip("transformers")

WIDTH, POSITIONS = 16, 128
SOURCE, TARGET = made_up_sentences(300), made_up_sentences(300, 1)
LINES = made_up_sentences(8)
# Code in a hostile file would create this file.
TRACE = "code_ran"

Change = Callable[[Path], Any]


@pytest.fixture(scope="module")
def opus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as OPUS-MT publishes them: two unigram models over one vocabulary."""
    folder = tmp_path_factory.mktemp("opus") / "opus-mt-en-de"
    folder.mkdir()
    options = {"model_type": "unigram", "bos_id": -1, "pad_id": -1, "unk_id": 1, "eos_id": 0}
    names: set[str] = set()
    for side, lines, size in (("source", SOURCE, 70), ("target", [*TARGET, "\u00e4"], 60)):
        path = train_tokenizer(folder / f"{side}.spm", lines, size, **options)
        names |= {piece.piece for piece in read_sentencepiece(path).pieces}
    pieces = ["</s>", "<unk>", *sorted(names - {"</s>", "<unk>"}), ">>deu<<", "<pad>"]
    ids = {piece: index for index, piece in enumerate(pieces)}
    (folder / "vocab.json").write_text(json.dumps(ids))
    languages = {"source_lang": "en", "target_lang": "de", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(languages))
    pad = ids["<pad>"]
    config = transformers.MarianConfig(
        vocab_size=len(ids),
        d_model=WIDTH,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        activation_function="swish",
        scale_embedding=True,
        max_position_embeddings=POSITIONS,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
    )
    torch.manual_seed(1)
    network = transformers.MarianMTModel(config)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "embed_positions" not in name:
                parameter.normal_(0, 0.3 if parameter.ndim == 1 else WIDTH**-0.5)
                parameter.add_(1.0 if name.endswith("norm.weight") else 0.0)
        network.final_logits_bias.normal_()
        network.final_logits_bias[0, 1] = -20.0  # <unk>, which our search never chooses
        network.model.shared.weight[pad] = 0.0
    network.generation_config.update(num_beams=6, max_length=100, bad_words_ids=[[pad]])
    network.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(opus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that may be changed."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(opus, tmp_path / "opus"))


def load(folder: Path, direction: str = "") -> TrainedModel:
    workspace = folder.parent / f"{folder.name}-tokenizers"
    workspace.mkdir(exist_ok=True)
    opened = ForeignFolder(folder)
    with opened.errors_named():
        return HuggingFaceImporter().load(opened, workspace, direction)


def compared(folder: Path, texts: list[str] = LINES) -> Verification:
    """Import and compare; UserError if log-probabilities differ."""
    model = load(folder)
    runtimes = HuggingFaceImporter().open(model, ForeignFolder(folder))
    [found] = verify(runtimes, model, Text("texts", texts))
    return found


@pytest.mark.parametrize(
    ("key", "name"), [("num_hidden_layers", "encoder_layers"), ("hidden_size", "d_model")]
)
def test_transformers_gets_no_other_sizes(folder: Path, key: str, name: str) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: 1_000_000}))
    with pytest.raises(UserError, match=f"config.json: {name}=.*transformers reads 1000000"):
        compared(folder)


def test_a_model_of_opus_mt_computes_the_same(folder: Path) -> None:
    """A target language at the begin of a text is a piece."""
    found = compared(folder, [*LINES, *(f">>deu<< {line}" for line in LINES)])
    assert not found.other_ids
    assert not found.other_texts
    model = load(folder)
    config = model.config
    assert (config.source_language, config.target_language) == ("en", "de")
    assert not config.joint_vocabulary
    assert (config.model.start, config.model.output_bias) == (StartEmbedding.zero, True)
    assert (config.decoding.beam_size, config.decoding.max_length) == (6, 100)
    # BOS has no probability.
    assert model.target_tokenizer.bos_id == model.target_tokenizer.vocabulary_size - 1
    bias = model.network.output_bias
    assert bias is not None
    assert bias[model.target_tokenizer.bos_id] < -1000


def test_bpe_has_no_target_languages(folder: Path) -> None:
    options = {"model_type": "bpe", "bos_id": -1, "pad_id": -1, "unk_id": 1, "eos_id": 0}
    train_tokenizer(folder / "source.spm", SOURCE, 70, **options)
    with pytest.raises(UserError, match="only unigram tokenizers can have a target language"):
        load(folder)


def test_differences_are_found(folder: Path) -> None:
    """Other ids are listed; if a weight differs by 1e-9, the model is refused."""
    text = "Ka </s> ka."  # the end of the source there
    found = compared(folder, [text, *LINES])
    assert found.other_ids == [text]
    assert found.lines()[-2].endswith("in float64: other ids: Ka </s> ka.")

    def set_bias(value: float) -> None:
        tensors(lambda found: found["final_logits_bias"][0].narrow(0, 9, 1).fill_(value))(folder)

    set_bias(0.0)
    model = load(folder)
    set_bias(1e-9)
    [runtime] = HuggingFaceImporter().open(model, ForeignFolder(folder))
    with pytest.raises(UserError, match=r"in float64 differ from those of torch by up to 1e-09 n"):
        verify([runtime], model, Text("texts", LINES))


def test_code_in_the_folder_is_not_run(folder: Path) -> None:
    values("tokenizer_config.json", auto_map={"AutoTokenizer": "a.B"})(folder)
    (folder / "a.py").write_text(f"open({TRACE!r}, 'w')")
    compared(folder)
    assert not Path(TRACE).exists()


def test_pytorch_files_in_half_precision_are_read(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    half = {name: tensor.half() for name, tensor in tensors.items()}
    half[TABLE] = sinusoidal_table(POSITIONS, WIDTH)[:, half_split(WIDTH)]
    half["lm_head.weight"] = half["model.shared.weight"]  # as old versions of transformers did
    torch.save(half, folder / "pytorch_model.bin")
    compared(folder)


def stored_positions(dtype: torch.dtype) -> Change:
    table = sinusoidal_table(POSITIONS, WIDTH)[:, half_split(WIDTH)].to(dtype)
    return tensors(lambda found: found.update({TABLE: table, OTHER_TABLE: table.clone()}))


def converted(dtype: torch.dtype) -> Change:
    def change(found: dict[str, Any]) -> None:
        found.update({name: tensor.to(dtype) for name, tensor in found.items()})

    return lambda folder: (tensors(change)(folder), config(dtype=str(dtype)[6:])(folder))


def sharded(ending: str) -> Change:
    """Replace the weights by two files with an index."""

    def change(folder: Path) -> None:
        found = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        stem = "model" if ending == "safetensors" else "pytorch_model"
        files = {name: f"{stem}-{i % 2 + 1:05}-of-00002.{ending}" for i, name in enumerate(found)}
        for file in set(files.values()):
            part = {name: tensor for name, tensor in found.items() if files[name] == file}
            if ending == "safetensors":
                save_file(part, folder / file, {"format": "pt"})
            else:
                torch.save(part, folder / file)
        index = {"metadata": {}, "weight_map": files}
        (folder / f"{stem}.{ending}.index.json").write_text(json.dumps(index))

    return change


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_with_rounded_positions_computes_the_same(
    folder: Path, dtype: torch.dtype
) -> None:
    """The original model had exact positions, and so have both models that are compared."""
    converted(dtype)(folder)
    compared(folder)
    stored_positions(dtype)(folder)
    compared(folder)


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_weights_in_several_files_are_read(folder: Path, ending: str) -> None:
    sharded(ending)(folder)
    compared(folder)


def test_pieces_that_were_added_after_training_are_used(folder: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<news>", "Kabc"])
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    network.resize_token_embeddings(len(tokenizer))
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    line = f"<news> {LINES[0]} Kabc {LINES[1]}"
    assert not compared(folder, [line]).other_ids
    ours = load(folder).source_tokenizer
    assert {"\u2581<news>", "\u2581Kabc"} <= set(ours.pieces(ours.encode([line])[0]))


def test_rows_without_a_piece_keep_their_probability(folder: Path) -> None:
    more_rows(folder)
    assert compared(folder).largest_difference < 1e-12
    model = load(folder)
    assert model.target_tokenizer.vocabulary_size == 92  # with BOS
    assert model.target_tokenizer.decode([[90]]) == [""]


def test_a_start_that_is_not_zero_is_the_row_of_bos(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.shared.weight"][-1] = 0.5
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    assert load(folder).config.model.start is StartEmbedding.learned
    compared(folder)


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"tied_embeddings": TiedEmbeddings.target, "output_bias": True},
        {"tied_embeddings": TiedEmbeddings.none, "start": StartEmbedding.zero},
        {"norm": NormPlacement.pre, "timescales": Timescales.marian},
        {"timescales": Timescales.marian},
    ],
    ids=str,
)
def test_an_export_comes_back(tmp_path: Path, variant: dict[str, Any]) -> None:
    path = train_tokenizer(tmp_path / "tokenizer.model", SOURCE, 150)
    model = tiny_trained_model(path, **variant)
    (tmp_path / "hf").mkdir()
    HuggingFaceExporter().export(model, tmp_path / "hf")
    again = load(tmp_path / "hf")
    assert again.config.joint_vocabulary
    parameters = dict(model.network.named_parameters())
    found = dict(again.network.named_parameters())
    if "start" in variant:
        bos = model.target_tokenizer.bos_id
        parameters["target_embedding.weight"][bos] = 0.0
    assert parameters.keys() == found.keys()
    assert all(torch.equal(parameters[name], found[name]) for name in found)
    assert again.config.model.timescales is model.config.model.timescales
    expected = Translator(model, again.config.decoding).translate(LINES)
    assert Translator(again).translate(LINES) == expected


def test_command_writes_a_model_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder.parent / "lines.txt").write_text("".join(f"{line}\n" for line in LINES))
    arguments = ["folder=opus", "out=new", "check=lines.txt"]
    monkeypatch.setattr("sys.argv", ["import_model", *arguments])
    import_model.main()
    model = load_trained_model(Path("new"))
    assert Translator(model).translate(LINES) == Translator(load(folder)).translate(LINES)
    readme = Path("new/README.md").read_text()
    assert "- imported from opus\n- each source text begins with" in readme
    assert "one of >>deu<<\n" in readme
    assert "in float64: 8 of 8 sources have the same ids" in readme
    with pytest.raises(UserError, match=r"new/.*: was not written by this command"):
        import_model.main()


def test_command_without_transformers_reports_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / "transformers.py").write_text(
        "raise ModuleNotFoundError('gone', name='transformers')"
    )
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.setattr("sys.argv", ["import_model", "folder=opus", "out=new"])
    import_model.main()
    readme = Path("new/README.md").read_text()
    assert "program: transformers is not installed; run `make install-exchange`" in readme


def test_command_downloads_from_the_hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights of torch are downloaded only if there are no safetensors."""
    asked: list[list[str]] = []

    def snapshot_download(name: str, local_dir: Path, allow_patterns: list[str]) -> None:
        asked.append(allow_patterns)
        shutil.copytree(folder, local_dir, dirs_exist_ok=True)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    (folder.parent / "lines.txt").write_text("Ka.\n")
    arguments = ["folder=Helsinki-NLP/opus-mt-en-de", "check=lines.txt"]
    monkeypatch.setattr("sys.argv", ["import_model", *arguments])
    import_model.main()
    assert load_trained_model(Path("outputs/imports/opus-mt-en-de"))
    assert [patterns[-1] for patterns in asked] == ["model-*.safetensors"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", r"folder= is missing \(for make: FROM=\)"),
        ("a/b/c", "a/b/c: no such folder, and no name such as"),
        ("Helsinki-NLP/x", "Helsinki-NLP/x: no such folder, and not downloaded from the hub: gone"),
        (".", r"is not a model of Hugging Face or Marian"),
    ],
)
def test_command_names_what_it_cannot_find(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def snapshot_download(*_: object, **__: object) -> None:
        raise ConnectionError("gone")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    monkeypatch.setattr("sys.argv", ["import_model", f"folder={name}"])
    with pytest.raises(UserError, match=message):
        import_model.main()


# Broken folders.


def text(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content)


def values(name: str, **changes: object) -> Change:
    """Set keys of a JSON file; `...` removes a key."""

    def change(folder: Path) -> None:
        stored = json.loads((folder / name).read_text())
        stored.update(changes)
        kept = {key: value for key, value in stored.items() if value is not ...}
        (folder / name).write_text(json.dumps(kept))

    return change


def config(**changes: object) -> Change:
    return values("config.json", **changes)


def removed(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def cut(name: str, num_bytes: int) -> Change:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:num_bytes])


def outside(name: str) -> Change:
    """Replace a file by a link that leads out of the folder."""

    def change(folder: Path) -> None:
        (folder / name).rename(folder.parent / name)
        (folder / name).symlink_to(folder.parent / name)

    return change


def tensors(change: Callable[[dict[str, Any]], Any], file: str = "model.safetensors") -> Change:
    """Change the tensors, and write them as safetensors or as a file of torch."""

    def changed(folder: Path) -> None:
        found: dict[str, Any] = load_file(folder / "model.safetensors")
        change(found)
        (folder / "model.safetensors").unlink()
        if file == "model.safetensors":
            save_file(found, folder / file)
        else:
            torch.save(found, folder / file)

    return changed


NORM = "model.encoder.layers.0.final_layer_norm.weight"
SHARED = "model.shared.weight"
TABLE = "model.encoder.embed_positions.weight"
OTHER_TABLE = "model.decoder.embed_positions.weight"
TORCH = "pytorch_model.bin"


class Code:
    def __reduce__(self) -> Any:
        return open, (TRACE, "w")


def other_positions(found: dict[str, Any]) -> None:
    found[TABLE] = torch.ones(POSITIONS, WIDTH)


def huge(found: dict[str, Any]) -> None:
    found[NORM] = torch.ones(1).expand(10**12)


def without_content(found: dict[str, Any]) -> None:
    found[NORM] = torch.ones(16, device="meta")


def one_tensor(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(torch.ones(50_000), folder / TORCH)


def more_rows(folder: Path) -> None:
    """Add a row of embeddings without a piece."""
    found = load_file(folder / "model.safetensors")
    found[SHARED] = torch.cat((found[SHARED], torch.zeros(1, WIDTH)))
    found["final_logits_bias"] = torch.cat((found["final_logits_bias"], torch.zeros(1, 1)), dim=1)
    save_file(found, folder / "model.safetensors")
    config(vocab_size=len(found[SHARED]))(folder)


def vocabulary(change: Callable[[dict[str, int]], Any]) -> Change:
    def changed(folder: Path) -> None:
        ids = json.loads((folder / "vocab.json").read_text())
        change(ids)
        (folder / "vocab.json").write_text(json.dumps(ids))

    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # Settings.
        (removed("tokenizer_config.json"), r"tokenizer_config\.json: no such file"),
        (text("config.json", "[" * 100_000), r"config\.json: Invalid JSON"),
        (text("config.json", '{"model_type": "m2m_100"}'), "model_type=m2m_100 is a network that"),
        (config(d_model=-2), r"config\.json: model\.width=-2"),
        (config(d_model=60_000), r"has shape \(90, 16\), .* require \(90, 60000\)"),
        (config(pad_token_id=None), r"key pad_token_id: Input should be a valid integer"),
        (config(pad_token_id=-1), r"key pad_token_id: Input should be greater than or equal to 0"),
        (config(pad_token_id=90), r"pad_token_id=90 is not in the vocabulary"),
        (config(activation_function=["a"]), r"key activation_function: Input should be a valid st"),
        (values("tokenizer_config.json", tokenizer_class="BertTokenizer"), "be 'MarianTokenizer'"),
        (values("tokenizer_config.json", model_max_length=float("nan")), "key model_max_length"),
        (config(encoder_layers=10**12), r"config\.json: model\.num_encoder_layers=1000000000000"),
        (config(vocab_size=5), r"has shape \(1, 90\), but the configuration .* require \(1, 5\)"),
        (config(encoder_attention_heads=3), r"decoder_attention_heads=2, .* needs 3"),
        (config(activation_function="tanh"), r"config\.json: activation_function=tanh is not one"),
        (config(max_position_embeddings=10**9), r"config\.json: model\.max_length=1000000000"),
        (config(decoder_start_token_id=10**6), r"decoder_start_token_id=1000000 is not in the"),
        (config(eos_token_id=3), r"eos_token_id=3, but the vocabulary has </s> at 0"),
        (config(dropout=float("nan")), r"config\.json: model\.dropout=nan"),
        (values("generation_config.json", num_beams=10**9), r"decoding\.beam_size=1000000000"),
        (values("tokenizer_config.json", source_lang=None), r"lang are \['de'\], which"),
        (values("tokenizer_config.json", target_lang="../x"), r"'\.\./x'\], which are not two"),
        (outside("config.json"), r"config\.json: leads out of its folder"),
        # Vocabulary and sentencepiece models.
        (text("vocab.json", '{"</s>": 0.5}'), r"vocab\.json: key </s>: Input should be a valid"),
        (vocabulary(lambda ids: ids.pop("<unk>")), r"vocab\.json: ids are not the numbers"),
        (vocabulary(lambda ids: ids.update(a=90)), "ids are not the numbers from 0 to"),
        (vocabulary(lambda ids: ids.update(new=90)), "vocab_size=90, but the vocabulary has 91"),
        (
            vocabulary(lambda ids: ids.update({"": ids.pop("a")})),
            r"source\.spm: does not fit voc",
        ),
        (values("tokenizer_config.json", separate_vocabs=True), r"target_vocab\.json: no such fi"),
        (removed("target.spm"), r"target\.spm: no such file"),
        (text("source.spm", "no model"), r"source\.spm: cannot be read: Error parsing"),
        (outside("source.spm"), r"source\.spm: leads out of its folder"),
        # Weights.
        (removed("model.safetensors"), r"opus: has neither model\.safetensors nor pytorch_model"),
        (outside("model.safetensors"), r"model\.safetensors: leads out of its folder"),
        (cut("model.safetensors", 20_000), r"model\.safetensors: cannot be read: .*"),
        (tensors(lambda found: found.pop(NORM)), f"lacks the tensor {re.escape(NORM)}"),
        (tensors(lambda found: found.update(more=torch.ones(1))), r"holds the tensor more, which"),
        (tensors(other_positions), r"embed_positions\.weight is not sinus"),
        (
            tensors(lambda found: found.update(code=Code()), TORCH),
            r"model\.bin: cannot be read: Weights only",
        ),
        (tensors(lambda found: found.update(a=["b"]), TORCH), r"holds the tensor a, which"),
        (tensors(huge, TORCH), r"norm\.weight has shape \(1000000000000,\)"),
        (tensors(without_content, TORCH), r"model\.bin: cannot be read: .* on meta tensors"),
        (one_tensor, r"pytorch_model\.bin: cannot be read"),
    ],
)
def test_broken_folders_are_rejected_in_one_line(
    folder: Path, change: Change, message: str
) -> None:
    change(folder)
    with pytest.raises(UserError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    assert not Path(TRACE).exists()
