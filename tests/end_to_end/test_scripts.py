"""From text to a report, once for each script that a language of FLORES-200 is written in.

`scripts.tsv` has the beginning of article 1 of the Universal Declaration of Human Rights, a
language a line, in two sentences. Each language is translated into the one of the next line, so
that each is a source and a target.
"""

import html
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from nmt.base.files import read_json, read_lines, write_lines
from nmt.base.languages import has_word_blanks, script_of, split_words
from nmt.cli import evaluate, report, translate
from nmt.config import CorpusConfig, CorpusSource, EvaluationConfig, TokenizerConfig
from nmt.run_folder import Run
from nmt.runs.train import train
from nmt.translation.documents import Document
from tests.support import tiny_config, with_batching

ROWS = [line.split("\t") for line in read_lines(Path(__file__).with_name("scripts.tsv"))]
SENTENCES = {code: sentences for code, *sentences in ROWS}
TOKENIZERS = {
    **dict.fromkeys(("th", "lo", "km", "my", "bo"), "char"),
    **{"zh": "zh", "zh_Hant": "zh", "ja": "ja-mecab", "ko": "ko-mecab"},
}
WITHOUT_BLANKS = {"zh", "zh_Hant", "ja", "km", "bo"}
"""Languages with no blank between the sentences of the document."""


def variants(language: str, first: int, count: int) -> list[str]:
    """Return sentences with the words of a sentence of the language in another order."""
    blank, lines = " " if has_word_blanks(language) else "", []
    for number in range(first, first + count):
        sentence = SENTENCES[language][number % 2]
        words = split_words(sentence[:-1])
        start = number // 2 % len(words)
        lines.append(blank.join((*words[start:], *words[:start])) + sentence[-1])
    return lines


def test_each_script_is_there_once() -> None:
    assert len({script_of(language) for language in SENTENCES}) == len(SENTENCES) >= 28


@pytest.mark.slow
@pytest.mark.parametrize(("source", "target"), pairwise([*SENTENCES, "en"]))
def test_a_script_from_the_text_to_the_report(
    source: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Charts have no text of the corpus, and drawing them takes most of the time.
    monkeypatch.setattr(Figure, "savefig", lambda _, file, **__: file.write("<svg></svg>"))
    for language in (source, target):
        write_lines(Path("text", f"train.{language}"), variants(language, 0, 40))
        write_lines(Path("text", f"valid.{language}"), SENTENCES[language])
        write_lines(Path("text", f"test.{language}"), variants(language, 4, 4))
    direction = f"{source}-{target}"
    corpus = CorpusConfig(name="udhr", source=CorpusSource.folder, path="text", direction=direction)
    base = tiny_config(Path("outputs"), max_updates=5, validate_every=5)
    lengths = dict.fromkeys(("max_source_length", "max_target_length"), 64)
    train(
        replace(
            with_batching(base, tokens_per_micro_batch=64, **lengths),
            corpus=corpus,
            tokenizer=TokenizerConfig(vocabulary_size=460),
            evaluation=EvaluationConfig(),
        )
    )
    run = Run(base.run_folder)
    tokenizer = TOKENIZERS.get(target, "13a")
    assert run.corpus is not None
    # The sentences of `valid` and `test` are in the training text. Some others are there twice.
    dropped = {name for name, count in run.corpus.manifest["cleaning"]["dropped"].items() if count}
    assert dropped - {"duplicate"} == {"test_sentence"}
    assert {run.corpus.leakage["test"][side]["exact"] for side in ("source", "target")} == {0}
    assert run.bleu_tokenizer == tokenizer
    assert f"|tok:{tokenizer}" in run.evaluations["test"]["bleu"]["signature"]

    document = ("" if source in WITHOUT_BLANKS else " ").join(SENTENCES[source])
    assert Document.split(document, source).sentences == (
        [document] if source == "th" else SENTENCES[source]
    )
    write_lines(Path(f"doc.{source}"), [document])
    write_lines(Path("perfect"), run.corpus.read_text("test")[1])
    for command, *arguments in (
        (translate, f"file=doc.{source}", "document=true", "decoding.max_length=9"),
        (evaluate, f"corpus={run.corpus.folder}", "systems.perfect=perfect"),
        (report,),
    ):
        monkeypatch.setattr(sys, "argv", ["command", *arguments])
        command.main()
    assert len(read_lines(Path(f"doc.{target}"))) == 1
    scores = read_json(Path("outputs/evaluations/perfect/test/scores.json"))
    assert scores["bleu"]["score"] == pytest.approx(100)
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert all(html.escape(line, quote=False) in page for line in read_lines(Path("perfect")))
