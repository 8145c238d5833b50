import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt.base.errors import UserError
from nmt.cli.translate import choose_formats
from nmt.trained_model import load_trained_model
from nmt.training.signals import Interruption
from nmt.translation import lines as translation_lines
from nmt.translation.formats import Format
from nmt.translation.translator import Translation, Translator

ROOT = Path(__file__).parents[4]
Run = Callable[..., None]


def test_the_output_has_as_many_lines_as_the_input(tmp_path: Path, run: Run) -> None:
    source = tmp_path / "news.en"
    source.write_bytes("Kalo mine.\n\n \n😀 a\u2028b\rc\nZuve".encode())
    run(f"file={source}")
    lines = Path("news.de").read_bytes().split(b"\n")
    assert len(lines) == 6
    assert lines[1] == lines[2] == lines[5] == b""


def test_only_translations_go_to_stdout_and_a_stream_equals_a_file(
    model_folder: Path, run: Run
) -> None:
    text = "Kalo mine.\n\nZuve ra!\n"
    Path("in.txt").write_text(text)
    run("file=in.txt", "out=out.txt")
    streamed = subprocess.run(
        [sys.executable, "-m", "nmt.cli.translate", "file=-", f"model={model_folder}"],
        input=text.encode(),
        capture_output=True,
        check=True,
        cwd=ROOT,
    )
    assert streamed.stdout == Path("out.txt").read_bytes()


def test_several_translations_are_separated_by_tabs(run: Run) -> None:
    Path("a.en").write_text("Kalo mine.\n")
    arguments = ["decoding.beam_size=3", "decoding.num_best=3", "decoding.max_length_offset=3"]
    run("file=a.en", *arguments)
    assert Path("a.de").read_text().count("\t") == 2


def test_invalid_utf8_is_reported_and_nothing_is_written(run: Run) -> None:
    Path("a.en").write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(UserError, match=r"a\.en: line 2, byte 3"):
        run("file=a.en")
    assert not Path("a.de").exists()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("decoding.beam=3", r"did you mean decoding\.beam_size\?"),
        ("decoding.beam_size=wide", "wide"),
        ("decoding.method=dice", r"decoding\.method=dice: .*'beam' or 'sampling'"),
        ("decoding.num_best=9", "num_best"),
        ("device=abacus", "device=abacus is not available"),
        ("device=meta", "device=meta is not available"),
        ("device=xla:0", "device=xla:0 is not available"),
        ("model=/nowhere", "/nowhere"),
        ("file=/nowhere.en", "/nowhere.en"),
        ("out=/tmp", "is a folder"),
        ("out=/etc/passwd/a.de", "cannot be written"),
        ("mbr=chrf", "decoding.num_best=8"),
        ("column=0", "column=0: Input should be greater than or equal to 1"),
        ("column=2", "column=2 needs columns; add format=tsv"),
        ("alignment_layer=1", "alignment_layer=1 has no effect without alignment=true"),
    ],
)
def test_invalid_arguments_are_reported(argument: str, message: str, run: Run) -> None:
    Path("a.en").write_text("x\n")
    kept = [] if argument.startswith("file=") else ["file=a.en"]
    with pytest.raises(UserError, match=message):
        run(*kept, argument)


def test_a_text_is_never_overwritten_by_its_translation(run: Run) -> None:
    Path("a.de").write_text("x\n")
    with pytest.raises(UserError, match="overwritten"):
        run("file=a.de")


def test_an_existing_output_is_replaced_only_with_out(tmp_path: Path, run: Run) -> None:
    Path("a.en").write_text("Kalo mine.\n")
    Path("a.de").write_text("what a human wrote\n")
    command = ["file=a.en"]
    with pytest.raises(UserError, match=r"a\.de already exists; .*out="):
        run(*command)
    assert Path("a.de").read_text() == "what a human wrote\n"
    assert {path.name for path in tmp_path.iterdir()} == {"a.en", "a.de"}
    run(*command, "out=a.de")  # it is meant
    assert Path("a.de").read_text() != "what a human wrote\n"


def test_translations_equal_those_of_the_translator(model_folder: Path, run: Run) -> None:
    model = load_trained_model(model_folder)
    texts = ["Kalo mine.", "Zuve ra!"]
    Path("a.en").write_text("Kalo mine.\nZuve ra!\n")
    run("file=a.en")
    expected = [best[0].text for best in Translator(model, model.config.decoding).translate(texts)]
    assert Path("a.de").read_text().splitlines() == expected


def test_json_lines_have_all_details_and_keep_other_keys(run: Run) -> None:
    text = '{"id": 7, "source": "Kalo mine."}\n{"source": "", "by": {"x": [null]}}\n'
    Path("a.en.jsonl").write_text(text)
    best = ["decoding.num_best=2", "decoding.max_length_offset=3"]
    run("file=a.en.jsonl", *best)
    first, second = map(json.loads, Path("a.de.jsonl").read_text().splitlines())
    assert first["id"] == 7
    assert len(first["translations"]) == 2
    for translation in first["translations"]:
        assert len(translation["tokens"]) == len(translation["token_log_probs"])
        assert translation["log_prob"] == pytest.approx(sum(translation["token_log_probs"]))
    assert second["by"] == {"x": [None]}
    assert second["translations"][0]["text"] == ""
    # Plain text in, and the same from it; then back to text alone.
    Path("b.en").write_text("Kalo mine.\n")
    run(*("file=b.en", "format=jsonl", *best))
    records = json.loads(Path("b.de.jsonl").read_text())
    assert records == {"source": "Kalo mine.", "translations": first["translations"]}


