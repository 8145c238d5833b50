import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nmt
from nmt.base.errors import UserError
from nmt.base.signals import Interruption
from nmt.config import Architecture
from nmt.trained_model import load_trained_model, save_trained_model, word_forms
from nmt.translation import lines as translation_lines
from nmt.translation.request import Translation
from nmt.translation.translator import Translator
from tests.support import refused, tiny_trained_model

Run = Callable[..., None]


@pytest.fixture
def translate(run: Run) -> Run:
    return partial(run, "translate")


@pytest.fixture
def translator(model_folder: Path) -> Translator:
    """Translates as the command does, without files."""
    model = load_trained_model(model_folder)
    return Translator(model, model.config.decoding)


def records_of(name: str) -> list[dict[str, Any]]:
    return list(map(json.loads, Path(name).read_text().splitlines()))


@pytest.fixture
def give_stdin(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[bytes], None]:
    def give(data: bytes) -> None:
        file = tmp_path_factory.mktemp("input") / "stdin"
        file.write_bytes(data)
        stream = file.open("rb")
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))

    return give


def test_a_file_a_stream_and_the_translator_give_the_same_lines(
    translator: Translator,
    give_stdin: Callable[[bytes], None],
    capsys: pytest.CaptureFixture[str],
    translate: Run,
) -> None:
    texts = ["Kalo mine.", "", " ", "😀 a\u2028b\rc", "Zuve ra!"]
    Path("news.en").write_bytes("\n".join(texts).encode())
    translate("file=news.en")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.match(r"model: /.*/model \(en-de\)\n", printed.err)
    found = translator.translate(texts)
    lines = Path("news.de").read_bytes()
    assert lines.decode() == "".join(f"{best[0].text}\n" for best in found)
    assert lines.split(b"\n")[1:3] == [b"", b""]
    translate("file=news.en", "out=-")
    assert capsys.readouterr().out.encode() == lines
    give_stdin(Path("news.en").read_bytes())
    translate("file=-")
    assert capsys.readouterr().out.encode() == lines


def test_a_model_without_attention_translates_but_does_not_align(
    tokenizer_path: Path, translate: Run
) -> None:
    model = tiny_trained_model(tokenizer_path, architecture=Architecture.bytenet)
    save_trained_model(model, Path("bytenet"), {})
    Path("a.en").write_text("Kalo mine.\n")
    translate("file=a.en", "model=bytenet")
    assert Path("a.de").read_text().count("\n") == 1
    for argument in ("alignment=true", "protect=true"):
        with refused("model.architecture=bytenet has no attention, which links"):
            translate("file=a.en", "model=bytenet", "out=b.de", argument)


def test_an_existing_output_is_replaced_only_with_out(translate: Run) -> None:
    Path("a.en").write_text("Kalo mine.\n")
    Path("a.de").write_text("what a human wrote\n")
    with refused(r"a\.de already exists; .*out="):
        translate("file=a.en")
    translate("file=a.en", "out=a.de")  # it is meant
    assert Path("a.de").read_text() != "what a human wrote\n"


