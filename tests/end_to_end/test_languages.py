"""Languages whose codes have a script or a region, from a folder of text to translations."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nmt.base.files import read_lines, write_lines
from nmt.cli import backtranslate, score, translate
from nmt.config import CorpusConfig, CorpusSource, TokenizerConfig
from nmt.runs.train import train
from tests.support import reversed_digits, tiny_config

DIRECTION = ("zh_Hans", "pt_BR")


@pytest.mark.slow
def test_a_direction_with_script_and_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, (split, count) in enumerate({"train": 60, "valid": 4, "test": 4}.items()):
        pairs = zip(*reversed_digits(count, number), strict=True)
        for language, lines in zip(DIRECTION, pairs, strict=True):
            write_lines(Path("text", f"{split}.{language}"), lines)
    config = tiny_config(Path("outputs"), max_updates=2, validate_every=2)
    corpus = CorpusConfig(
        name="toy", source=CorpusSource.folder, path="text", direction="-".join(DIRECTION)
    )
    tokenizer = TokenizerConfig(vocabulary_size=20, byte_fallback=False)
    train(replace(config, corpus=corpus, tokenizer=tokenizer))
    write_lines(Path("a.zh_Hans"), ["1 2 3", "4 5"])
    for command, *arguments in (
        (translate, "file=a.zh_Hans"),
        (score, "source=a.zh_Hans", "target=a.pt_BR"),
        (backtranslate, "file=a.zh_Hans"),
    ):
        monkeypatch.setattr(sys, "argv", ["command", "model=outputs/latest", *arguments])
        command.main()
    for name in ("a.pt_BR", "a.pt_BR.scores.tsv"):
        assert len(read_lines(Path(name))) == 2
    names = {path.name for path in Path("a.zh_Hans.back").iterdir()}
    assert names == {"train.zh_Hans", "train.pt_BR"}
