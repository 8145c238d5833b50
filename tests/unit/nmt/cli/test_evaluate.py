"""The command in this process, on tiny models with random weights."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nmt.base.errors import UserError
from nmt.base.files import read_json, read_lines, write_json, write_lines
from nmt.base.log import console
from nmt.cli import evaluate
from nmt.trained_model import save_trained_model
from nmt.translation.spans import essence
from tests.support import (
    made_up_sentences,
    refused,
    tiny_trained_model,
    tree,
    write_environment,
)

Run = Callable[..., str]
SENTENCES = made_up_sentences(12, seed=5)
NEW = "model=outputs/runs/new"


@pytest.fixture
def run(outputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command; returns what it printed."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["evaluate", "device=cpu", *arguments])
        monkeypatch.setattr(console, "_width", 100)
        evaluate.main()
        return capsys.readouterr().err

    return run


def scores(folder: Path) -> dict[str, Any]:
    return read_json(folder / "scores.json")


def test_the_last_run_is_compared_with_the_best_on_validation(outputs: Path, run: Run) -> None:
    (outputs / "runs/new").rename(outputs / "runs/my new one")
    (outputs / "latest").symlink_to("runs/my new one")
    printed = run()
    table = scores(outputs / "evaluations/my new one/test")
    assert table["baseline"]["system"] == "good"
    assert table["baseline"]["bleu"]["verdict"] in printed
    assert (
        "baseline: good, best on validation (BLEU 2.00) of 2 comparable runs on toy en-de"
        in printed
    )
    assert printed.splitlines()[-1].startswith("test BLEU ")
    assert table["sentences"] == 6
    assert max(map(len, printed.splitlines())) <= 110
    run("model=outputs/runs/my new one", "out=out")
    assert scores(Path("out")) == table


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_spans_are_protected_and_translations_checked(
    run: Run, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_lines(Path("a.en"), ["Kalo <b>mine</b> {x} ra.", "Kalo 7 {n, plural, other {mine}}"])
    write_lines(Path("a.de"), ["Kalo <b>mine</b> {x} ra.", "Kalo 7"])
    files = ("source=a.en", "reference=a.de", "out=out")
    run(NEW, *files, "protect=true", "checks=true", f"engine={engine}")
    first, second = read_lines(Path("out/hypotheses.txt"))
    assert essence(first) == essence("<b>mine</b> {x}")
    assert "{n, plural, other {" in second
    table = scores(Path("out"))
    assert table["protected_spans"] == {"kept": 0, "inserted": 4, "untranslated": 0}
    lines = {record.message.split(": ")[0] for record in caplog.records}
    assert table["lines_with_findings"] == len(lines) > 0


OF_ONE = ["source.txt", "reference.txt", "hypotheses.txt", "baseline.txt", "scores.json"]


def test_only_folders_of_an_evaluation_are_replaced(run: Run) -> None:
    for _ in range(2):
        run(NEW, "out=out")
    assert tree(Path("out")).keys() == set(OF_ONE)
    Path("out/mine.txt").write_text("my own")
    with refused(r"out/mine\.txt: was not written by this command; name another folder"):
        run(NEW, "out=out")


def test_an_evaluation_with_fewer_references_replaces_one_with_more(run: Run) -> None:
    for path in ("x.en", "x.de", "x.de.1", "x.de.2"):
        write_lines(Path(path), SENTENCES)
    given = NEW, "source=x.en", "reference=x.de", "out=out"
    run(*given)
    for number in (1, 2):
        Path(f"x.de.{number}").unlink()
    with pytest.raises(UserError, match=r"out: would overwrite .*out/reference\.2\.txt"):
        run(NEW, "source=x.en", "reference=out/reference.2.txt", "out=out")
    run(*given)
    assert tree(Path("out")).keys() == set(OF_ONE)
    with pytest.raises(UserError, match=r"out: would overwrite .*out/source\.txt"):
        run(*given[:1], "source=out/source.txt", "reference=out/reference.txt", "out=out")


def test_the_stored_evaluation_of_the_baseline_is_not_replaced(run: Run) -> None:
    stored = Path("outputs/runs/good/evaluation/test")
    run("model=outputs/runs/good", f"out={stored}")
    with refused(r"evaluation/test: would (overwrite|replace) "):
        run(NEW, "baseline=outputs/runs/good", f"out={stored}")
    run("model=outputs/runs/good", f"out={stored}")  # the same evaluation again


def test_several_models_are_in_one_table(run: Run) -> None:
    models = "model=outputs/runs/poor outputs/runs/good outputs/runs/new/model"
    printed = run(models, "test=valid", "out=both")
    tables = printed.partition("Compared with poor")
    for table, names in zip(tables[::2], (["poor", "good", "new"], ["good", "new"]), strict=True):
        rows = [line.split()[0] for line in table.splitlines() if line.strip()]
        assert [name for name in rows if name in ("poor", "good", "new")] == names
    assert "baseline" not in scores(Path("both/poor"))
    assert scores(Path("both/new"))["baseline"]["system"] == "poor"
    shutil.copytree("outputs/runs/new", "elsewhere/new")
    with pytest.raises(UserError, match="two systems have the name new"):
        run("model=outputs/runs/new elsewhere/new")


@pytest.mark.parametrize(
    ("arguments", "baseline", "note"),
    [
        (["baseline=outputs/runs/poor"], "poor", "baseline: poor, named by baseline="),
        # The same run, made elsewhere by another version, is another system.
        (["baseline=elsewhere/runs/new"], "{}/elsewhere/runs/new/model", "named by baseline="),
        (["baseline=outputs/runs/new/model"], None, "not compared: new is the baseline itself"),
        (["model=outputs/runs/poor"], None, "not compared: there is no earlier run"),
    ],
)
def test_the_baseline(
    run: Run, tmp_path: Path, arguments: list[str], baseline: str | None, note: str
) -> None:
    shutil.copytree("outputs/runs/poor", "elsewhere/runs/new")
    printed = run(NEW, *arguments, "out=out")
    found = scores(Path("out")).get("baseline", {}).get("system")
    assert found == (baseline and baseline.format(tmp_path))
    assert note in printed


@pytest.mark.parametrize("other", ["model=outputs/runs/new {}", "baseline={}"])
def test_another_direction_is_rejected_before_translation(
    outputs: Path, tokenizer_path: Path, monkeypatch: pytest.MonkeyPatch, other: str, run: Run
) -> None:
    way_back = tiny_trained_model(tokenizer_path, seed=7)
    config = replace(way_back.config, source_language="de", target_language="en")
    save_trained_model(replace(way_back, config=config), outputs / "back", {})
    monkeypatch.setattr(evaluate, "open_model", None)  # whoever translates now would fail
    models = [NEW, other.format("outputs/back")]
    with pytest.raises(UserError, match="back translates de-en, but the test set is en-de"):
        run(*models[-1 if "model" in other else 0 :])


def test_another_search_is_stored_and_compared_with_the_models_own(run: Run) -> None:
    own = NEW, "baseline=outputs/runs/new"
    run(NEW, "out=scored")
    search = "decoding.beam_size=2", "decoding.max_length_ratio=0", "decoding.max_length_offset=1"
    printed = run(*own, *search, "out=out")
    assert "search: beam 2, length penalty 0.6, at most 0 × the source + 1 tokens" in printed
    table = scores(Path("out"))
    assert table["decoding"]["beam_size"] == 2
    assert table["baseline"]["system"] == "new"
    assert table["baseline"]["bleu"]["baseline"] == scores(Path("scored"))["bleu"]["score"]
    assert table["baseline"]["chrf"]["difference"] != 0


def test_leakage_is_that_of_each_models_training_text(outputs: Path, run: Run) -> None:
    def counted(exact: int) -> dict[str, Any]:
        side = {"exact": exact, "near": exact}
        return {"sentences": 6, "source": side, "target": side, "pairs": {"exact": exact}}

    def has_leakage(corpus: str, exact: int) -> None:
        path = outputs / "corpora" / corpus / "manifest.json"
        write_json(path, {**read_json(path), "leakage": {"test": counted(exact)}})

    for corpus in ("toy-2", "toy-3"):
        shutil.copytree(outputs / "corpora/toy-1", outputs / "corpora" / corpus)
    write_environment(outputs / "runs/good", "toy-2")
    write_environment(outputs / "runs/new", "toy-3")
    has_leakage("toy-1", 5)
    has_leakage("toy-2", 0)
    # Of other sentences under the same name.
    has_leakage("toy-3", 4)
    for language in ("en", "de"):
        write_lines(outputs / f"corpora/toy-3/text/test.{language}", SENTENCES[6:])
    models = "model=outputs/runs/poor outputs/runs/good outputs/runs/new"
    printed = run(models, "out=out")
    assert scores(Path("out/poor"))["leakage"] == counted(5)
    assert scores(Path("out/good"))["leakage"] == counted(0)
    assert "leakage" not in scores(Path("out/new"))
    assert "test: the training text of poor contains 5 of the source sentences (5 incl" in printed
    assert "test: the training text of good contains 0 of the source sentences" in printed
    assert "training text of new" not in printed


def test_different_numbers_of_lines_are_reported(outputs: Path, run: Run) -> None:
    write_lines(Path("a.en"), SENTENCES[:3])
    write_lines(Path("a.de"), SENTENCES[:2])
    with pytest.raises(UserError, match=r"a.en has 3 lines and a.de has 2; they must be aligned"):
        run("source=a.en", "reference=a.de", NEW)
    write_lines(Path("a.de"), SENTENCES[:3])
    write_lines(Path("a.de.1"), SENTENCES[:4])
    with pytest.raises(UserError, match=r"a.en has 3 lines and a.de.1 has 4"):
        run("source=a.en", "reference=a.de", NEW)
    write_lines(outputs / "corpora/toy-1/text/test.de", SENTENCES[:5])
    with pytest.raises(UserError, match=r"test.en has 6 lines and .*test.de has 5"):
        run(NEW)


def test_unusual_line_ends_do_not_shift_lines(run: Run) -> None:
    """U+2028, U+0085, \\r, form feed: each is text of its line, in source and reference."""
    odd = [
        f"{a}{mark}{b}"
        for mark, a, b in zip("\u2028\x85\r\f", *[iter(SENTENCES)] * 2, strict=False)
    ]
    write_lines(Path("odd.en"), [*odd, SENTENCES[0] + "\r", SENTENCES[1]])
    write_lines(Path("odd.de"), [*odd, SENTENCES[0], SENTENCES[1]])
    printed = run("source=odd.en", "reference=odd.de", NEW, "out=o")
    assert scores(Path("o"))["sentences"] == 6
    hypotheses = read_lines(Path("o/hypotheses.txt"))
    assert len(hypotheses) == 6
    assert read_lines(Path("o/source.txt")) == read_lines(Path("odd.en"))
    assert printed.splitlines()[-1] == f"odd BLEU {sacrebleu_of(Path('o'))}"
    # The last line alone gives the same translation: nothing was shifted.
    write_lines(Path("last.en"), SENTENCES[1:2])
    write_lines(Path("last.de"), SENTENCES[1:2])
    run("source=last.en", "reference=last.de", NEW, "out=l")
    assert read_lines(Path("l/hypotheses.txt")) == hypotheses[-1:]


def sacrebleu_of(folder: Path, *more: str) -> str:
    """Score and signature as sacrebleu's own command gives them for the written files."""
    command = [sys.executable, "-m", "sacrebleu", str(folder / "reference.txt"), *more]
    options = ["-i", str(folder / "hypotheses.txt"), "-m", "bleu", "-w", "2"]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    found = json.loads(ended.stdout)
    return f"{found['score']:.2f}  {found['signature']}"


