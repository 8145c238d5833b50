"""What preparing a corpus costs, beside sentencepiece encoding the same text.

    python -m benchmarks.preparation [pairs=500000,1500000] [cleaning=standard] [text=DIR]

The text is made of one to three sentences of `text` per line, so that it has about the lengths of
WMT14. For each number of pairs, with all cores: the command prepares the corpus, sentencepiece
encodes both sides, and the command runs again with nothing changed. Then the text is cleaned with
one process and with one per core. Memory is summed over processes; shared pages count once.
"""

import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import sentencepiece

from benchmarks.figures import Figure, figures_json, print_figures, write_result
from benchmarks.setting import run_alone, text_name
from nmt.base.errors import UserError
from nmt.base.files import iterate_lines
from nmt.base.system import num_cores
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import checked_dataclass

# Limits of preparation time / encoding time; cleaning=strict identifies languages.
_MOST_TIMES = {"standard": 2.3, "strict": 4.0}
_SPLITS = ("valid", "test")
_SPLIT_LINES = 2_000
_BLOCK = 100_000

_CLEAN = """
import sys, time
from pathlib import Path
from data_prep.cleaned_text import write_cleaned_text
from data_prep.manifest import FactsCache
from data_prep.progress import Reporter
from data_prep.sources import open_corpus
from nmt.cli.compose import compose_config
from nmt.config import PrepareConfig

folder, corpus = Path(sys.argv[1]), compose_config(sys.argv[3:]).corpus
out = folder / "out"
out.mkdir(parents=True)
sources = open_corpus(corpus, folder, FactsCache(folder / "facts.json"), print)
started = time.perf_counter()
work = PrepareConfig(num_processes=int(sys.argv[2]))
write_cleaned_text(sources, corpus, out, folder / "shards", Reporter(quiet=True), work)
print(time.perf_counter() - started)
"""


@checked_dataclass
class Arguments:
    """See the docstring of the module."""

    pairs: str = "500000"
    cleaning: str = "standard"
    text: str = "../shared/data/mixed-en-de"
    vocabulary_size: int = 32_000


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the benchmark."""
    text = Path(arguments.text)
    if not (text / "train.en").is_file():
        raise UserError(f"text={text} has no train.en and train.de")
    figures: list[Figure] = []
    for number in map(int, arguments.pairs.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            raw = Path(folder) / "raw"
            _write_text(text, raw, number)
            for figure in _measure(raw, Path(folder) / "outputs", number, arguments):
                print(f"{figure.name}: {figure.value:.3g} {figure.unit}", file=sys.stderr)
                figures.append(figure)
    print_figures(f"Preparation, cleaning={arguments.cleaning}, {num_cores()} cores", figures)
    result = {"text": text_name(arguments.text), "cleaning": arguments.cleaning}
    write_result("preparation", {**result, "figures": figures_json(figures)})


def _write_text(text: Path, folder: Path, number: int) -> None:
    """Write `number` pairs of one to three sentences, and short validation and test sets."""
    folder.mkdir()
    chance = random.Random(1)
    sides = [list(iterate_lines(text / f"train.{language}")) for language in ("en", "de")]
    chosen = range(len(sides[0]))
    outs = [(folder / f"train.{language}").open("w") for language in ("en", "de")]
    for _ in range(number):
        indices = chance.choices(chosen, k=chance.choice((1, 1, 2, 2, 3)))
        for out, side in zip(outs, sides, strict=True):
            out.write(" ".join(side[index] for index in indices) + "\n")
    for out in outs:
        out.close()
    for split in _SPLITS:
        for language, side in zip(("en", "de"), sides, strict=True):
            lines = "".join(f"{line}\n" for line in side[:_SPLIT_LINES])
            (folder / f"{split}.{language}").write_text(lines)


def _measure(raw: Path, outputs: Path, number: int, arguments: Arguments) -> Iterator[Figure]:
    name = f"{number:,} pairs"
    size = sum((raw / f"train.{language}").stat().st_size for language in ("en", "de"))
    yield Figure(f"{name}: text", size / 1e9, "GB")
    keys = [
        *("corpus=folder", f"corpus.path={raw}", "corpus.direction=en-de", "corpus.name=bench"),
        *(f"cleaning={arguments.cleaning}", f"run.outputs={outputs}"),
        f"tokenizer.vocabulary_size={arguments.vocabulary_size}",
    ]
    seconds, peak = _run_prepare(keys)
    yield Figure(f"{name}: preparation", seconds, "s")
    yield Figure(f"{name}: its memory", peak / 1e9, "GB", at_most=1.5)
    [corpus] = (outputs / "corpora").glob("bench-*")
    encoding = run_alone(_encoding_seconds, raw, corpus / "tokenizer.model")
    yield Figure(f"{name}: encoding by sentencepiece", encoding, "s")
    limit = _MOST_TIMES.get(arguments.cleaning)
    yield Figure(f"{name}: preparation / encoding", seconds / encoding, at_most=limit)
    yield Figure(f"{name}: nothing changed", _run_prepare(keys)[0], "s", at_most=2.0)
    alone, together = (
        _cleaning_seconds(keys, outputs / f"clean-{processes}", processes)
        for processes in (1, num_cores())
    )
    yield Figure(f"{name}: cleaning by one process", alone, "s")
    yield Figure(f"{name}: cleaning, one process / {num_cores()}", alone / together, at_least=1.8)


def _run_prepare(keys: list[str]) -> tuple[float, int]:
    """Run the command; return seconds and the largest sum of memory of its processes, in bytes."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "nmt", "prepare", *keys]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            peak[0] = max(peak[0], sum(map(_memory, _family(process.pid))))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, errors = process.communicate()
    ended.set()
    watcher.join()
    if process.returncode:
        raise RuntimeError(errors[-600:])
    return time.perf_counter() - started, peak[0]


def _family(pid: int) -> list[int]:
    """Return a process and those that it and its descendants have started."""
    children: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children += map(int, path.read_text().split())
        except OSError:  # it has ended
            continue
    return [pid, *(each for child in children for each in _family(child))]


def _memory(pid: int) -> int:
    """Return the proportional set size of a process, in bytes: shared pages count in part."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _encoding_seconds(raw: Path, model: Path) -> float:
    """Return the seconds to encode both sides with a thread per core, without reading the files."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    seconds = 0.0
    for language in ("en", "de"):
        lines = iterate_lines(raw / f"train.{language}")
        while block := list(islice(lines, _BLOCK)):
            started = time.perf_counter()
            processor.encode(block, out_type=int, num_threads=num_cores())
            seconds += time.perf_counter() - started
    return seconds


def _cleaning_seconds(keys: list[str], folder: Path, processes: int) -> float:
    """Return the seconds of cleaning the text, without learning subwords or encoding."""
    command = [sys.executable, "-c", _CLEAN, str(folder), str(processes), *keys]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(ended.stdout)


if __name__ == "__main__":
    run_command(main)