def test_a_text_that_changes_meanwhile_is_reported(
    translate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.en").write_text("Kalo mine.\n")
    translate_chunk = Translator.translate

    def translate_and_append(self: Translator, *arguments: object) -> list[list[Translation]]:
        with Path("a.en").open("a") as out:
            out.write("Zuve ra!\n")
        return translate_chunk(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "translate", translate_and_append)
    with pytest.raises(UserError, match=r"a\.en: was changed while it was read"):
        translate("file=a.en")
    assert not Path("a.de").exists()


def test_json_lines_have_all_details_and_keep_other_keys(translate: Run) -> None:
    text = '{"id": 7, "source": "Kalo mine."}\n{"source": "", "by": {"x": [null]}}\n'
    Path("a.en.jsonl").write_text(text, encoding="utf-8-sig")
    best = ["decoding.num_best=2", "decoding.max_length_offset=3"]
    translate("file=a.en.jsonl", *best)
    first, second = records_of("a.de.jsonl")
    assert first["id"] == 7
    assert len(first["translations"]) == 2
    for translation in first["translations"]:
        assert len(translation["tokens"]) == len(translation["token_log_probs"])
        assert translation["log_prob"] == pytest.approx(sum(translation["token_log_probs"]))
    assert second["by"] == {"x": [None]}
    assert second["translations"][0]["text"] == ""
    # Plain text in, and the same from it; then back to text alone.
    Path("b.en").write_text("Kalo mine.\n")
    translate(*("file=b.en", "format=jsonl", *best))
    records = json.loads(Path("b.de.jsonl").read_text())
    assert records == {"source": "Kalo mine.", "translations": first["translations"]}


def test_one_column_is_translated_and_the_others_are_kept(
    translator: Translator, translate: Run
) -> None:
    Path("a.tsv").write_text("1\tKalo mine.\tx\n2\t\t\n")
    translate("file=a.tsv", "column=2")
    first, second = Path("a.de.tsv").read_text().splitlines()
    [[best]] = translator.translate(["Kalo mine."])
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
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    translate: Run,
) -> None:
    monkeypatch.setattr(translation_lines, "CHUNK_LINES", 2)
    lines = [f"Kalo mine {number}.\n" for number in range(7)]
    Path("a.en").write_text("".join(lines))
    command = ["file=a.en", "decoding.beam_size=1"]
    translate(*command, "out=straight.de")

    with monkeypatch.context() as patch:
        interrupted_after(2, patch)
        with pytest.raises(Interruption):
            translate(*command)
    assert Path("a.de.part").read_text().count("\n") == 4
    assert not Path("a.de").exists()
    assert "a.de.part has the first 4 lines; the same command continues from there" in (
        capsys.readouterr().err.replace("\n", " ")
    )

    with pytest.raises(UserError, match=r"decoding\.beam_size=1 \(now 3\)"):
        translate(*command[:-1])
    Path("a.en").write_text("".join(["Other.\n", *lines[1:]]))
    with pytest.raises(UserError, match=r"made with input=7 lines, SHA-256 \w+ \(now 7 lines"):
        translate(*command)
    Path("a.en").write_text("".join(lines))
    translate(*command)
    assert Path("a.de").read_text() == Path("straight.de").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en", "straight.de"]

    with monkeypatch.context() as patch:
        interrupted_after(2, patch)
        with pytest.raises(Interruption):
            translate(*command, "out=a.de")
    translate("file=a.en", "out=a.de", "resume=false")
    assert not Path("a.de.part").exists()


def test_a_translation_of_another_stream_is_not_continued(
    give_stdin: Callable[[bytes], None], monkeypatch: pytest.MonkeyPatch, translate: Run
) -> None:
    monkeypatch.setattr(translation_lines, "CHUNK_LINES", 2)
    give_stdin(b"Kalo mine.\n" * 5)
    with monkeypatch.context() as patch:
        interrupted_after(2, patch)
        with pytest.raises(Interruption):
            translate("file=-", "out=a.de")
    give_stdin(b"Zuve ra!\n" * 5)
    with refused("made with input=a stream, SHA-256"):
        translate("file=-", "out=a.de")


def test_a_stream_translates_the_lines_before_an_invalid_one(
    give_stdin: Callable[[bytes], None], capsys: pytest.CaptureFixture[str], translate: Run
) -> None:
    give_stdin(b'{"source": "Kalo mine."}\n[]\n')
    with pytest.raises(UserError, match="stdin: line 2: the line: Input should be"):
        translate("file=-", "format=jsonl")
    assert json.loads(capsys.readouterr().out)["translations"]


def test_a_stream_into_a_file_keeps_the_lines_before_an_invalid_one(
    tmp_path: Path, give_stdin: Callable[[bytes], None], translate: Run
) -> None:
    give_stdin(b"\xff\nKalo mine.\n")
    with pytest.raises(UserError, match="stdin: line 1, byte 1: 0xff"):
        translate("file=-", "out=a.de")
    assert not list(tmp_path.iterdir())

    valid = b"Kalo mine.\nZuve ra!\n" * 6
    give_stdin(valid + b"\xff\nKalo mine.\n")
    with pytest.raises(UserError, match="stdin: line 13, byte 1: 0xff"):
        translate("file=-", "out=a.de")
    kept = Path("a.de.part").read_text()
    assert kept.count("\n") == 12
    # Continue with a valid line.
    give_stdin(valid + b"Ra.\nKalo mine.\n")
    translate("file=-", "out=a.de")
    assert Path("a.de").read_text().startswith(kept)
    assert Path("a.de").read_text().count("\n") == 14


