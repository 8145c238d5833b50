"""Commands on full and read-only disks: one clear error line, and no data is lost."""

import io
import logging
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path

import pytest

import data_prep.prepare
from data_prep.progress import Reporter
from nmt.base.errors import DiskError
from nmt.base.files import write_lines
from nmt.base.log import set_up_logging
from nmt.cli import prepare, translate
from nmt.cli.common import run_command
from nmt.config import CorpusConfig, CorpusSource, PrepareConfig, TokenizerConfig
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


def disk_error_of(raw: str, corpora: Path) -> DiskError | None:
    """Prepare a corpus; return the disk error, if there is one."""
    corpus = CorpusConfig(name="toy", source=CorpusSource.folder, path=raw, check_languages=False)
    tokenizer, work = TokenizerConfig(vocabulary_size=330), PrepareConfig(num_processes=1)
    try:
        data_prep.prepare.prepare(corpus, tokenizer, corpora, Reporter(quiet=True), work)
    except DiskError as error:
        return error
    return None


def check_preparing(raw: str, work: str) -> None:
    disk, corpora = Path(work, "disk"), Path(work, "disk", "corpora")
    assert disk_error_of(raw, Path(work, "whole")) is None
    whole, met = tree(Path(work, "whole")), set()
    for kilobytes in (12, 24, 73, 120):
        with small_disk(disk, 1000 * kilobytes):
            error = disk_error_of(raw, corpora)
            assert error is not None
            met.add(error.path.parent.name)
            assert " cannot be written: no space left on device (about " in str(error)
            found = tree(corpora).items()
            # Cleaned text and corpus are complete or absent; shards stay for the next command.
            assert {each for each in found if ".shards/" not in each[0]} <= whole.items()
            for _ in range(2):  # the cleaned text, then the corpus
                if error is not None:
                    # The reported number of bytes is sufficient.
                    remount(disk, f"size={used_bytes(disk) + (error.needed or 0)}")
                    error = disk_error_of(raw, corpora)
            assert error is None
            assert tree(corpora) == whole
    assert met == {".cleaned", "corpora"}


def error_line(run: Callable[[], None], *arguments: str) -> str:
    """Return the only error line of a command, which must be its last line."""
    output = io.StringIO()
    sys.argv = ["command", *arguments]
    with redirect_stderr(output), pytest.raises(SystemExit) as left:
        run()
    assert left.value.code == 2
    *before, last = output.getvalue().splitlines()
    assert last.startswith("error: ")
    assert not [line for line in before if "Traceback" in line or "error" in line]
    return last


def check_commands(raw: str, work: str) -> None:
    disk, text = Path(work, "disk"), Path(work, "a.en")
    write_lines(text, ["1 2 3 4"] * 3000)
    command = [f"file={text}", f"model={MODEL}", f"out={disk / 'a.de'}", "decoding.beam_size=1"]

    def run() -> None:
        run_command(translate.main)

    with small_disk(disk, 20_480):
        write_lines(disk / "a.de", ["old"])
        message = error_line(run, *command)
        assert message.startswith(f"error: {disk / 'a.de'}: cannot be written: no space left on")
        # Finished lines are kept, and the command continues when there is space.
        kept = tree(disk)
        assert kept["a.de"] == b"old\n"
        assert kept["a.de.part"].count(b"\n") >= 1024
        remount(disk, "ro")
        assert "a.de: cannot be written: read-only file system" in error_line(run, *command)
        remount(disk, "rw,size=64k")
        run()
        assert tree(disk).keys() == {"a.de"}
        assert tree(disk)["a.de"].startswith(kept["a.de.part"].rpartition(b"\n")[0])
        assert tree(disk)["a.de"].count(b"\n") == 3000
    # A command that uses Hydra, which handles exceptions itself.
    command = ["corpus=folder", f"corpus.path={raw}", f"run.outputs={disk}"]
    command.append("corpus.check_languages=false")
    with small_disk(disk, 73_000):
        message = error_line(lambda: run_command(prepare.main), *command)
        assert "/corpora/" in message
        assert "cannot be written: no space left on device" in message


def check_the_log(_: str, work: str) -> None:
    disk, output = Path(work, "disk"), io.StringIO()
    logger = logging.getLogger("nmt.test")
    with small_disk(disk, 8192), redirect_stderr(output):
        set_up_logging(disk / "train.log")
        filler = fill(disk)
        for number in range(200):
            logger.info("line %d of a log on a full disk", number)
        filler.unlink()
        logger.info("last")
        set_up_logging()
        assert (disk / "train.log").read_text().endswith(" last\n")
    [error] = [line for line in output.getvalue().splitlines() if "train.log" in line]
    assert "(No space left on device)" in error


@needs_mounts
@pytest.mark.slow
@pytest.mark.parametrize("check", [check_preparing, check_commands, check_the_log])
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
            [*command, f"model={MODEL}"], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert ended.returncode == 2
    # No message follows at shutdown, such as "Exception ignored".
    last = ended.stderr.decode().splitlines()[-1]
    assert last.startswith("error: /dev/stdout: cannot be written: no space left on device; ")
