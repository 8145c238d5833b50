"""Invalid arguments of commands are reported before anything is translated or written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.base.errors import UserError

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
        ("translate", "file=a.de", "the input a.de would be overwritten"),
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
        ("backtranslate", "file=", "file= is missing"),
        ("score", "decoding.patience=1", "decoding.patience has no effect on scores"),
        ("score", "out=.", "is a folder"),
        ("score", "out=", r"a\.de\.scores\.tsv already exists"),
        ("score", "target=a.fr", "a.en and a.fr are en-fr by their names, but the model"),
        ("score", "target=long.de", r"a\.en has 1 lines and .*long\.de has 2;"),
        ("export", "out=.", "exists and is not an earlier export"),
        ("export", "format=huggingface", "format=huggingface: Input should be 'ctranslate2'"),
    ],
)
def test_an_invalid_argument_is_reported(
    run_named: Callable[..., None], tmp_path: Path, command: str, argument: str, message: str
) -> None:
    for name in ("a.en", "a.de", "a.fr", "a.de.scores.tsv"):
        Path(name).write_text("x\n")
    Path("long.de").write_text("x\ny\n")
    Path("latin1.en").write_bytes(b"fine\nna\xefve\n")
    Path("bad.jsonl").write_text('{"source": "Kalo."}\n{"text": "Kalo."}\n')
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match=message):
        run_named(command, *GIVEN[command], *argument.split())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
