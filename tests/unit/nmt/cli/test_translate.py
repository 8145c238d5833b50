import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt.cli import translate, translating
from nmt.cli.translate import formats
from nmt.decoding.formats import Format
from nmt.decoding.translator import Translation, Translator
from nmt.errors import UserError
from nmt.trained_model import TrainedModel, load_trained_model, save_trained_model
from nmt.training.signals import Interruption


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
        ("decoding.method=dice", "dice is not one of beam, sampling"),
        ("decoding.num_best=9", "num_best"),
        ("device=abacus", "abacus"),
        ("model=/nowhere", "/nowhere"),
        ("file=/nowhere.en", "/nowhere.en"),
        ("out=/tmp", "is a folder"),
        ("out=/etc/passwd/a.de", "cannot be written"),
        ("beam_size=3", "beam_size= is no argument"),
        ("format=xml", "format=xml: no such format; take text, jsonl, tsv"),
        ("mbr=ter", "mbr=ter: no such utility; take chrf or bleu"),
        ("mbr=chrf", "decoding.num_best=8"),
        ("column=0", "column=0 must be positive"),
        ("column=two", "column"),
        ("column=2", "column=2: text has no columns; add format=tsv"),
        ("alignment_layer=1", "alignment_layer=1: nothing is aligned; add alignment=true"),
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


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["decoding=greedy", "decoding.num_best=2"], "decoding=greedy stands beside it"),
        (["decoding.num_best=2", "decoding=greedy"], "keys of decoding stand beside it"),
    ],
)
def test_a_preset_beside_its_keys_is_named(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=told):
        run("file=a.en", *arguments, monkeypatch=monkeypatch)


