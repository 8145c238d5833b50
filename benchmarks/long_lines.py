"""Time of each step of translating one long line, apart from the model, over doubling lengths.

    python -m benchmarks.long_lines [model=FOLDER] [characters=1000000]

A step is linear or bounded if the time for twice the length is about twice the time. The command
exits with 1 if a step takes more than three times as long where it takes more than half a second.
Without a model, the tokenizer is learned from a few words. The result in benchmarks/results has
the largest such ratio of each step and kind (0: below half a second), and the seconds per length.
"""

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sentencepiece

from benchmarks.figures import Figure, figures_json, write_result
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import checked_dataclass, option
from nmt.tokenizer import Tokenizer
from nmt.trained_model import load_trained_model
from nmt.translation.checks import findings
from nmt.translation.documents import Document
from nmt.translation.icu import Message
from nmt.translation.placement import insert_marks
from nmt.translation.sentences import Segmenter
from nmt.translation.spans import protected_spans, without_spans

_FIRST = 31_250  # characters
_MAX_RATIO = 3.0
_MIN_SECONDS = 0.5
_MAX_SECONDS = 60.0  # a step that takes longer is not tried with longer texts

# Parts that are repeated, so that together they reach the length.
KINDS = {
    "words": "Ein Satz mit sechs Wörtern hier. ",
    "one word": "wort",
    "unclosed tags": "<b> ",
    "unopened tags": "</b> a ",
    "opened, then other tags closed": "",
    "nested tags": "",
    "pairs of tags": "<b>wort</b> ",
    "broken tags": "<a ",
    "placeholders": "{a} %s __x__ ",
    "open braces": "{{a ",
    "backquotes": "`a` ` b",
    "fences": "``` a `b ``c ",
    "comments": "<!-- a <? b <% ",
    "scripts": "<script>a<b ",
    "names": "@a.b@ #c $d->e(",
    "money": "$5 US$ 5,",
    "paths": "/a/b.c d/e/f ",
    "slashes": "a/",
    "numbers with blanks": "123 ",
    "entities": "&amp;&a",
    "plurals": "{n, plural, one {a} other {b}} ",
    "nested plurals": "{n, plural, one {",
    "native code": "<ph id='1'>",
    "addresses": "http://a.de/b.. ",
    "dots": ".",
    "marks and blanks": "! ? ",
    "at signs": "a@b-",
    "numbers": "12.345,6 ",
    "digits": "7",
    "blanks": " ",
    "combining marks": "",
}


def text_of(kind: str, length: int) -> str:
    """Return about `length` characters of a kind."""
    if kind == "nested tags":
        return "<b> a " * (length // 12) + "</b> c " * (length // 14)
    if kind == "opened, then other tags closed":
        return "<b> " * (length // 8) + "</i> " * (length // 10)
    if kind == "combining marks":
        return "a" + "\u0300\u0316" * (length // 2)
    return KINDS[kind] * (length // len(KINDS[kind]))


def _insert(text: str) -> None:
    """Remove spans, and insert them into the same text, as it is done for long texts."""
    bare, marks = without_spans(text)
    insert_marks(bare, bare, marks, None)


def steps(tokenizer: Tokenizer) -> dict[str, Callable[[str], Any]]:
    """Return the steps by name."""
    segmenter = Segmenter(tokenizer, "de", 255)
    return {
        "spans": protected_spans,
        "spans out and in": _insert,
        "messages": Message.parse,
        "sentences": lambda text: Document.split(text, "de"),
        "segments": lambda text: segmenter.segments([text]),
        "words of pieces": lambda text: tokenizer.word_indices([text]),
        "checks": lambda text: findings(text, text[: len(text) // 2]),
    }


def largest_ratio(run: Callable[[str], Any], kind: str, longest: int) -> tuple[float, list[float]]:
    """Return the largest growth of the time from a length to its double, and all times."""
    times: list[float] = []
    length, ratio = min(_FIRST, longest), 0.0
    while length <= longest and (not times or times[-1] < _MAX_SECONDS):
        text = text_of(kind, length)
        start = time.process_time()
        run(text)
        times.append(time.process_time() - start)
        if len(times) > 1 and times[-1] > _MIN_SECONDS:
            ratio = max(ratio, times[-1] / times[-2])
        length *= 2
    return ratio, times


@checked_dataclass
class Arguments:
    """See the docstring of the module."""

    model: str = ""
    characters: int = option(1_000_000, ge=1_000, le=100_000_000)


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Time all steps on all kinds of text."""
    with TemporaryDirectory() as folder:
        if arguments.model:
            tokenizer = load_trained_model(Path(arguments.model)).source_tokenizer
        else:
            tokenizer = _small_tokenizer(Path(folder))
        figures = []
        for name, run in steps(tokenizer).items():
            for kind in KINDS:
                ratio, times = largest_ratio(run, kind, arguments.characters)
                line = "".join(f"{seconds:8.2f}" for seconds in times)
                print(f"{name:17}{kind:32}{line}")
                figures.append(
                    Figure(f"{name}, {kind}", ratio, "times", at_most=_MAX_RATIO, note=line.strip())
                )
    slow = [figure for figure in figures if figure.status == "fail"]
    print("\n".join(map(str, slow)) or "all steps are linear or bounded")
    write_result("long-lines", {"figures": figures_json(figures)})
    sys.exit(1 if slow else 0)


def _small_tokenizer(folder: Path) -> Tokenizer:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([f"{KINDS['words']}{kind}" for kind in KINDS] * 9),
        model_writer=model,
        vocab_size=330,
        model_type="bpe",
        byte_fallback=True,
        pad_id=3,
        minloglevel=2,
    )
    path = folder / "tokenizer.model"
    path.write_bytes(model.getvalue())
    return Tokenizer(path)


if __name__ == "__main__":
    run_command(main)
