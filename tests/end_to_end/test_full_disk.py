"""Commands on full and read-only disks: one clear error line, and no data is lost."""

import io
import logging
import random
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import data_prep.prepare
from data_prep.progress import Reporter
from nmt.base.errors import DiskError
from nmt.base.files import write_json, write_lines
from nmt.base.log import set_up_logging
from nmt.cli import evaluate, prepare, train, translate
from nmt.cli.common import run_command
from nmt.config import CorpusConfig, CorpusSource, PrepareConfig, TokenizerConfig
from nmt.runs import multirun
from tests.namespaces import ROOT
from tests.small_disk import fill, in_a_process, needs_mounts, remount, small_disk, tree, used_bytes

MODEL = ROOT / "tests" / "models" / "digits_v1"

FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text of a small corpus."""
    folder = tmp_path_factory.mktemp("raw")
    chance = random.Random(1)
    for split, count in (("train", 200), ("valid", 5), ("test", 4)):
        for language in ("en", "de"):
            words = ["der", "Hund", "sieht", "das", "rote", "Haus", "the", "dog", "sees", "a"]
            lines = [" ".join(chance.choices(words, k=chance.randint(3, 9))) for _ in range(count)]
            write_lines(folder / f"{split}.{language}", lines)
    return folder


def disk_error_of(raw: Path, corpora: Path) -> DiskError | None:
    """Prepare a corpus; return the disk error, if there is one."""
    corpus = CorpusConfig(name="toy", source=CorpusSource.folder, path=str(raw))
    tokenizer, work = TokenizerConfig(vocabulary_size=330), PrepareConfig(num_processes=1)
    try:
        data_prep.prepare.prepare(corpus, tokenizer, corpora, Reporter(quiet=True), work)
    except DiskError as error:
        return error
    return None


def innermost(error: DiskError) -> str:
    """Name of the file or folder that could not be written first."""
    while isinstance(error.__cause__, DiskError):
        error = error.__cause__
    return error.path.name


def check_is_valid(corpora: Path, whole: dict[str, bytes]) -> None:
    """Check that cleaned text and corpus are each complete or absent."""
    assert not [path for path in corpora.rglob(".*") if path.suffix in {".tmp", ".old"}]
    found = tree(corpora)
    for part in (".cleaned/", "toy-"):
        expected = {name: data for name, data in whole.items() if name.startswith(part)}
        existing = {
            # Cleaned shards of an interrupted attempt stay for the next one.
            name: data
            for name, data in found.items()
            if name.startswith(part) and ".shards/" not in name
        }
        # `leakage.json` is added to the cleaned text later.
        missing = {n for n in expected if n not in existing and n.endswith("leakage.json")}
        differing = {name for name, _ in existing.items() ^ expected.items()} - missing
        assert not existing or not differing, differing


def check_preparing_on_small_disks(raw: str, work: str) -> None:
    disk, corpora = Path(work, "disk"), Path(work, "disk", "corpora")
    assert disk_error_of(Path(raw), Path(work, "whole")) is None
    whole = tree(Path(work, "whole"))
    met = set()
    for kilobytes in (*range(8, 40, 4), *range(40, 200, 8)):
        with small_disk(disk, 1000 * kilobytes):
            error = disk_error_of(Path(raw), corpora)
            if error is None:
                break
            met.add(innermost(error))
            for _ in range(2):  # once for the cleaned text, once for the corpus
                check_is_valid(corpora, whole)
                message = re.match(
                    r".*/corpora/\S+: cannot be written: no space left on device"
                    r" \(about ([\d,]+) (bytes|kB|MB) needed, [\d,]+ (bytes|kB) free\); fix",
                    str(error),
                )
                assert message, str(error)
                # The reported number of bytes is sufficient.
                unit = {"bytes": 1, "kB": 10**3, "MB": 10**6}[message[2]]
                needed = int(message[1].replace(",", "")) * unit
                remount(disk, f"size={used_bytes(disk) + needed}")
                error = disk_error_of(Path(raw), corpora)
                if error is None:
                    break
            assert tree(corpora) == whole
    else:
        raise AssertionError("no disk was large enough")
    assert {"cleaning.json", "tokenizer.model", "train-00000.arrow", "report.html"} <= met, met


def check_preparing_with_other_errors(raw: str, work: str) -> None:
    disk, corpora = Path(work, "disk"), Path(work, "disk", "corpora")
    with small_disk(disk, 10_000_000):
        assert disk_error_of(Path(raw), corpora) is None
        whole = tree(corpora)
        (corpora / ".files.json").unlink(missing_ok=True)
        remount(disk, "ro")
        # The existing corpus is found.
        assert disk_error_of(Path(raw), corpora) is None
        assert "read-only file system" in str(disk_error_of(Path(raw), corpora / "others"))
        remount(disk, "rw")
    met = set()
    with small_disk(disk, 10_000_000):
        for limit in (2_000, 20_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            error = disk_error_of(Path(raw), corpora)
            met.add(innermost(error))
            assert "cannot be written: file too large" in str(error)
            check_is_valid(corpora, whole)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert disk_error_of(Path(raw), corpora) is None
        assert tree(corpora) == whole
    assert len(met) == 2, met


def error_line(run: Callable[[], None], *arguments: str) -> str:
    """Return the only error line of a command, which must be its last line."""
    output = io.StringIO()
    sys.argv = ["command", *arguments]
    status: object = 0
    with redirect_stderr(output):
        try:
            run()
        except SystemExit as left:
            status = left.code
    assert status == 2, output.getvalue()
    assert "Traceback" not in output.getvalue()
    errors = [line for line in output.getvalue().splitlines() if line.startswith("error: ")]
    assert output.getvalue().splitlines()[-1:] == errors, output.getvalue()
    return errors[0]


def check_translating(work: str) -> None:
    disk, text, given = Path(work, "disk"), Path(work, "a.en"), f"file={Path(work, 'a.en')}"
    write_lines(text, ["1 2 3 4"] * 3000)
    command = [given, f"model={MODEL}", f"out={disk / 'a.de'}", "decoding.beam_size=1"]

    def run() -> None:
        run_command(translate.main)

    with small_disk(disk, 20_480):
        write_lines(disk / "a.de", ["old"])
        message = error_line(run, *command)
        start = f"error: {disk / 'a.de'}: cannot be written: no space left on device"
        assert message.startswith(start), message
        assert message.endswith(", then run the command again")
        # Finished lines are kept, and the command continues when there is space.
        kept = tree(disk)
        assert kept["a.de"] == b"old\n"
        assert kept["a.de.part"].count(b"\n") == 1024
        remount(disk, "ro")
        assert "a.de: cannot be written: read-only file system" in error_line(run, *command)
        remount(disk, "rw,size=64k")
        sys.argv = ["command", *command]
        run()
        assert tree(disk)["a.de"].startswith(kept["a.de.part"])
        assert tree(disk).keys() == {"a.de"}
        assert tree(disk)["a.de"].count(b"\n") == 3000


def check_evaluating(work: str) -> None:
    disk, source, reference = (Path(work, name) for name in ("disk", "a.en", "a.de"))
    for text in (source, reference):
        write_lines(text, ["1 2 3"] * 300)
    texts = [f"source={source}", f"reference={reference}"]
    command = [*texts, f"model={MODEL}", f"out={disk / 'scores'}"]
    with small_disk(disk, 12_288):
        write_lines(disk / "scores" / "source.txt", ["old"])
        write_json(disk / "scores" / "scores.json", {"files": ["source.txt", "scores.json"]})
        before = tree(disk)
        output = error_line(lambda: run_command(evaluate.main), *command, "decoding.beam_size=1")
        assert re.search(r"/\w+\.(txt|json): cannot be written: no space left on device", output)
        assert tree(disk) == before


def check_the_log(work: str) -> None:
    disk, output = Path(work, "disk"), io.StringIO()
    logger = logging.getLogger("nmt.test")
    with small_disk(disk, 8192), redirect_stderr(output):
        set_up_logging(disk / "train.log")
        logger.info("first")
        filler = fill(disk)
        for number in range(200):
            logger.info("line %d of a log on a full disk", number)
        filler.unlink()
        logger.info("last")
        set_up_logging()
        kept = (disk / "train.log").read_text().splitlines()
        assert kept[0].endswith(" first")
        assert kept[-1].endswith(" last")
        remount(disk, "ro")
        with pytest.raises(DiskError, match=r"train\.log: cannot be written: read-only file"):
            set_up_logging(disk / "new" / "train.log")
    lines = output.getvalue().splitlines()
    [error] = [line for line in lines if not re.match(r"first|line|last", line)]
    assert error.startswith(f"{disk / 'train.log'}: ")
    assert "(No space left on device)" in error


def check_composed_commands(raw: str, work: str) -> None:
    """Commands that use Hydra, which handles exceptions itself."""
    disk = Path(work, "disk")
    command = ["corpus=folder", f"corpus.path={raw}", f"run.outputs={disk}"]
    command += ["tokenizer.vocabulary_size=330"]
    with small_disk(disk, 73_000):
        message = error_line(lambda: run_command(prepare.main), *command)
        assert re.search(
            r"/corpora/folder-\w+: cannot be written: no space left on device", message
        )
        remount(disk, "ro")
        message = error_line(lambda: run_command(prepare.main), *command, "corpus.name=other")
        assert "cannot be written: read-only file system" in message
        message = error_line(lambda: run_command(train.main), "--multirun", *command)
        assert f"error: {disk / 'sweeps'}" in message
        config = OmegaConf.create({"hydra": {"sweep": {"dir": str(disk)}}})
        message = error_line(lambda: multirun.SweepCallback().on_multirun_end(config))
        assert "ranking.tsv: cannot be written: read-only file system" in message


def check_commands(raw: str, work: str) -> None:
    """Run all checks in one process, so that torch is imported once."""
    check_translating(work)
    check_evaluating(work)
    check_the_log(work)
    check_composed_commands(raw, work)


@needs_mounts
@pytest.mark.slow
@pytest.mark.parametrize(
    "check", [check_preparing_on_small_disks, check_preparing_with_other_errors, check_commands]
)
def test_commands_on_full_disks(
    check: Callable[[str, str], None], raw: Path, tmp_path: Path
) -> None:
    in_a_process(check, raw, tmp_path, mounts=True)


@pytest.mark.slow
@pytest.mark.skipif(not FULL.is_char_device(), reason="this machine has no /dev/full")
def test_translations_to_a_full_disk_from_the_shell(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.en", ["1 2 3"])
    command = [sys.executable, "-m", "nmt", "translate", f"file={tmp_path / 'a.en'}", "out=-"]
    with FULL.open("w") as full:
        ended = subprocess.run(
            [*command, f"model={MODEL}"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 2
    # No message follows at shutdown, such as "Exception ignored".
    *_, last = ended.stderr.splitlines()
    assert last.startswith("error: /dev/stdout: cannot be written: no space left on device; ")