def test_further_references_are_found_by_their_names(outputs: Path, run: Run) -> None:
    for number in (1, 2):
        lines = list(reversed(SENTENCES[number : 6 + number]))
        write_lines(outputs / f"corpora/toy-1/text/test.de.{number}", lines)
    printed = run(NEW, "out=o")
    table = scores(Path("o"))
    assert table["references"] == 3
    assert len(table["test_set"]["sha256"]) == 3
    more = [str(Path("o") / f"reference.{number}.txt") for number in (1, 2)]
    assert printed.splitlines()[-1] == f"test BLEU {sacrebleu_of(Path('o'), *more)}"
    assert "nrefs:3" in printed
    # With fewer references in the same folder, none of the others stays.
    files = "source=s.en", "reference=r.de"
    for copied, path in zip(("source.txt", "reference.2.txt"), ("s.en", "r.de"), strict=True):
        shutil.copy(Path("o") / copied, path)
    with pytest.raises(UserError, match=r"o: would overwrite .*o/reference\.1\.txt"):
        run(NEW, files[0], "reference=o/reference.1.txt", "out=o")
    run(NEW, *files, "out=o")
    assert sorted(path.name for path in Path("o").glob("reference*")) == ["reference.txt"]
    (outputs / "corpora/toy-1/text/test.de.1").unlink()
    with pytest.raises(UserError, match=r"test.de.2 exists but .*test.de.1 does not"):
        run(NEW, "out=o")


