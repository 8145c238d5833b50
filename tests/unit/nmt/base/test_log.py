import logging
import sys
from pathlib import Path

import pytest

from nmt.base.log import set_up_logging
from nmt.base.progress import FILE_ONLY


def test_log_lines_escape_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("nmt")
    set_up_logging(tmp_path / "new" / "train.log")
    logger.info("a\x1b[2J\u202e\nb\tc")
    set_up_logging()  # closes the file
    expected = "a\\x1b[2J\\u202e\nb\tc\n"
    assert capsys.readouterr().err == expected
    assert (tmp_path / "new" / "train.log").read_text().endswith(f" {expected}")


def test_a_closed_stderr_does_not_stop_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", None)  # as with `2>&-`
    set_up_logging(tmp_path / "train.log")
    logging.getLogger("nmt").info("update 1", extra=FILE_ONLY)
    set_up_logging()  # closes the file
    assert (tmp_path / "train.log").read_text().endswith(" update 1\n")
