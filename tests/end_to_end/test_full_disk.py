"""Full and read-only disks, real ones, under the commands: one clear line, and nothing lost."""

import io
import random
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt.disk_fault import DiskFault
from nmt.files import write_lines
from tests.namespaces import ROOT
from tests.small_disk import (
    fill,
    in_a_process,
    needs_mounts,
    remount,
    small_disk,
    tree,
    used_bytes,
)

# What takes seconds to import, such as torch, is imported by the functions that need it: they run
# in processes of their own.

MODEL = ROOT / "tests" / "models" / "digits_v1"

FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small aligned corpus."""
    folder = tmp_path_factory.mktemp("raw")
    chance = random.Random(1)
    for split, count in (("train", 200), ("valid", 5), ("test", 4)):
        for language in ("en", "de"):
            words = ["der", "Hund", "sieht", "das", "rote", "Haus", "the", "dog", "sees", "a"]
            lines = [" ".join(chance.choices(words, k=chance.randint(3, 9))) for _ in range(count)]
            write_lines(folder / f"{split}.{language}", lines)
    return folder


def refusal_of(raw: Path, corpora: Path) -> DiskFault | None:
    """Prepare a corpus; returns what the disk refused, if it did."""
    from data_prep.prepare import prepare  # noqa: PLC0415
    from data_prep.progress import Reporter  # noqa: PLC0415
    from nmt.config import CorpusConfig, CorpusSource, TokenizerConfig  # noqa: PLC0415

    corpus = CorpusConfig(name="toy", source=CorpusSource.folder, path=str(raw))
    tokenizer = TokenizerConfig(vocabulary_size=330)
    try:
        prepare(corpus, tokenizer, corpora, Reporter(quiet=True), num_processes=1)
    except DiskFault as fault:
        return fault
    return None


def innermost(fault: DiskFault) -> str:
    """Name of the file or folder whose writing brought a refusal about."""
    while isinstance(fault.__cause__, DiskFault):
        fault = fault.__cause__
    return fault.path.name


def check_is_valid(corpora: Path, whole: dict[str, bytes]) -> None:
    """Cleaned text and corpus are each there as they should be, or not at all."""
    assert not [path for path in corpora.rglob(".*") if path.suffix in {".tmp", ".old"}]
    found = tree(corpora)
    for part in (".cleaned/", "toy-"):
        expected = {name: data for name, data in whole.items() if name.startswith(part)}
        there = {name: found[name] for name in found if name.startswith(part)}
        # What is counted in the cleaned text comes into its folder later, by itself.
        missing = {name for name in expected if name not in there and name.endswith("leakage.json")}
        odd = [
            name
            for name in {**there, **expected}
            if there.get(name) != expected.get(name) and name not in missing
        ]
        assert not there or not odd, odd


def check_preparing_where_room_is_short(raw: str, work: str) -> None:
    disk, corpora = Path(work, "disk"), Path(work, "disk", "corpora")
    assert refusal_of(Path(raw), Path(work, "whole")) is None
    whole = tree(Path(work, "whole"))
    met = set()
    for kilobytes in (*range(8, 40, 4), *range(40, 200, 8)):
        with small_disk(disk, 1000 * kilobytes):
            fault = refusal_of(Path(raw), corpora)
            if fault is None:
                break
            met.add(innermost(fault))
            for _ in range(2):  # the cleaned text, then the corpus
                check_is_valid(corpora, whole)
                told = re.fullmatch(
                    r".*/corpora/\S+: cannot be written: no space left on device; about"
                    r" ([\d.]+) (k|M)B are needed, [\d.]+ (kB|bytes) are free there; free some"
                    r" and give the same command again",
                    str(fault),
                )
                assert told, str(fault)
                # The room that was asked for is enough.
                needed = int(float(told[1]) * {"k": 1e3, "M": 1e6}[told[2]])
                remount(disk, f"size={used_bytes(disk) + needed}")
                fault = refusal_of(Path(raw), corpora)
                if fault is None:
                    break
            assert tree(corpora) == whole
    else:
        raise AssertionError("no disk was large enough")
    assert {"cleaning.json", "tokenizer.model", "train-00000.arrow", "report.html"} <= met, met


def check_preparing_with_other_faults(raw: str, work: str) -> None:
    disk, corpora = Path(work, "disk"), Path(work, "disk", "corpora")
    with small_disk(disk, 10_000_000):
        assert refusal_of(Path(raw), corpora) is None
        whole = tree(corpora)
        (corpora / ".files.json").unlink(missing_ok=True)
        remount(disk, "ro")
        # What is there is found there.
        assert refusal_of(Path(raw), corpora) is None
        assert "read-only file system" in str(refusal_of(Path(raw), corpora / "others"))
        remount(disk, "rw")
    met = set()
    with small_disk(disk, 10_000_000):
        for limit in (2_000, 20_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            fault = refusal_of(Path(raw), corpora)
            met.add(innermost(fault))
            assert "file too large; a file may hold" in str(fault)
            check_is_valid(corpora, whole)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert refusal_of(Path(raw), corpora) is None
        assert tree(corpora) == whole
    assert len(met) == 2, met


@needs_mounts
@pytest.mark.slow
@pytest.mark.parametrize(
    "check", [check_preparing_where_room_is_short, check_preparing_with_other_faults]
)
def test_preparing(check: Callable[[str, str], None], raw: Path, tmp_path: Path) -> None:
    in_a_process(check, raw, tmp_path, mounts=True)


@contextmanager
def stdout_to(path: Path) -> Iterator[None]:
    kept, sys.stdout = sys.stdout, path.open("w")
    try:
        yield
    finally:
        sys.stdout.close()
        sys.stdout = kept


def refused(run: Callable[[], None], *arguments: str) -> str:
    """The error that a command leaves with, which is the one thing it says of the matter."""
    said = io.StringIO()
    sys.argv = ["command", *arguments]
    status: object = 0
    with redirect_stderr(said):
        try:
            run()
        except SystemExit as left:
            status = left.code
    assert status == 2, said.getvalue()
    assert "Traceback" not in said.getvalue()
    errors = [line for line in said.getvalue().splitlines() if line.startswith("error: ")]
    assert said.getvalue().splitlines()[-1:] == errors, said.getvalue()
    return errors[0]


def check_translating(work: str) -> None:
    from nmt.cli import translate  # noqa: PLC0415
    from nmt.cli.common import run_command  # noqa: PLC0415

    disk, text, given = Path(work, "disk"), Path(work, "a.en"), f"file={Path(work, 'a.en')}"
    write_lines(text, ["1 2 3"] * 3000)
    command = [given, f"model={MODEL}", f"out={disk / 'a.de'}", "decoding.beam_size=1"]

    def run() -> None:
        run_command(translate.main)

    with small_disk(disk, 16_384):
        write_lines(disk / "a.de", ["old"])
        told = refused(run, *command)
        assert told.startswith(
            f"error: {disk / 'a.de'}: cannot be written: no space left on device"
        )
        assert told.endswith("; free some and give the same command again")
        # What is done is kept, and goes on when there is room.
        kept = tree(disk)
        assert kept["a.de"] == b"old\n"
        assert kept["a.de.part"].count(b"\n") == 1024
        remount(disk, "ro")
        assert "a.de: cannot be written: read-only file system; " in refused(run, *command)
        remount(disk, "rw,size=64k")
        sys.argv = ["command", *command]
        run()
        assert tree(disk)["a.de"].startswith(kept["a.de.part"])
        assert tree(disk).keys() == {"a.de"}
        assert tree(disk)["a.de"].count(b"\n") == 3000
    with stdout_to(FULL):
        sys.stdin = SimpleNamespace(  # type: ignore[assignment]
            buffer=io.BufferedReader(io.BytesIO(b"1 2 3\n"))
        )
        told = refused(run, "file=-", f"model={MODEL}")
        assert told.startswith("error: /dev/stdout: cannot be written: no space left on device; ")
    with stdout_to(FULL):
        assert "/dev/stdout: cannot be written" in refused(run, "--help")


def check_evaluating(work: str) -> None:
    from nmt.cli import evaluate  # noqa: PLC0415
    from nmt.cli.common import run_command  # noqa: PLC0415

    disk, text = Path(work, "disk"), Path(work, "a.en")
    write_lines(text, ["1 2 3"] * 300)
    command = [f"source={text}", f"reference={text}", f"model={MODEL}", f"out={disk / 'scores'}"]
    with small_disk(disk, 12_288):
        write_lines(disk / "scores" / "source.txt", ["old"])
        said = refused(lambda: run_command(evaluate.main), *command, "decoding.beam_size=1")
        assert re.search(r"/\w+\.(txt|json): cannot be written: no space left on device", said)
        assert tree(disk) == {"scores/source.txt": b"old\n"}


def check_saving_a_model(work: str) -> None:
    from nmt.trained_model import load_trained_model, save_trained_model  # noqa: PLC0415

    disk, model = Path(work, "disk"), load_trained_model(MODEL)
    with small_disk(disk, 1_000_000):
        save_trained_model(model, disk / "model", {})
        before = tree(disk)
        remount(disk, f"size={used_bytes(disk) + 50_000}")
        with pytest.raises(DiskFault, match=r"/model: cannot be written: no space.* about \d+ kB"):
            save_trained_model(model, disk / "model", {"new": True})
        assert tree(disk) == before
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
        with pytest.raises(DiskFault, match=r"/model: cannot be written: file too large; "):
            save_trained_model(model, Path(work) / "model", {"new": True})
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert not (Path(work) / "model").exists()
        load_trained_model(disk / "model")


def check_the_log(work: str) -> None:
    import logging  # noqa: PLC0415

    from nmt.cli.common import set_up_logging  # noqa: PLC0415

    disk, said = Path(work, "disk"), io.StringIO()
    logger = logging.getLogger("nmt.test")
    with small_disk(disk, 8192), redirect_stderr(said):
        set_up_logging(disk / "train.log")
        logger.info("first")
        filler = fill(disk)
        for number in range(200):
            logger.info("line %d of a log that a full disk does not take", number)
        filler.unlink()
        logger.info("last")
        set_up_logging()
        kept = (disk / "train.log").read_text().splitlines()
        assert kept[0].endswith(" first")
        assert kept[-1].endswith(" last")
        remount(disk, "ro")
        with pytest.raises(DiskFault, match=r"train\.log: cannot be written: read-only file"):
            set_up_logging(disk / "new" / "train.log")
    odd = [line for line in said.getvalue().splitlines() if not re.match(r"first|line|last", line)]
    assert odd == [
        f"{disk / 'train.log'}: can no longer be written (No space left on device); lines will be"
        " missing from it, and the work goes on"
    ]


def check_composed_commands(raw: str, work: str) -> None:
    """Those that go through Hydra, which has words of its own about an exception."""
    from omegaconf import OmegaConf  # noqa: PLC0415

    from nmt.cli import prepare, sweep  # noqa: PLC0415
    from nmt.cli.compose import Refusal, run_composed  # noqa: PLC0415

    disk = Path(work, "disk")
    command = ["corpus=folder", f"corpus.path={raw}", f"run.outputs={disk}"]
    command += ["tokenizer.vocabulary_size=330"]
    with small_disk(disk, 60_000):
        told = refused(lambda: run_composed(prepare.prepare), *command)
        assert re.search(r"/corpora/folder-\w+: cannot be written: no space left on device", told)
        remount(disk, "ro")
        told = refused(lambda: run_composed(prepare.prepare), *command, "corpus.name=other")
        assert "cannot be written: read-only file system; " in told
        told = refused(lambda: run_composed(prepare.prepare), "--multirun", *command)
        assert f"error: {disk / 'sweeps'}" in told
        config = OmegaConf.create({"hydra": {"sweep": {"dir": str(disk)}}})
        with pytest.raises(Refusal, match=r"ranking\.tsv: cannot be written"):
            sweep.RankedTable().on_multirun_end(config)


def check_commands(raw: str, work: str) -> None:
    """All in one process: torch is imported once."""
    check_translating(work)
    check_evaluating(work)
    check_saving_a_model(work)
    check_the_log(work)
    check_composed_commands(raw, work)


@needs_mounts
@pytest.mark.slow
@pytest.mark.skipif(not FULL.is_char_device(), reason="this machine has no /dev/full")
def test_commands(raw: Path, tmp_path: Path) -> None:
    in_a_process(check_commands, raw, tmp_path, mounts=True)


@pytest.mark.slow
@pytest.mark.skipif(not FULL.is_char_device(), reason="this machine has no /dev/full")
def test_translations_to_a_full_disk_by_way_of_the_shell(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.en", ["1 2 3"])
    with FULL.open("w") as full:
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "nmt.cli.translate", f"file={tmp_path / 'a.en'}"),
                *("out=-", f"model={MODEL}"),
            ],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 2
    # Nothing more at shutdown, such as "Exception ignored".
    *_, last = ended.stderr.splitlines()
    assert last == (
        "error: /dev/stdout: cannot be written: no space left on device; free some and give the"
        " same command again"
    )