def test_an_invalid_json_line_is_reported_before_translation(tmp_path: Path, run: Run) -> None:
    Path("a.jsonl").write_text('{"source": "Kalo."}\n' * 3 + '{"text": "Kalo."}\n')
    with pytest.raises(UserError, match=r"a\.jsonl: line 4: source: Field required"):
        run("file=a.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_one_column_is_translated_and_the_others_are_kept(model_folder: Path, run: Run) -> None:
    Path("a.tsv").write_text("1\tKalo mine.\tx\n2\t\t\n")
    run("file=a.tsv", "column=2")
    first, second = Path("a.de.tsv").read_text().splitlines()
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


def test_an_interrupted_translation_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], run: Run
) -> None:
    monkeypatch.setattr(translation_lines, "CHUNK_LINES", 2)
    lines = [f"Kalo mine {number}.\n" for number in range(7)]
    Path("a.en").write_text("".join(lines))
    command = ["file=a.en", "decoding.beam_size=1"]
    run(*command, "out=straight.de")

    with monkeypatch.context() as patch:
        interrupted_after(2, patch)
        with pytest.raises(Interruption):
            run(*command)
    assert Path("a.de.part").read_text().count("\n") == 4
    assert not Path("a.de").exists()
    assert "a.de.part has the first 4 lines; the same command continues from there" in (
        capsys.readouterr().err.replace("\n", " ")
    )

    with pytest.raises(UserError, match=r"decoding\.beam_size=1 \(now 3\)"):
        run(*command[:-1])
    Path("a.en").write_text("".join(["Other.\n", *lines[1:]]))
    with pytest.raises(UserError, match="made from other lines than the first 4"):
        run(*command)
    # Lines that are not translated yet may change.
    Path("a.en").write_text("".join(lines[:6]))
    run(*command)
    straight = Path("straight.de").read_text().splitlines()
    assert Path("a.de").read_text().splitlines() == straight[:6]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en", "straight.de"]


def test_resume_false_starts_again(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr(translation_lines, "CHUNK_LINES", 1)
    Path("a.en").write_text("Kalo mine.\nZuve ra!\n")
    command = ["file=a.en"]
    with monkeypatch.context() as patch:
        interrupted_after(1, patch)
        with pytest.raises(Interruption):
            run(*command)
    run(*command, "resume=false", "decoding.beam_size=1")
    assert Path("a.de").read_text().count("\n") == 2
    assert not Path("a.de.part").exists()


@pytest.mark.parametrize(
    ("file", "given", "chosen"),
    [
        ("a.en", (None, None), ("text", "text")),
        ("a.jsonl", (None, None), ("jsonl", "jsonl")),
        ("a.JSONL", (None, "text"), ("jsonl", "text")),
        ("a.jsonl", ("text", None), ("text", "text")),
        ("a.en", (None, "jsonl"), ("text", "jsonl")),
        ("a.csv", (None, "tsv"), ("tsv", "tsv")),
        (None, (None, "jsonl"), ("jsonl", "jsonl")),
        (None, ("text", "jsonl"), ("text", "jsonl")),
        (None, (None, None), ("text", "text")),
    ],
)
def test_formats_are_those_given_or_by_the_ending(
    file: str | None, given: tuple[str | None, str | None], chosen: tuple[str, str]
) -> None:
    read, write = (Format[name] if name else None for name in given)
    found = choose_formats(Path(file) if file else None, read, write)
    assert tuple(format_.name for format_ in found) == chosen


def test_columns_cannot_become_json_lines() -> None:
    with pytest.raises(UserError, match="cannot be combined"):
        choose_formats(Path("a.tsv"), None, Format.jsonl)


def test_json_lines_may_begin_with_a_byte_order_mark(run: Run) -> None:
    Path("a.jsonl").write_text('{"source": "Kalo mine."}\n' * 2, encoding="utf-8-sig")
    run("file=a.jsonl")
    first, second = Path("a.de.jsonl").read_text().splitlines()
    assert first == second


def test_a_stream_translates_the_lines_before_an_invalid_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], run: Run
) -> None:
    given = io.BufferedReader(io.BytesIO(b'{"source": "Kalo mine."}\n[]\n'))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=given))
    with pytest.raises(UserError, match="stdin: line 2: the line: Input should be"):
        run("file=-", "format=jsonl")
    assert json.loads(capsys.readouterr().out)["translations"]


