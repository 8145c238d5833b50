"""`backtranslate`, `export` and `score`, and invalid arguments of these and `translate`."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import ctranslate2
import pytest
import sentencepiece
import torch

from nmt.base.errors import UserError
from nmt.trained_model import TrainedModel, load_trained_model, save_trained_model
from nmt.translation.forced import score_pairs
from nmt.translation.translator import Translator
from tests.support import refused, reversed_digits, tiny_trained_model

Run = Callable[..., None]
DIGITS = Path(__file__).parents[3] / "models" / "digits_v1"

GIVEN = {
    "translate": ["file=a.en"],
    "backtranslate": ["file=a.en"],
    "score": ["source=a.en", "target=a.de", "out=new.tsv"],
    "export": ["out=new"],
}


@pytest.mark.parametrize(
    ("command", "argument", "message"),
    [
        ("translate", "decoding.beam=3", r"did you mean decoding\.beam_size\?"),
        ("translate", "decoding.beam_size=wide", "wide"),
        ("translate", "decoding.method=dice", r"decoding\.method=dice: .*'beam' or 'sampling'"),
        ("translate", "decoding.num_best=9", "num_best"),
        ("translate", "device=abacus", "device=abacus is not available"),
        ("translate", "device=meta", "device=meta is not available"),
        ("translate", "device=xla:0", "device=xla:0 is not available"),
        ("translate", "model=/nowhere", "/nowhere"),
        ("translate", "file=/nowhere.en", "/nowhere.en"),
        ("translate", "file=a.de", "a.de: would overwrite .*a.de, which is read"),
        ("translate", "file=latin1.en", r"latin1\.en: line 2, byte 3"),
        ("translate", "file=bad.jsonl", r"bad\.jsonl: line 2: source: Field required"),
        ("translate", "out=/tmp", "is a folder"),
        ("translate", "out=/etc/passwd/a.de", "cannot be written"),
        ("translate", "mbr=chrf", "decoding.num_best=8"),
        ("translate", "column=0", "column=0: Input should be greater than or equal to 1"),
        ("translate", "column=2", "column=2 needs columns; add format=tsv"),
        ("translate", "alignment_layer=1", "alignment_layer=1 has no effect without alignment="),
        ("translate", "file=- out=- alignment=true", "alignment=true needs a file beside"),
        ("backtranslate", "file=a.de", "are de-de by their names, but the model translates en-de"),
        ("backtranslate", "file=none.en", "none.en: no such file"),
        ("backtranslate", "decoding.num_best=2", "each line gives one pair"),
        (
            *("translate", "decoding.length_penalty_kind=average decoding.length_penalty=1"),
            "has no effect with length_penalty_kind=average",
        ),
        ("backtranslate", "file=", "file= is missing"),
        ("score", "decoding.patience=1", "decoding.patience has no effect on scores"),
        ("score", "out=.", "is a folder"),
        ("score", "out=", r"a\.de\.scores\.tsv already exists"),
        ("score", "target=a.fr", "a.en and a.fr are en-fr by their names, but the model"),
        ("score", "target=long.de", r"a\.en has 1 lines and .*long\.de has 2;"),
        ("export", "out=.", "exists and is not a plain folder; name another folder"),
        ("export", "format=word", "format=word: Input should be 'huggingface'"),
    ],
)
def test_an_invalid_argument_is_reported(
    run: Run, command: str, argument: str, message: str
) -> None:
    for name in ("a.en", "a.de", "a.fr", "a.de.scores.tsv"):
        Path(name).write_text("x\n")
    Path("long.de").write_text("x\ny\n")
    Path("latin1.en").write_bytes(b"fine\nna\xefve\n")
    Path("bad.jsonl").write_text('{"source": "Kalo."}\n{"text": "Kalo."}\n')
    with refused(message):
        run(command, *GIVEN[command], *argument.split())


def test_a_back_translation_has_a_line_for_each_line(
    trained_model: TrainedModel, capsys: pytest.CaptureFixture[str], run: Run
) -> None:
    # The model translates en into de, so it makes sources of a corpus de-en.
    Path("mono.en").write_text("Kalo mine.\n\nZuve ra!\n")
    run("backtranslate", "file=mono.en")
    folder = Path("mono.en.back")
    assert (folder / "train.en").read_text() == "Kalo mine.\n\nZuve ra!\n"
    translator = Translator(trained_model, trained_model.config.decoding)
    found = [best[0].text for best in translator.translate(["Kalo mine.", "Zuve ra!"])]
    assert (folder / "train.de").read_text() == "\n\n".join(map(str.strip, found)) + "\n"
    assert sorted(path.name for path in folder.iterdir()) == ["train.de", "train.en"]
    printed = capsys.readouterr().err
    assert "2 pairs; lines without one, because text or translation is empty: 1" in printed


def test_the_pieces_of_a_text_are_shown(
    run: Run, trained_model: TrainedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    [ids] = trained_model.source_tokenizer.encode(["Kalo mine."])
    pieces = " ".join(trained_model.source_tokenizer.pieces(ids))
    run("subwords", "text='Kalo  mine.\n'")
    shown = capsys.readouterr().out.splitlines()
    assert shown[:2] == [pieces, " ".join(map(str, ids))]
    assert shown[2:] == [
        f"{len(ids)} pieces, {len(ids) / 2:.2f} per word",
        "decoded: Kalo mine.",
        *("", "", "0 pieces"),
    ]


def test_attention_is_written_as_a_page_and_images(run: Run) -> None:
    run("attend", "text='Kalo mine.\nMine kalo.'", "out=seen")
    names = {path.name for path in Path("seen").iterdir()}
    kinds = ("encoder", "decoder", "cross")
    pictures = {f"{i}-{kind}.png" for i in (1, 2) for kind in kinds}
    assert names == {"attention.html", "attention.json", *pictures}
    run("attend", "text=Kalo mine.", "out=seen")
    assert {path.name for path in Path("seen").glob("*.png")} == {f"{kind}.png" for kind in kinds}
    Path("precious.txt").write_text("precious")
    Path("seen/cross.png").unlink()
    Path("seen/cross.png").symlink_to("../precious.txt")
    run("attend", "text=Kalo mine.", "out=seen")
    assert not Path("seen/cross.png").is_symlink()
    assert Path("precious.txt").read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text= "], "text= is empty"),
        (["text=Kalo", "layer=3"], "layer=3: the model has 2 layers with attention"),
        (["text=Kalo", "translation='Mine\nkalo'"], "translation= has 2 lines with text"),
        (["text=" + "kalo " * 40], r"^'kalo .* and the model takes 31: give one sentence a line"),
        (["text=Kalo", "translation=" + "kalo " * 70], "^translation 'kalo .* has"),
    ],
)
def test_attention_that_cannot_be_shown_is_explained(
    run: Run, arguments: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run("attend", *arguments)
    assert not Path("outputs").exists()


def test_an_export_works_without_this_program(tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out"
    for _ in range(2):  # an earlier export is replaced
        run("export", f"model={DIGITS}", f"out={out}")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(out / "tokenizer.model"))
    translator = ctranslate2.Translator(str(out))
    [result] = translator.translate_batch(pieces.encode(["3 1 4 5"], out_type=str))
    assert pieces.decode(result.hypotheses[0]) == "5 4 1 3"
    readme = (out / "README.md").read_text(encoding="utf-8")
    code = [line[4:] for line in readme.splitlines() if line.startswith("    ")]
    compile("\n".join(code), "README.md", "exec")


def test_only_folders_of_an_export_are_replaced(tmp_path: Path, run: Run) -> None:
    shutil.copytree(DIGITS, "run/model")
    given = ["export", "model=run/model"]
    for _ in range(2):
        run(*given)
    for out in ("run", "run/model"):
        with refused("was not written by this command; name another folder with out="):
            run(*given, f"out={out}")
    Path("run/model-ctranslate2/mine").touch()
    with refused("mine: was not written by this command"):
        run(*given)


def test_what_is_saved_into_the_folder_of_an_export_meanwhile_is_kept(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["export", f"model={DIGITS}", "out=out"]
    run(*given)

    def saved(*arguments: object) -> str:
        Path("out/notes.txt").write_text("mine")
        return ""

    monkeypatch.setattr("nmt.evaluation.model_card.model_card", saved)
    run(*given)
    assert Path("out/notes.txt").read_text() == "mine"
    assert Path("out.1/model.bin").is_file()
    assert "out has appeared or changed meanwhile and is kept" in capsys.readouterr().err


def test_scores_of_translations_equal_those_of_search() -> None:
    model = load_trained_model(DIGITS)
    texts = [source for source, _ in reversed_digits(20, 1)]
    config = model.config.decoding
    found = [best[0] for best in Translator(model, config).translate(texts)]
    pairs = [(text, each.text) for text, each in zip(texts, found, strict=True)]
    for each, translation in zip(score_pairs(model, pairs, config), found, strict=True):
        assert each is not None
        [hypothesis] = translation.hypotheses
        assert each.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-4)
        assert each.score == pytest.approx(hypothesis.score, abs=1e-4)


def test_one_line_per_pair_and_a_summary(capsys: pytest.CaptureFixture[str], run: Run) -> None:
    Path("a.en").write_text("Kalo mine.\n\n" + "ka " * 40 + "\n")
    Path("a.de").write_text("Zuve\nra\nso\n")
    given = ["score", "source=a.en", "target=a.de"]
    run(*given)
    run(*given, "format=jsonl")
    lines = Path("a.de.scores.tsv").read_text().split("\n")
    records = list(map(json.loads, Path("a.de.scores.jsonl").read_text().splitlines()))
    assert lines[2:] == ["\t\t\t", ""]
    assert records[2]["score"] is None
    for line, record in zip(lines, records[:2], strict=False):
        log_prob, tokens, perplexity, normalised = map(float, line.split("\t"))
        assert log_prob == pytest.approx(record["log_prob"], abs=1e-5)
        assert tokens == len(record["token_log_probs"])
        assert perplexity == pytest.approx(record["perplexity"], rel=1e-5)
        assert normalised == pytest.approx(record["score"], abs=1e-5)
    printed = capsys.readouterr().err
    assert "2 pairs, " in printed
    assert "1 pairs too long for the model" in printed


@pytest.mark.parametrize(
    ("factor", "message"),
    [(1e19, "the scores of the model are not finite"), (1e7, "a perplexity is not finite")],
)
def test_huge_weights_are_reported(
    factor: float, message: str, run: Run, tokenizer_path: Path
) -> None:
    model = tiny_trained_model(tokenizer_path)
    with torch.no_grad():
        model.network.output_weight.mul_(factor)
    save_trained_model(model, Path("huge"), {})
    for path in ("a.en", "a.de"):
        Path(path).write_text("Kalo mine.\n")
    with pytest.raises(UserError, match=message):
        run("score", "model=huge", "source=a.en", "target=a.de", "out=a.tsv")
    assert not Path("a.tsv").exists()