def test_suspicious_references_cause_warnings(run: Run) -> None:
    write_lines(Path("t.en"), SENTENCES[:2])
    write_lines(Path("t.de"), ["rich @-@ text .", "mehr &apos;s ."])
    printed = run("source=t.en", "reference=t.de", NEW, "out=o")
    assert printed.count("warning: t: ") == 4
    assert len(scores(Path("o"))["test_set"]["warnings"]) == 4


def write_other_systems() -> list[str]:
    """Write translations of `SENTENCES`; return the arguments of a comparison without models."""
    write_lines(Path("news.en"), SENTENCES)
    write_lines(Path("news.de"), SENTENCES)
    write_lines(Path("same"), SENTENCES)
    write_lines(Path("worse"), [line.rpartition(" ")[0] or "x" for line in SENTENCES])
    return ["source=news.en", "reference=news.de", "systems.worse=worse", "systems.same=same"]


def test_translations_by_other_systems_need_no_model(run: Run, outputs: Path) -> None:
    shutil.rmtree(outputs)
    arguments = write_other_systems()
    printed = run(*arguments)
    worse, same = (scores(Path("outputs/evaluations", name, "news")) for name in ("worse", "same"))
    assert same["bleu"]["score"] == pytest.approx(100)
    assert 0 < worse["bleu"]["score"] < 95
    assert worse["bleu"]["ci95"] > 0
    assert same["baseline"]["system"] == "worse"
    assert same["baseline"]["why"] == "the first of the systems"
    assert same["baseline"]["bleu"]["verdict"] == "better"
    assert "baseline" not in worse
    assert "decoding" not in same
    assert "search" not in printed
    assert printed.splitlines()[-1].startswith("same: news BLEU 100.00")
    run(*arguments, "baseline=same", "out=o")
    assert scores(Path("o/worse"))["baseline"]["bleu"]["verdict"] == "worse"
    write_lines(Path("short"), SENTENCES[1:])
    with refused(r"news has 12 lines and short has 11; they must be aligned"):
        run(*arguments, "systems.short=short")
    with refused(r"systems\.none= names no file of translations"):
        run(*arguments, "systems.none=")
    with refused(r"or translations with systems\.NAME=FILE"):
        run(*arguments[:2], "systems={}")
    write_lines(Path("blank"), [" "] * len(SENTENCES))
    with refused("blank: has no translations, only blank lines"):
        run(*arguments, "systems.blank=blank")
    write_lines(Path("half"), [SENTENCES[0], *([""] * (len(SENTENCES) - 1))])
    assert "warning: half: 11 of 12 translations are blank" in run(*arguments, "systems.half=half")
    shutil.copy("news.de", "reference")
    with refused(r"reference: has no ending that names its language; .* to reference\.de"):
        run("source=news.en", "reference=reference", "systems.same=same")