def test_a_stream_into_a_file_keeps_the_lines_before_an_invalid_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    out = tmp_path / "a.de"

    def translate(given: bytes) -> None:
        stream = io.BufferedReader(io.BytesIO(given))
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        run("file=-", f"out={out}")

    with pytest.raises(UserError, match="stdin: line 1, byte 1: 0xff"):
        translate(b"\xff\nKalo mine.\n")
    assert not list(tmp_path.iterdir())

    with pytest.raises(UserError, match="stdin: line 3, byte 1: 0xff"):
        translate(b"Kalo mine.\nZuve ra!\n\xff\nKalo mine.\n")
    kept = Path("a.de.part").read_text()
    assert kept.count("\n") == 2
    # Continue with a valid line.
    translate(b"Kalo mine.\nZuve ra!\nRa.\nKalo mine.\n")
    assert out.read_text().startswith(kept)
    assert out.read_text().count("\n") == 4


def test_alignments_are_in_a_file_or_in_json_lines(run: Run) -> None:
    Path("a.en").write_text("Kalo mine.\n\nZuve ra!\n")
    command = ["file=a.en", "alignment=true"]
    run(*command)
    run(*command, "format=jsonl")
    beside = Path("a.de.align").read_text().split("\n")
    records = [json.loads(line) for line in Path("a.de.jsonl").read_text().splitlines()]
    assert [one["translations"][0]["alignment"] for one in records] == beside[:3]
    run(*command, "decoding.num_best=3", "out=best.de")
    assert Path("best.de.align").read_text().split("\n") == beside
    texts = Path("a.de").read_text().split("\n")
    for text, links in zip(texts, beside, strict=True):
        assert len(text.split()) == len(links.split())
    with pytest.raises(UserError, match="alignment=true needs a file beside the output"):
        run(*command, "out=-")


def test_minimum_bayes_risk_reorders_the_translations(run: Run) -> None:
    Path("a.en").write_text("Kalo mine.\n\n")
    best = ["decoding.num_best=3", "decoding.max_length_offset=3"]
    run("file=a.en", "format=jsonl", *best)
    plain = json.loads(Path("a.de.jsonl").read_text().splitlines()[0])["translations"]
    chosen = ["format=jsonl", "mbr=chrf", "out=chosen.jsonl"]
    run("file=a.en", *chosen, *best)
    records, empty = map(json.loads, Path("chosen.jsonl").read_text().splitlines())
    assert empty["translations"][0]["text"] == ""
    utilities = [one.pop("utility") for one in records["translations"]]
    assert utilities == sorted(utilities, reverse=True)
    assert sorted(plain, key=str) == sorted(records["translations"], key=str)
    # Plain text has the chosen one alone.
    run("file=a.en", "mbr=chrf", *best)
    assert Path("a.de").read_text() == records["translations"][0]["text"] + "\n\n"


def test_constraints_in_json_lines_and_ensembles(
    model_folder: Path, tmp_path: Path, run: Run
) -> None:
    records = [
        {"source": "Kalo mine.", "prefix": "Ra mi", "required": ["mi mi", "ka"]},
        {"source": "Zuve ra!"},
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    Path("a.jsonl").write_text(lines)
    command = ["file=a.jsonl"]
    run(*command)
    records = list(map(json.loads, Path("a.de.jsonl").read_text().splitlines()))
    best = records[0]["translations"][0]["text"]
    assert best.startswith("Ra mi")
    assert "mi mi" in best
    assert "ka" in best
    # A model together with itself is the model.
    shutil.copytree(model_folder, tmp_path / "the same")
    run(*command, f"ensemble={tmp_path}/the same", "out=both")
    both = list(map(json.loads, Path("both").read_text().splitlines()))
    assert [one["translations"][0]["text"] for one in both] == [
        one["translations"][0]["text"] for one in records
    ]
    with pytest.raises(UserError, match=r"a\.jsonl: line 1: prefix, required and banned apply"):
        run(*command, "document=true", "resume=false")


def test_documents_are_translated_sentence_by_sentence(model_folder: Path, run: Run) -> None:
    Path("a.en").write_text("Kalo mine. Zuve ra!\n\n  So ka.\n")
    command = ["file=a.en", "document=true"]
    run(*command, "alignment=true")
    model = load_trained_model(model_folder)
    translator = Translator(model, model.config.decoding)
    first, second, third = (
        best[0].text for best in translator.translate(["Kalo mine.", "Zuve ra!", "So ka."])
    )
    assert Path("a.de").read_text() == f"{first} {second}\n\n  {third}\n"
    assert Path("a.de.align").read_text().count("\n") == 3
    all_of_it = ["format=jsonl", "alignment=true", "mbr=chrf", "decoding.num_best=2"]
    run(*command, *all_of_it, "out=all")
    records = [json.loads(line)["translations"] for line in Path("all").read_text().splitlines()]
    assert records[1] == [{**records[1][0], "text": "", "alignment": ""}]
    assert {frozenset(one) for some in records for one in some} == {frozenset(records[0][0])}
    # In JSON lines a whole document is one source.
    record = {"source": "Kalo mine. Zuve ra!\n\n  So ka.\n"}
    Path("a.jsonl").write_text(json.dumps(record) + "\n")
    run("file=a.jsonl", *command[1:])
    records = json.loads(Path("a.de.jsonl").read_text())["translations"][0]
    assert records["text"] == Path("a.de").read_text()
