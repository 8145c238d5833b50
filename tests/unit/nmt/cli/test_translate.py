import io
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.cli import translate
from nmt.errors import UserError
from nmt.trained_model import TrainedModel, load_trained_model, save_trained_model


@pytest.fixture(scope="module")
def model_folder(trained_model: TrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    save_trained_model(trained_model, folder, {})
    return folder


def run(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["translate", *arguments])
    translate.main()


def test_as_many_lines_out_as_in(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "news.en"
    source.write_bytes("Kalo mine.\n\n \n😀 a\u2028b\rc\nZuve".encode())
    run(f"file={source}", f"model={model_folder}", monkeypatch=monkeypatch)
    lines = (tmp_path / "news.de").read_bytes().split(b"\n")
    assert len(lines) == 6
    assert lines[1] == lines[2] == lines[5] == b""


def test_only_translations_go_to_stdout_and_a_stream_equals_a_file(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Kalo mine.\n\nZuve ra!\n"
    (tmp_path / "in.txt").write_text(text)
    out = tmp_path / "out.txt"
    run(f"file={tmp_path}/in.txt", f"out={out}", f"model={model_folder}", monkeypatch=monkeypatch)
    streamed = subprocess.run(
        [sys.executable, "-m", "nmt.cli.translate", "file=-", f"model={model_folder}"],
        input=text.encode(),
        capture_output=True,
        check=True,
    )
    assert streamed.stdout == out.read_bytes()


def test_num_best_gives_tabs(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.en").write_text("Kalo mine.\n")
    arguments = ["decoding.beam_size=3", "decoding.num_best=3", "decoding.max_length_offset=3"]
    run(f"file={tmp_path}/a.en", f"model={model_folder}", *arguments, monkeypatch=monkeypatch)
    assert (tmp_path / "a.de").read_text().count("\t") == 2


def test_invalid_utf8_is_named_and_nothing_is_written(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.en").write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(UserError, match=r"a\.en: line 2, byte 3"):
        run(f"file={tmp_path}/a.en", f"model={model_folder}", monkeypatch=monkeypatch)
    assert not (tmp_path / "a.de").exists()


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("decoding.beam=3", "beam"),
        ("decoding.beam_size=wide", "wide"),
        ("decoding.num_best=9", "num_best"),
        ("device=abacus", "abacus"),
        ("model=/nowhere", "/nowhere"),
        ("file=/nowhere.en", "/nowhere.en"),
        ("out=/tmp", "is a folder"),
        ("out=/etc/passwd/a.de", "cannot be written"),
        ("beam_size=3", "beam_size= is no argument"),
    ],
)
def test_bad_arguments_are_named(
    argument: str, told: str, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.en").write_text("x\n")
    given = [f"file={tmp_path}/a.en", f"model={model_folder}"]
    kept = [other for other in given if other.split("=")[0] != argument.split("=", maxsplit=1)[0]]
    with pytest.raises(UserError, match=told):
        run(*kept, argument, monkeypatch=monkeypatch)


def test_a_text_is_never_overwritten_by_its_translation(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.de").write_text("x\n")
    with pytest.raises(UserError, match="overwritten"):
        run(f"file={tmp_path}/a.de", f"model={model_folder}", monkeypatch=monkeypatch)


def test_streaming_answers_before_the_input_ends(model_folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "nmt.cli.translate", "file=-", f"model={model_folder}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"Kalo mine.\n")
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def test_decode_path_is_the_translators(model_folder: Path) -> None:
    model = load_trained_model(model_folder)
    translator = translate.Translator(model, model.config.decoding)
    sink = io.StringIO()
    texts = ["Kalo mine.", "Zuve ra!"]
    translate._translate_lines(translator, texts, sink, total=2)
    expected = [best[0].text for best in translator.translate(texts)]
    assert sink.getvalue().splitlines() == expected