def test_translations_by_other_systems_beside_the_last_run(outputs: Path, run: Run) -> None:
    (outputs / "latest").symlink_to("runs/new")
    corpus = outputs / "corpora/toy-1"
    write_lines(Path("perfect"), read_lines(corpus / "text/test.de"))
    run("test=test", "systems.other=perfect")
    table = scores(outputs / "evaluations/other/test")
    assert table["bleu"]["score"] == pytest.approx(100)
    assert table["baseline"]["system"] == "new"
    assert scores(outputs / "evaluations/new/test")["decoding"]
    run(f"corpus={corpus}", "systems.alone=perfect")
    assert scores(outputs / "evaluations/alone/test")["bleu"] == table["bleu"]
    with pytest.raises(UserError, match="two systems have the name new; rename a folder or a key"):
        run("systems.new=perfect")
    # Without a run, the only prepared corpus has the test set.
    (outputs / "latest").unlink()
    run("test=test", "systems.lonely=perfect")
    assert scores(outputs / "evaluations/lonely/test")["bleu"] == table["bleu"]
    shutil.copytree(corpus, outputs / "corpora/toy-2")
    with refused(
        "no completed run, and outputs/corpora has 2 prepared corpora; .* corpus=", outputs
    ):
        run("test=test", "systems.lonely=perfect")


def test_chinese_has_its_own_tokens_and_blank_references_are_refused(run: Run) -> None:
    chinese = ["昨天我买了一本书。", "他今天去了北京。", "她喜欢红色的雨伞。"]
    for name, lines in {"a.en": "xyz", "a.zh": chinese, "a.txt": chinese, "o": chinese}.items():
        write_lines(Path(name), list(lines))
    arguments = ["source=a.en", "systems.o=o", "out=out"]
    printed = run(*arguments, "reference=a.zh")
    assert "a BLEU 100.00" in printed.splitlines()[-1]
    assert "|tok:zh|" in printed.splitlines()[-1]
    assert {"paper_bleu", "lowercase_bleu"}.isdisjoint(scores(Path("out")))
    printed = run(*arguments, "reference=a.zh", "evaluation.bleu_tokenizer=char")
    assert "|tok:char|" in printed.splitlines()[-1]
    printed = run(*arguments, "reference=a.txt")
    assert "13a is a wrong tokeniser of BLEU; set evaluation.bleu_tokenizer=zh" in printed
    write_lines(Path("a.zh"), [*chinese[:2], " "])
    with refused(r"test set a: 1 of 3 references are blank; .*evaluation\.allow_blank=true"):
        run(*arguments, "reference=a.zh")
    printed = run(*arguments, "reference=a.zh", "evaluation.allow_blank=true")
    assert "warning: a: 1 of 3 references are blank" in printed
