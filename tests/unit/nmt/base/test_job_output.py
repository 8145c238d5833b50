"""Terminal output of the jobs of a sweep."""

import io
import logging
import sys
from pathlib import Path

import pytest

from nmt.base.job_output import in_log_only, labelled, short_name
from nmt.base.log import console, print_line, set_up_logging

logger = logging.getLogger("nmt.test")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("model.dropout=0.5,seed=1", "dropout=0.5,seed=1"),
        (
            "model.dropout=0.027701578430639338,schedule.peak_learning_rate=0.0016473134545751458",
            "dropout=0.0277,peak_learning_rate=0.001647",
        ),
        ("sweep/optimizer.weight_decay=1.23456e-05,run.row=C-width-256", None),
    ],
)
def test_names_lose_groups_and_digits(name: str, short: str | None) -> None:
    assert short_name(name) == (short or "sweep/weight_decay=1.235e-05,row=C-width-256")


def test_each_line_of_a_job_is_labelled_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.StringIO):
        writes: list[str] = []  # noqa: RUF012 - one stream

        def write(self, text: str) -> int:
            self.writes.append(text)
            return len(text)

    monkeypatch.setattr(sys, "stderr", Stream())
    with labelled("seed=1"):
        print("one", "two", file=sys.stderr)
        console.print("three\nfour")
        assert not sys.stderr.isatty()
    assert Stream.writes == ["[seed=1] one two\n", "[seed=1] three\n", "[seed=1] four\n"]


def test_details_of_a_job_are_in_its_log_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    with labelled("seed=1"):
        set_up_logging(log)
        with in_log_only():
            print_line("a table")
            logger.info("cost")
        logger.info("after")
    assert capsys.readouterr().err == "[seed=1] after\n"
    text = log.read_text(encoding="utf-8")
    assert [text.count(one) for one in ("a table\n", "cost\n", "after\n")] == [1, 1, 1]
    with in_log_only():
        logger.info("of a single run")
    assert capsys.readouterr().err == "of a single run\n"
    set_up_logging()
