"""`engine=auto` uses CTranslate2 only where it was seen to translate like torch."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import nmt
from nmt.base.errors import UserError
from nmt.base.files import read_json, read_lines, write_json, write_lines
from nmt.cli import evaluate, translate
from nmt.config import DecodingConfig, EngineName
from nmt.exchange import engines
from nmt.exchange.engines import compare_engines, open_engine
from nmt.search.request import Request
from nmt.trained_model import TrainedModel, load_trained_model
from nmt.translation.engine import Engine
from nmt.translation.translator import Translator
from tests.support import reversed_digits

MODEL = Path(__file__).parents[3] / "models" / "digits_v1"
SOURCES, REFERENCES = zip(*reversed_digits(30, 7), strict=True)
OF_CTRANSLATE2 = "ctranslate2 float32"


@pytest.fixture(scope="module")
def digits() -> TrainedModel:
    """Return a trained model that reverses digits."""
    return load_trained_model(MODEL)


@pytest.fixture
def thirty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let thirty equal translations be enough."""
    monkeypatch.setattr(engines, "_MIN_COMPARED", 30)


def by_torch(model: TrainedModel, config: DecodingConfig) -> list[str]:
    return [best.text for best, *_ in Translator(model, config).translate(SOURCES)]


def automatic(model: TrainedModel, folder: Path, config: DecodingConfig | None = None) -> Engine:
    config = config or model.config.decoding
    return open_engine(EngineName.auto, "", model, config, folder=folder)


def test_equal_translations_let_ctranslate2_search(
    digits: TrainedModel, tmp_path: Path, thirty: None, capsys: pytest.CaptureFixture[str]
) -> None:
    config = digits.config.decoding
    assert automatic(digits, tmp_path).note == ""
    assert "was not compared with these settings" in capsys.readouterr().err
    expected = by_torch(digits, config)
    compare_engines(digits, config, tmp_path, SOURCES, expected)
    assert "found 30 of 30 translations of torch" in capsys.readouterr().err
    engine = automatic(digits, tmp_path)
    assert engine.note == OF_CTRANSLATE2
    found = Translator(digits, config, engine).translate(SOURCES)
    assert [best.text for best, *_ in found] == expected
    assert capsys.readouterr().err == ""


