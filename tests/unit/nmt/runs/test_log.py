import logging
from pathlib import Path

import pytest

from nmt.runs.log import set_up_logging


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
