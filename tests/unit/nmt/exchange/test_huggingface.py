"""transformers loads an export without remote code, and computes the same."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from data_prep.train_tokenizer import normalisation_rules
from nmt.base.errors import UserError
from nmt.config import NormPlacement, StartEmbedding, TiedEmbeddings, Timescales
from nmt.exchange.huggingface import HuggingFaceExporter
from nmt.exchange.transformers_runtime import EXACT
from nmt.exchange.verify import Text, verify
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel, load_trained_model
from tests.support import made_up_sentences, reversed_digits, tiny_trained_model, train_tokenizer

transformers = pytest.importorskip("transformers")

EXPORTER = HuggingFaceExporter()


@pytest.fixture(scope="module")
def tokenizer_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A joint tokenizer without bytes, of which models with random weights make control codes."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    return train_tokenizer(path, made_up_sentences(300), 150)


TEXTS = made_up_sentences(8)


def exported(model: TrainedModel, folder: Path) -> Any:
    """Export a model and open it with transformers."""
    EXPORTER.check(model)
    folder.mkdir()
    EXPORTER.export(model, folder)
    return EXPORTER.open(model, folder)[0]


def assert_same(model: TrainedModel, runtime: Any, texts: list[str] = TEXTS) -> None:
    """Compare ids, log-probabilities and translations."""
    [found] = verify([runtime], model, Text("texts", texts, texts[::-1]))
    assert not found.other_ids
    assert not found.other_texts


POST, PRE = NormPlacement
HELD = [*product([POST], TiedEmbeddings), (PRE, TiedEmbeddings.three_way)]


@pytest.mark.parametrize(("norm", "tied"), HELD, ids=map("-".join, HELD))
def test_text_is_equal_also_after_it_is_saved_there(
    tokenizer_path: Path, tmp_path: Path, norm: NormPlacement, tied: TiedEmbeddings
) -> None:
    model = tiny_trained_model(tokenizer_path, norm=norm, tied_embeddings=tied, output_bias=True)
    runtime = exported(model, tmp_path / "hf")
    assert_same(model, runtime)
    saved = tmp_path / "saved"  # as after fine-tuning there
    runtime.network.float().save_pretrained(saved)
    runtime.tokenizer.save_pretrained(saved)
    assert_same(model, *EXPORTER.open(model, saved))


@pytest.mark.parametrize("norm", NormPlacement)
def test_time_scales_of_marian_are_kept(
    tokenizer_path: Path, tmp_path: Path, norm: NormPlacement
) -> None:
    model = tiny_trained_model(tokenizer_path, norm=norm, timescales=Timescales.marian)
    assert_same(model, exported(model, tmp_path / "hf"))


def test_the_key_of_unequal_head_widths_is_named(tokenizer_path: Path) -> None:
    model = tiny_trained_model(tokenizer_path, key_width=4, value_width=8)
    message = r"model\.key_width=4: this format needs heads .* = 8; export it with"
    with pytest.raises(UserError, match=message):
        EXPORTER.check(model)


@pytest.mark.parametrize("tied", TiedEmbeddings)
def test_a_zero_start_is_the_row_of_the_start_token(
    tokenizer_path: Path, tmp_path: Path, tied: TiedEmbeddings
) -> None:
    """With three-way tying the row is an output, too, which a trained model seldom predicts."""
    model = tiny_trained_model(
        tokenizer_path, start=StartEmbedding.zero, tied_embeddings=tied, output_bias=True
    )
    bias = model.network.output_bias
    assert bias is not None
    bias[model.target_tokenizer.bos_id] = -12.0
    runtime = exported(model, tmp_path / "hf")
    assert runtime.tolerance == (1e-4 if tied is TiedEmbeddings.three_way else EXACT)
    assert_same(model, runtime)
    start = runtime.network.config.decoder_start_token_id
    assert not runtime.network.get_decoder().embed_tokens.weight[start].any()


def two_tokenizers(tmp_path: Path, **model: Any) -> TrainedModel:
    """Return a model with vocabularies of different sizes."""
    paths = [
        train_tokenizer(tmp_path / f"{size}.model", made_up_sentences(300, size), size)
        for size in (70, 50)
    ]
    tied = tiny_trained_model(paths[0], tied_embeddings=TiedEmbeddings.target, **model)
    source, target = map(Tokenizer, paths)
    transformer = type(tied.network)(
        tied.config.model, source.vocabulary_size, target.vocabulary_size
    )
    return TrainedModel(
        replace(tied.config, joint_vocabulary=False),
        transformer.eval().requires_grad_(False),
        source,
        target,
    )


def test_vocabularies_of_different_sizes_are_padded(tmp_path: Path) -> None:
    model = two_tokenizers(tmp_path)
    runtime = exported(model, tmp_path / "hf")
    assert runtime.network.config.vocab_size == runtime.network.config.decoder_vocab_size == 70
    assert_same(model, runtime)


def test_trained_model_gives_the_same_text(tmp_path: Path) -> None:
    model = load_trained_model(Path(__file__).parents[3] / "models" / "digits_v1")
    texts = [source for source, _ in reversed_digits(40, 7)]
    assert_same(model, exported(model, tmp_path / "hf"), texts)


NASTY = [
    "a </s> b <s> <pad>",
    "  two   spaces ",
    "e\u0302\u0301 \ufeffx\u00a0y",
    "\u2581 \u4e2d\U0001f600",
]


def test_both_tokenizers_give_our_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules are those of the data stage; the vocabulary falls back to bytes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "normalisation.tsv").write_text(
        "".join(f"{rule}\n" for rule in normalisation_rules())
    )
    texts = [*made_up_sentences(100), *NASTY]
    path = train_tokenizer(
        tmp_path / "tokenizer.model",
        made_up_sentences(300),
        400,
        byte_fallback=True,
        normalization_rule_tsv="normalisation.tsv",
    )
    model = tiny_trained_model(path)
    runtime = exported(model, tmp_path / "hf")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "hf/tokenizer.json"))
    eos = model.source_tokenizer.eos_id
    for text, ids in zip(texts, model.source_tokenizer.encode(texts), strict=True):
        [decoded] = model.source_tokenizer.decode([ids])
        assert runtime.tokenizer(text)["input_ids"] == [*ids, eos]
        assert runtime.tokenizer.decode([*ids, eos], skip_special_tokens=True) == decoded
        if "</s>" not in text:
            assert fast(text)["input_ids"] == [*ids, eos]
            assert fast.decode([*ids, eos], skip_special_tokens=True) == decoded


@pytest.mark.parametrize(
    "options",
    [
        {"model_type": "unigram"},
        {"user_defined_symbols": ["<BT>"]},
        {"byte_fallback": True, "normalization_rule_tsv": "own/normalisation.tsv"},
    ],
)
def test_inexact_tokenizer_json_is_not_written(
    tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last two have the normalisation of sentencepiece, and rules of the user."""
    monkeypatch.chdir(tmp_path)
    Path("own").mkdir()
    Path("own/normalisation.tsv").write_text("41\t61\n", encoding="utf-8")
    path = train_tokenizer(tmp_path / "a.model", made_up_sentences(300), 400, **options)
    exported(tiny_trained_model(path), tmp_path / "hf")
    assert not (tmp_path / "hf/tokenizer.json").exists()


def test_generation_follows_the_search_of_the_scores(tokenizer_path: Path, tmp_path: Path) -> None:
    model = tiny_trained_model(tokenizer_path)
    exported(model, tmp_path / "hf")
    settings = json.loads((tmp_path / "hf/generation_config.json").read_text())
    assert (settings["num_beams"], settings["max_length"]) == (3, 64)
    assert settings["suppress_tokens"] == [0, 1, 3]
    assert "AutoModelForSeq2SeqLM" in EXPORTER.usage(model)
