"""Benchmarks on tiny models."""

import json
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import attention_complexity, attention_scale, gpu, gpu_decoding, gpu_training
from benchmarks.figures import Figure
from benchmarks.plain_transformer import plain_update
from benchmarks.protection import Span, certain_links, in_place
from benchmarks.setting import run_alone, trainer_of
from benchmarks.size import count_code
from nmt.base.errors import UserError
from nmt.config import Layout, NormPlacement
from nmt.data.loader import Position
from nmt.model.attention import MultiHeadAttention
from tests.support import tiny_config, tiny_model_config, with_batching


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> gpu.Setting:
    # Compiling takes a minute; what is compiled does not matter here.
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    return gpu.Setting("cpu", gpu.TINY, tmp_path, time.monotonic() + 600)


NAMES = {
    "packed": ["tiny, packed, captured", "tiny, packed, captured, 32 target tokens"],
    "losses": [
        "losses of packed updates, captured, and CPU",
        "losses of packed updates with dropout, the same seed",
        *("the same, captured and not", "the same, another seed"),
    ],
    "throughput": [
        *(f"tiny, {way}" for way in gpu_training.WAYS),
        "tiny: packed, captured / nn.Transformer, bucketed",
        "tiny: packed, captured / nn.Transformer, packed, captured",
        "largest matrix product",
    ],
    "agreement": [
        *("losses of one device and CPU", "losses of all 2 devices and CPU"),
        "losses after SIGKILL and resumption",
    ],
}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", NAMES)
def test_parts_of_the_gpu_benchmark_pass_on_a_cpu(
    part: str, setting: gpu.Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Processes of their own, which the next test has, would load torch first.
    monkeypatch.setattr(
        gpu_training, "run_alone", lambda work, *arguments, seconds: work(*arguments)
    )
    figures = list(gpu.PARTS[part](setting))
    assert [figure.name for figure in figures] == NAMES[part]
    assert {figure.status for figure in figures} == {"pass"}, figures


@pytest.mark.slow
def test_the_gpu_benchmark_writes_one_file_and_fails_if_a_line_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(setting: gpu.Setting) -> list[Figure]:
        raise RuntimeError("no such device")

    monkeypatch.setitem(gpu.PARTS, "throughput", broken)  # type: ignore[arg-type]
    monkeypatch.setattr(gpu_decoding, "run_alone", lambda work, *inputs, seconds: work(*inputs))
    out = tmp_path / "gpu.json"
    arguments = ["gpu", "device=cpu", "tiny=true", f"out={out}", "parts=decoding throughput"]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit, match="1"):
        gpu.main()
    figures = json.loads(out.read_text(encoding="utf-8"))["figures"]
    assert figures["decoding, fixed shapes"]["value"] > 0
    assert figures["decoding, torch engine"]["value"] > 0
    assert figures["translations in float32, changed by fixed shapes"]["value"] == 0
    assert figures["translations in bfloat16, changed by order or company"]["value"] == 0
    assert figures["decoding, CTranslate2"]["status"] == "pass"
    assert figures["decoding, Hugging Face generate"]["status"] in {"pass", "skip"}
    assert figures["throughput"]["status"] == "fail"
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"1 of {len(figures)} lines fail"


def test_an_interrupted_gpu_benchmark_writes_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(setting: gpu.Setting) -> Iterator[Figure]:
        yield Figure("a line", 1.0)
        raise KeyboardInterrupt

    monkeypatch.setitem(gpu.PARTS, "throughput", interrupted)
    out = tmp_path / "gpu.json"
    monkeypatch.setattr("sys.argv", ["gpu", "device=cpu", f"out={out}", "parts=throughput"])
    with pytest.raises(KeyboardInterrupt):
        gpu.main()
    assert json.loads(out.read_text(encoding="utf-8"))["figures"]["a line"]["value"] == 1.0


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("device=tpu", "choose cuda or cpu"),
        ("device=cuda", "torch finds no GPU"),
        ("parts=speed", "parts=speed is unknown"),
    ],
)
def test_wrong_arguments_of_the_gpu_benchmark_are_refused(
    argument: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu", "device=cpu", argument])
    with pytest.raises(UserError, match=message):
        gpu.main()


@pytest.mark.parametrize(
    ("figure", "status"),
    [
        (Figure("x", 1.0), "pass"),
        (Figure("x", 1.0, at_least=1.0, at_most=1.0), "pass"),
        (Figure("x", 0.9, at_least=1.0), "fail"),
        (Figure("x", 1.1, at_most=1.0), "fail"),
        (Figure("x", None), "fail"),
        (Figure("x", float("nan"), at_most=1.0), "fail"),
        (Figure("x", None, is_skipped=True), "skip"),
    ],
)
def test_figures_are_compared_with_their_limits(figure: Figure, status: str) -> None:
    assert figure.status == status
    assert figure.to_json()["status"] == status


def test_work_in_another_process_reports_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    # A forked process does not have to import torch again.
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: fork)
    assert run_alone(divmod, 7, 2) == (3, 1)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run_alone(divmod, 1, 0)
    with pytest.raises(RuntimeError, match=r"not finished after 0 s"):
        run_alone(time.sleep, 60, seconds=0.2)