def test_each_search_is_compared(
    digits: TrainedModel, tmp_path: Path, thirty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = digits.config.decoding
    for beam_size in (first.beam_size, 3):
        config = replace(first, beam_size=beam_size)
        assert automatic(digits, tmp_path, config).note == ""
        compare_engines(digits, config, tmp_path, SOURCES, by_torch(digits, config))
    for config in (first, replace(first, beam_size=3), replace(first, batch_size=3)):
        assert automatic(digits, tmp_path, config).note == OF_CTRANSLATE2
    monkeypatch.setattr(engines, "_MIN_COMPARED", 31)
    assert automatic(digits, tmp_path).note == ""


def test_another_translation_keeps_torch(
    digits: TrainedModel, tmp_path: Path, thirty: None, capsys: pytest.CaptureFixture[str]
) -> None:
    config = digits.config.decoding
    expected = by_torch(digits, config)
    for translations in (expected, [*expected[:-1], "0"]):  # the second comparison counts
        compare_engines(digits, config, tmp_path, SOURCES, translations)
    assert automatic(digits, tmp_path).note == ""
    assert "found 29 of 30 translations of torch" in capsys.readouterr().err


def test_constraints_and_scores_are_left_to_torch(
    digits: TrainedModel, tmp_path: Path, thirty: None
) -> None:
    config = replace(digits.config.decoding, num_best=2)
    compare_engines(digits, config, tmp_path, SOURCES, by_torch(digits, config))
    engine, torch_engine = automatic(digits, tmp_path, config), open_torch(digits, config)
    ids = digits.source_tokenizer.encode(SOURCES)
    prefix = digits.target_tokenizer.encode(["1 2 3"])[0]
    requests = [Request(prefix=prefix) if i % 3 == 1 else Request() for i in range(len(ids))]
    counts: list[int] = []
    found = engine.search(ids, counts.append, requests)
    assert sum(counts) == len(ids)
    expected = torch_engine.search(ids, None, requests)
    assert [best.ids for best, *_ in found] == [best.ids for best, *_ in expected]
    assert [bool(best.token_log_probs) for best, *_ in found] == [
        bool(request.prefix) for request in requests
    ]
    too_long = Request(prefix=prefix * 1_000)
    with pytest.raises(UserError, match="prefix and required phrases have"):
        engine.check(too_long)
    assert engine.scoring.search(ids) == torch_engine.search(ids)
    assert torch_engine.scoring is torch_engine


def open_torch(model: TrainedModel, config: DecodingConfig) -> Engine:
    return open_engine(EngineName.torch, "", model, config)


def test_torch_searches_where_ctranslate2_cannot(
    digits: TrainedModel,
    tmp_path: Path,
    thirty: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = digits.config.decoding
    compare_engines(digits, config, tmp_path, SOURCES, by_torch(digits, config))
    ensemble = open_engine(EngineName.auto, "", digits, config, [digits], tmp_path)
    assert ensemble.note == ""
    assert "replaces single models on CPUs only" in capsys.readouterr().err
    unsupported = replace(config, trees=True)
    compare_engines(digits, unsupported, tmp_path, SOURCES, REFERENCES)
    assert "decoding.trees=True" in capsys.readouterr().err
    (tmp_path / "engines.json").rename(tmp_path / "file")
    compare_engines(digits, config, tmp_path / "file", SOURCES, REFERENCES)
    assert "file/engines.json: cannot be written" in capsys.readouterr().err
    (tmp_path / "file").rename(tmp_path / "engines.json")
    monkeypatch.setitem(sys.modules, "nmt.exchange.ctranslate2", None)
    assert automatic(digits, tmp_path).note == ""
    compare_engines(digits, config, tmp_path, SOURCES, REFERENCES)
    with pytest.raises(UserError, match="compute_type=int8 has no effect with engine=auto"):
        open_engine(EngineName.auto, "int8", digits, config)


def test_a_damaged_comparison_is_an_error(digits: TrainedModel, tmp_path: Path) -> None:
    write_json(tmp_path / "engines.json", [{"decoding": 3}])
    with pytest.raises(UserError, match=r"engines\.json"):
        automatic(digits, tmp_path)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The commands, in a folder with a copy of the model."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(MODEL, "m")

    def run(name: str, *arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", [name, "model=m", "device=cpu", *arguments])
        {"evaluate": evaluate, "translate": translate}[name].main()

    return run


def test_evaluate_compares_and_translate_uses_it(
    run: Callable[..., None], thirty: None, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(Path("a.en"), SOURCES)
    write_lines(Path("a.de"), REFERENCES)
    for out in ("first", "second"):
        run("evaluate", "source=a.en", "reference=a.de", f"out={out}", "engine=auto")
    first, second = (read_json(Path(out, "scores.json")) for out in ("first", "second"))
    assert "engine" not in first
    assert second["engine"] == OF_CTRANSLATE2
    texts = read_lines(Path("first/hypotheses.txt"))
    assert texts == read_lines(Path("second/hypotheses.txt"))
    run("translate", "file=a.en", "out=b.de", "engine=auto")
    assert read_lines(Path("b.de")) == texts
    run("translate", "file=a.en", "out=b.jsonl", "format=jsonl", "engine=auto")
    assert all(record["translations"][0]["token_log_probs"] for record in records("b.jsonl"))
    model = nmt.load("m", "cpu", engine="auto")
    assert model._translator(1).engine_note == OF_CTRANSLATE2
    assert model.translate(SOURCES) == texts
    details = model.translate(SOURCES, details=True)
    assert [best.text for best, *_ in details] == texts
    assert all(best.hypotheses[0].token_log_probs for best, *_ in details)


def test_python_refuses_what_an_engine_does_not_support(tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("1\t2\n")
    with pytest.raises(UserError, match="glossary= needs engine=torch or engine=auto"):
        nmt.load(MODEL, "cpu", engine="ctranslate2").translate(["1 2"], glossary=terms)
    with pytest.raises(ValueError, match="'fast' is not a valid EngineName"):
        nmt.load(MODEL, "cpu", engine="fast")


def records(name: str) -> list[dict[str, list[dict[str, object]]]]:
    return [json.loads(line) for line in read_lines(Path(name))]