def test_alignments_are_in_a_file_or_in_json_lines(translate: Run) -> None:
    Path("a.en").write_text("Kalo mine.\n\nZuve ra!\n")
    command = ["file=a.en", "alignment=true"]
    translate(*command)
    translate(*command, "format=jsonl")
    beside = Path("a.de.align").read_text().split("\n")
    records = records_of("a.de.jsonl")
    assert [one["translations"][0]["alignment"] for one in records] == beside[:3]
    translate(*command, "decoding.num_best=3", "out=best.de")
    assert Path("best.de.align").read_text().split("\n") == beside
    texts = Path("a.de").read_text().split("\n")
    for text, links in zip(texts, beside, strict=True):
        assert len(text.split()) == len(links.split())


def test_minimum_bayes_risk_reorders_the_translations(translate: Run) -> None:
    Path("a.en").write_text("Kalo mine.\n\n")
    best = ["decoding.num_best=3", "decoding.max_length_offset=3"]
    translate("file=a.en", "format=jsonl", *best)
    plain = records_of("a.de.jsonl")[0]["translations"]
    chosen = ["format=jsonl", "mbr=chrf", "out=chosen.jsonl"]
    translate("file=a.en", *chosen, *best)
    records, empty = records_of("chosen.jsonl")
    assert empty["translations"][0]["text"] == ""
    utilities = [one.pop("utility") for one in records["translations"]]
    assert utilities == sorted(utilities, reverse=True)
    assert sorted(plain, key=str) == sorted(records["translations"], key=str)
    # Plain text has the chosen one alone; without minimum Bayes risk all, separated by tabs.
    translate("file=a.en", "mbr=chrf", *best)
    assert Path("a.de").read_text() == records["translations"][0]["text"] + "\n\n"
    translate("file=a.en", "out=all.de", *best)
    assert Path("all.de").read_text() == "\t".join(one["text"] for one in plain) + "\n\n"


def test_constraints_in_json_lines_and_ensembles(
    model_folder: Path, tmp_path: Path, translate: Run
) -> None:
    constrained = {"source": "Kalo mine.", "prefix": "Ra mi", "required": ["mi mi", "ka"]}
    Path("a.jsonl").write_text(json.dumps(constrained) + '\n{"source": "Zuve ra!"}\n')
    command = ["file=a.jsonl"]
    translate(*command)
    texts = [one["translations"][0]["text"] for one in records_of("a.de.jsonl")]
    best = texts[0]
    assert best.startswith("Ra mi")
    assert "mi mi" in best
    assert "ka" in best
    # A model together with itself is the model.
    shutil.copytree(model_folder, tmp_path / "the same")
    translate(*command, f"ensemble={tmp_path}/the same", "out=both")
    assert [one["translations"][0]["text"] for one in records_of("both")] == texts
    with pytest.raises(UserError, match=r"a\.jsonl: line 1: prefix, required and banned apply"):
        translate(*command, "document=true", "resume=false")


def test_documents_are_translated_sentence_by_sentence(
    translator: Translator, translate: Run
) -> None:
    Path("a.en").write_text("Kalo mine. Zuve ra!\n\n  So ka.\n")
    command = ["file=a.en", "document=true"]
    translate(*command, "alignment=true")
    first, second, third = (
        best[0].text for best in translator.translate(["Kalo mine.", "Zuve ra!", "So ka."])
    )
    assert Path("a.de").read_text() == f"{first} {second}\n\n  {third}\n"
    assert Path("a.de.align").read_text().count("\n") == 3
    all_of_it = ["format=jsonl", "alignment=true", "mbr=chrf", "decoding.num_best=2"]
    translate(*command, *all_of_it, "out=all")
    records = [one["translations"] for one in records_of("all")]
    assert records[1] == [{**records[1][0], "text": "", "alignment": ""}]
    assert {frozenset(one) for some in records for one in some} == {frozenset(records[0][0])}
    # In JSON lines a whole document is one source.
    Path("a.jsonl").write_text(json.dumps({"source": Path("a.en").read_text()}) + "\n")
    translate("file=a.jsonl", *command[1:])
    [record] = records_of("a.de.jsonl")
    assert record["translations"][0]["text"] == Path("a.de").read_text()