@pytest.mark.parametrize("layout", [Layout.bucketed, Layout.packed])
@pytest.mark.parametrize("norm", list(NormPlacement))
def test_without_dropout_torch_has_the_losses_of_our_model(
    norm: NormPlacement, layout: Layout, tmp_path: Path, digit_corpus: Path
) -> None:
    config = with_batching(tiny_config(tmp_path), layout=layout)
    optimizer = replace(config.optimizer, max_gradient_norm=1.0)
    config = replace(config, model=tiny_model_config(norm=norm), optimizer=optimizer)
    trainer = trainer_of(config, digit_corpus, 1)
    tokenizer, transformer = trainer.model.target_tokenizer, trainer.model.network
    plain_step = plain_update(
        config,
        *(tokenizer.vocabulary_size, tokenizer.pad_id, torch.device("cpu")),
        initial_model=transformer.train(),
    )
    updates = trainer.loader.updates(Position())
    losses = []
    for _ in range(6):
        work = next(updates)
        both = trainer.update(work).loss, plain_step(work)
        trainer.state = replace(trainer.state, update=trainer.state.update + 1)
        losses.append([loss.item() / work.num_target_tokens for loss in both])
    assert losses[-1][0] < losses[0][0]
    for ours, plain in losses:
        assert plain == pytest.approx(ours, abs=2e-3)


def test_only_without_the_factor_wide_keys_sharpen_attention() -> None:
    narrow, wide = (
        [attention_scale.random_attention(key_width, factor) for factor in (True, False)]
        for key_width in (8, 512)
    )
    assert wide[0].entropy == pytest.approx(narrow[0].entropy, rel=0.02)
    assert wide[0].query_gradient == pytest.approx(narrow[0].query_gradient, rel=0.1)
    assert wide[1].entropy < narrow[1].entropy / 5
    assert wide[1].query_gradient < narrow[1].query_gradient / 5


@torch.no_grad()
def test_a_layer_without_the_factor_weighs_by_plain_products() -> None:
    layer = MultiHeadAttention(tiny_model_config())
    attention_scale.remove_factor(layer)
    hidden = torch.randn(2, 5, 16)
    query, key, value = layer.project_self(hidden)
    heads = (query @ key.mT).softmax(dim=-1) @ value  # (B, H, T, d_v)
    torch.testing.assert_close(layer(hidden, hidden), layer.output(heads.mT.flatten(1, 2).mT))


def test_exponents_are_fitted_to_the_greatest_sizes() -> None:
    points = {1: 500.0, 2: 0.1, 4: 16 * 5.0, 8: 64 * 5.0, 16: 256 * 5.0, 32: 1024 * 5.0}
    assert attention_complexity.exponent(points) == pytest.approx(2.0)


@pytest.mark.slow
def test_table_1_has_all_exponents_and_a_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: fork)
    out, picture = tmp_path / "out.json", tmp_path / "plot.png"
    arguments = ["longest=64", "width=8", "window=4", "seconds=0", f"out={out}"]
    monkeypatch.setattr("sys.argv", ["attention_complexity", *arguments, f"picture={picture}"])
    attention_complexity.main()
    kinds = json.loads(out.read_text(encoding="utf-8"))["kinds"]
    assert [kind["longest path"] for kind in kinds.values()][:4] == [1, 1, 16, 64]
    for kind in kinds.values():
        assert kind["fitted"].keys() == kind["theory"].keys() == kind["measured"].keys()
        assert list(kind["measured"]["memory"]) == ["1", "2", "4", "8", "16", "32", "64"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_docstrings_comments_and_imports_are_not_counted_as_code() -> None:
    text = '"""Module."""\n\nimport os\nfrom a import (\n    b,\n)\n\nX = 1  # one\n\n\ndef f(y):\n'
    text += '    """Docstring\n    of two lines."""\n    # a comment\n    return """two\nlines"""\n'
    assert count_code(text) == 4


@pytest.mark.parametrize(
    ("span", "text", "is_right"),
    [
        (Span(("{x}",), "ein", ("hund",)), "Ein {x} <b>Hund</b> rennt.", True),
        (Span(("{x}",), "ein", ("hund",)), "Ein Hund {x} rennt.", False),
        (Span(("{x}",), "ein", ("hund",)), "Eine Katze {x} rennt.", None),
        (
            Span(("<b>", "</b>"), "", ("hund",), frozenset({"rennt"})),
            "<b>Ein Hund</b> rennt.",
            True,
        ),
        (
            Span(("<b>", "</b>"), "", ("hund",), frozenset({"rennt"})),
            "Ein <b>Hund rennt</b>.",
            False,
        ),
        (Span(("<b>", "</b>"), "", ("hund",), frozenset()), "<b></b>Ein Hund rennt.", False),
    ],
)
def test_places_of_spans_are_judged(span: Span, text: str, is_right: bool | None) -> None:
    assert in_place(span, text) is is_right


def test_links_are_certain_if_both_directions_agree() -> None:
    pairs = [("a dog runs", "ein Hund rennt"), ("a cat runs", "eine Katze rennt"), ("dog", "Hund")]
    [first, _] = certain_links([*pairs, ("runs", "rennt"), ("cat", "Katze")] * 5, 2)
    assert first == {0: "ein", 1: "hund", 2: "rennt"}