def test_a_text_is_never_overwritten_by_its_translation(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.de").write_text("x\n")
    with pytest.raises(UserError, match="overwritten"):
        run(f"file={tmp_path}/a.de", f"model={model_folder}", monkeypatch=monkeypatch)


def test_a_reference_beside_a_source_is_not_replaced(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.en").write_text("Kalo mine.\n")
    (tmp_path / "a.de").write_text("what a human wrote\n")
    command = [f"file={tmp_path}/a.en", f"model={model_folder}"]
    with pytest.raises(UserError, match=r"a\.de is there already; .*out="):
        run(*command, monkeypatch=monkeypatch)
    assert (tmp_path / "a.de").read_text() == "what a human wrote\n"
    assert {path.name for path in tmp_path.iterdir()} == {"a.en", "a.de"}
    run(*command, f"out={tmp_path}/a.de", monkeypatch=monkeypatch)  # it is meant
    assert (tmp_path / "a.de").read_text() != "what a human wrote\n"


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


def test_decode_path_is_the_translators(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_trained_model(model_folder)
    texts = ["Kalo mine.", "Zuve ra!"]
    (tmp_path / "a.en").write_text("Kalo mine.\nZuve ra!\n")
    run(f"file={tmp_path}/a.en", f"model={model_folder}", monkeypatch=monkeypatch)
    expected = [best[0].text for best in Translator(model, model.config.decoding).translate(texts)]
    assert (tmp_path / "a.de").read_text().splitlines() == expected


def test_json_lines_tell_everything_and_carry_other_keys_through(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '{"id": 7, "source": "Kalo mine."}\n{"source": "", "by": {"x": [null]}}\n'
    (tmp_path / "a.en.jsonl").write_text(text)
    best = ["decoding.num_best=2", "decoding.max_length_offset=3"]
    run(f"file={tmp_path}/a.en.jsonl", f"model={model_folder}", *best, monkeypatch=monkeypatch)
    first, second = map(json.loads, (tmp_path / "a.de.jsonl").read_text().splitlines())
    assert first["id"] == 7
    assert len(first["translations"]) == 2
    for translation in first["translations"]:
        assert len(translation["tokens"]) == len(translation["token_log_probs"])
        assert translation["log_prob"] == pytest.approx(sum(translation["token_log_probs"]))
    assert second["by"] == {"x": [None]}
    assert second["translations"][0]["text"] == ""
    # Plain text in, and the same from it; then back to text alone.
    (tmp_path / "b.en").write_text("Kalo mine.\n")
    run(
        *(f"file={tmp_path}/b.en", f"model={model_folder}", "format=jsonl", *best),
        monkeypatch=monkeypatch,
    )
    told = json.loads((tmp_path / "b.de.jsonl").read_text())
    assert told == {"source": "Kalo mine.", "translations": first["translations"]}


def test_a_bad_json_line_is_named_before_any_work(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_text('{"source": "Kalo."}\n' * 3 + '{"text": "Kalo."}\n')
    with pytest.raises(UserError, match=r"a\.jsonl: line 4: has no key source \(its keys: text\)"):
        run(f"file={tmp_path}/a.jsonl", f"model={model_folder}", monkeypatch=monkeypatch)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_one_column_is_translated_and_the_others_are_kept(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.tsv").write_text("1\tKalo mine.\tx\n2\t\t\n")
    run(f"file={tmp_path}/a.tsv", f"model={model_folder}", "column=2", monkeypatch=monkeypatch)
    first, second = (tmp_path / "a.de.tsv").read_text().splitlines()
    model = load_trained_model(model_folder)
    [[best]] = Translator(model, model.config.decoding).translate(["Kalo mine."])
    assert first == f"1\t{best.text}\tx"
    assert second == "2\t\t"


def interrupted_after(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a signal come in the translation of the chunk after so many."""
    translate_chunk, calls = Translator.translate, []

    def counted(self: Translator, *arguments: object) -> list[list[Translation]]:
        calls.append(arguments)
        if len(calls) > number:
            raise Interruption(15)
        return translate_chunk(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "translate", counted)


def test_an_interrupted_work_goes_on_where_it_was(
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(translating, "CHUNK_LINES", 2)
    lines = [f"Kalo mine {number}.\n" for number in range(7)]
    (tmp_path / "a.en").write_text("".join(lines))
    command = [f"file={tmp_path}/a.en", f"model={model_folder}", "decoding.beam_size=1"]
    run(*command, f"out={tmp_path}/straight.de", monkeypatch=monkeypatch)

    with monkeypatch.context() as patch:
        interrupted_after(2, patch)
        with pytest.raises(Interruption):
            run(*command, monkeypatch=monkeypatch)
    assert (tmp_path / "a.de.part").read_text().count("\n") == 4
    assert not (tmp_path / "a.de").exists()
    assert "a.de.part keeps the first 4 lines; the same command goes on from there" in (
        capsys.readouterr().err.replace("\n", " ")
    )

    with pytest.raises(UserError, match=r"decoding\.beam_size=1 \(now 3\)"):
        run(*command[:-1], monkeypatch=monkeypatch)
    (tmp_path / "a.en").write_text("".join(["Other.\n", *lines[1:]]))
    with pytest.raises(UserError, match="the first 4 lines of another input"):
        run(*command, monkeypatch=monkeypatch)
    # What is not yet translated may be mended meanwhile.
    (tmp_path / "a.en").write_text("".join(lines[:6]))
    run(*command, monkeypatch=monkeypatch)
    straight = (tmp_path / "straight.de").read_text().splitlines()
    assert (tmp_path / "a.de").read_text().splitlines() == straight[:6]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en", "straight.de"]


def test_work_can_be_begun_anew(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translating, "CHUNK_LINES", 1)
    (tmp_path / "a.en").write_text("Kalo mine.\nZuve ra!\n")
    command = [f"file={tmp_path}/a.en", f"model={model_folder}"]
    with monkeypatch.context() as patch:
        interrupted_after(1, patch)
        with pytest.raises(Interruption):
            run(*command, monkeypatch=monkeypatch)
    run(*command, "resume=false", "decoding.beam_size=1", monkeypatch=monkeypatch)
    assert (tmp_path / "a.de").read_text().count("\n") == 2
    assert not (tmp_path / "a.de.part").exists()


def test_formats_are_those_of_the_name_or_as_said() -> None:
    assert formats("a.jsonl", "", "") == (Format.jsonl, Format.jsonl)
    assert formats("a.JSONL", "", "text") == (Format.jsonl, Format.text)
    assert formats("a.csv", "", "tsv") == (Format.tsv, Format.tsv)
    assert formats("a.en", "", "jsonl") == (Format.text, Format.jsonl)
    assert formats("-", "", "jsonl") == (Format.jsonl, Format.jsonl)
    with pytest.raises(UserError, match="do not go together"):
        formats("a.jsonl", "", "tsv")


def test_json_lines_may_begin_with_a_mark_of_byte_order(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_text('{"source": "Kalo mine."}\n' * 2, encoding="utf-8-sig")
    run(f"file={tmp_path}/a.jsonl", f"model={model_folder}", monkeypatch=monkeypatch)
    first, second = (tmp_path / "a.de.jsonl").read_text().splitlines()
    assert first == second


def test_a_stream_answers_what_came_before_a_bad_line(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = io.BufferedReader(io.BytesIO(b'{"source": "Kalo mine."}\n[]\n'))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=given))
    with pytest.raises(UserError, match="stdin: line 2: is no object"):
        run("file=-", f"model={model_folder}", "format=jsonl", monkeypatch=monkeypatch)
    assert json.loads(capsys.readouterr().out)["translations"]


def test_a_stream_into_a_file_keeps_what_came_before_a_bad_line(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "a.de"

    def translate(given: bytes) -> None:
        stream = io.BufferedReader(io.BytesIO(given))
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        run("file=-", f"out={out}", f"model={model_folder}", monkeypatch=monkeypatch)

    with pytest.raises(UserError, match="stdin: line 1, byte 1: 0xff"):
        translate(b"\xff\nKalo mine.\n")
    assert not list(tmp_path.iterdir())

    with pytest.raises(UserError, match="stdin: line 3, byte 1: 0xff"):
        translate(b"Kalo mine.\nZuve ra!\n\xff\nKalo mine.\n")
    kept = (tmp_path / "a.de.part").read_text()
    assert kept.count("\n") == 2
    # Continued with the line mended.
    translate(b"Kalo mine.\nZuve ra!\nRa.\nKalo mine.\n")
    assert out.read_text().startswith(kept)
    assert out.read_text().count("\n") == 4


def test_alignments_stand_beside_or_in_json_lines(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.en").write_text("Kalo mine.\n\nZuve ra!\n")
    command = [f"file={tmp_path}/a.en", f"model={model_folder}", "alignment=true"]
    run(*command, monkeypatch=monkeypatch)
    run(*command, "format=jsonl", monkeypatch=monkeypatch)
    beside = (tmp_path / "a.de.align").read_text().split("\n")
    told = [json.loads(line) for line in (tmp_path / "a.de.jsonl").read_text().splitlines()]
    assert [one["translations"][0]["alignment"] for one in told] == beside[:3]
    run(*command, "decoding.num_best=3", f"out={tmp_path}/best.de", monkeypatch=monkeypatch)
    assert (tmp_path / "best.de.align").read_text().split("\n") == beside
    texts = (tmp_path / "a.de").read_text().split("\n")
    for text, links in zip(texts, beside, strict=True):
        assert len(text.split()) == len(links.split())
    with pytest.raises(UserError, match="stdout has no file beside it"):
        run(*command, "out=-", monkeypatch=monkeypatch)


def test_minimum_bayes_risk_chooses_one_of_the_best(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.en").write_text("Kalo mine.\n\n")
    best = ["decoding.num_best=3", "decoding.max_length_offset=3", f"model={model_folder}"]
    run(f"file={tmp_path}/a.en", "format=jsonl", *best, monkeypatch=monkeypatch)
    plain = json.loads((tmp_path / "a.de.jsonl").read_text().splitlines()[0])["translations"]
    chosen = ["format=jsonl", "mbr=chrf", f"out={tmp_path}/chosen.jsonl"]
    run(f"file={tmp_path}/a.en", *chosen, *best, monkeypatch=monkeypatch)
    told, empty = map(json.loads, (tmp_path / "chosen.jsonl").read_text().splitlines())
    assert empty["translations"][0]["text"] == ""
    utilities = [one.pop("utility") for one in told["translations"]]
    assert utilities == sorted(utilities, reverse=True)
    assert sorted(plain, key=str) == sorted(told["translations"], key=str)
    # Plain text has the chosen one alone.
    run(f"file={tmp_path}/a.en", "mbr=chrf", *best, monkeypatch=monkeypatch)
    assert (tmp_path / "a.de").read_text() == told["translations"][0]["text"] + "\n\n"


def test_what_is_asked_of_a_sentence_in_json_lines(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        {"source": "Kalo mine.", "prefix": "Ra mi", "required": ["mi mi", "ka"]},
        {"source": "Zuve ra!"},
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "a.jsonl").write_text(lines)
    command = [f"file={tmp_path}/a.jsonl", f"model={model_folder}"]
    run(*command, monkeypatch=monkeypatch)
    told = list(map(json.loads, (tmp_path / "a.de.jsonl").read_text().splitlines()))
    best = told[0]["translations"][0]["text"]
    assert best.startswith("Ra mi")
    assert "mi mi" in best
    assert "ka" in best
    # A model together with itself is the model.
    shutil.copytree(model_folder, tmp_path / "the same")
    run(*command, f"ensemble={tmp_path}/the same", f"out={tmp_path}/both", monkeypatch=monkeypatch)
    both = list(map(json.loads, (tmp_path / "both").read_text().splitlines()))
    assert [one["translations"][0]["text"] for one in both] == [
        one["translations"][0]["text"] for one in told
    ]
    with pytest.raises(UserError, match=r"a\.jsonl: line 1: prefix, required and banned are"):
        run(*command, "document=true", "resume=false", monkeypatch=monkeypatch)


def test_documents_are_translated_sentence_by_sentence(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.en").write_text("Kalo mine. Zuve ra!\n\n  So ka.\n")
    command = [f"file={tmp_path}/a.en", f"model={model_folder}", "document=true"]
    run(*command, "alignment=true", monkeypatch=monkeypatch)
    model = load_trained_model(model_folder)
    translator = Translator(model, model.config.decoding)
    first, second, third = (
        best[0].text for best in translator.translate(["Kalo mine.", "Zuve ra!", "So ka."])
    )
    assert (tmp_path / "a.de").read_text() == f"{first} {second}\n\n  {third}\n"
    assert (tmp_path / "a.de.align").read_text().count("\n") == 3
    all_of_it = ["format=jsonl", "alignment=true", "mbr=chrf", "decoding.num_best=2"]
    run(*command, *all_of_it, f"out={tmp_path}/all", monkeypatch=monkeypatch)
    told = [
        json.loads(line)["translations"] for line in (tmp_path / "all").read_text().splitlines()
    ]
    assert told[1] == [{**told[1][0], "text": "", "alignment": ""}]
    assert {frozenset(one) for some in told for one in some} == {frozenset(told[0][0])}
    # In JSON lines a whole document is one source.
    record = {"source": "Kalo mine. Zuve ra!\n\n  So ka.\n"}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    run(f"file={tmp_path}/a.jsonl", *command[1:], monkeypatch=monkeypatch)
    told = json.loads((tmp_path / "a.de.jsonl").read_text())["translations"][0]
    assert told["text"] == (tmp_path / "a.de").read_text()