def test_a_document_keeps_its_layout(translate: Run, translator: Translator) -> None:
    Path("a.en.md").write_text("# Kalo *mine*\n\n    code\n")
    translate("file=a.en.md")
    [[best, *_]] = translator.translate(["Kalo mine"])
    written = Path("a.de.md").read_text()
    assert written.startswith("# ")
    assert written.endswith("\n\n    code\n")
    assert written.partition("\n")[0].replace("*", "").split() == ["#", *best.text.split()]
    with pytest.raises(UserError, match=r"column= does not apply to a\.en\.md"):
        translate("file=a.en.md", "column=2")


def test_the_search_uses_a_term(
    translate: Run, model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = load_trained_model(model_folder)
    save_trained_model(model, model_folder, {}, words=["mire", "kalo"])
    assert word_forms(model_folder) == ["mire", "kalo"]
    Path("terms.tsv").write_text("Kalo\tmi ra\n")
    Path("a.en").write_text("Kalo mine.\nra mi\n")
    translate("file=a.en", "glossary=terms.tsv", "format=jsonl")
    first, second = map(json.loads, Path("a.de.jsonl").read_text().splitlines())
    assert "mi ra" in first["translations"][0]["text"].lower()
    [term] = first["translations"][0]["terms"]
    assert (term["source"], term["form"].lower(), term["outcome"]) == ("Kalo", "mi ra", "kept")
    assert second["translations"][0]["terms"] == []
    assert "terms: 1 as in the glossary, 0 inflected, 0 missed" in capsys.readouterr().err
    [found, same] = nmt.load(model_folder).translate(["Kalo mine.", "ra mi"], glossary="terms.tsv")
    assert [found, same] == [one["translations"][0]["text"] for one in (first, second)]
    with pytest.raises(UserError, match="glossary= needs engine=torch"):
        translate("file=a.en", "out=b", "glossary=terms.tsv", "engine=ctranslate2")


def test_a_model_trained_with_terms_reads_them_in_the_source(
    translate: Run, model_folder: Path
) -> None:
    model = load_trained_model(model_folder)
    trained = replace(model, config=replace(model.config, terminology=True))
    save_trained_model(trained, model_folder, {})
    Path("terms.tsv").write_text("Kalo\tmi ra\n")
    Path("a.en").write_text("Kalo mine.\nra mi\n")
    Path("b.en").write_text("<term> Kalo<as> mi ra</term> mine.\nra mi\n")
    translate("file=b.en")
    expected = Path("b.de").read_text()
    translate("file=a.en", "glossary=terms.tsv")
    assert "mi ra" in Path("a.de").read_text().lower()  # required of the search
    assert Path("a.de").read_text() != expected
    translate("file=a.en", "out=c", "glossary=terms.tsv", "engine=ctranslate2")
    assert Path("c").read_text() == expected


def test_the_terms_of_a_text_that_is_translated_twice_are_counted_once(
    translate: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("terms.tsv").write_text("Kalo\tmi ra\n")
    Path("a.en").write_text("Kalo <b>mine</b> 17.\n")
    translate("file=a.en", "glossary=terms.tsv", "protect=true", "checks=true")
    counts = re.findall(r"terms: (\d) as .* (\d) inflected, (\d) missed", capsys.readouterr().err)
    assert sum(map(int, counts[0])) == 1


def test_checks_are_in_json_lines_and_on_the_terminal(
    translate: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.en").write_text("Kalo mine (3).\n")
    translate("file=a.en", "checks=true", "format=jsonl")
    [record] = records_of("a.de.jsonl")
    found = record["translations"][0]["findings"]
    printed = capsys.readouterr().err
    assert all(f"line 1: {finding}" in printed for finding in found)
