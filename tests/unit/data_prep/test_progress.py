import pytest

from data_prep.progress import Reporter
from nmt.base import progress

HOSTILE = "a\x1b[2J [bold]b"
ESCAPED = r"a\x1b[2J [bold]b"


def test_escape_sequences_and_markup_are_printed_as_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Reporter().print(HOSTILE)
    with Reporter().stage(HOSTILE, None) as advance:
        advance(1)
    printed = capsys.readouterr().err
    assert printed.count(ESCAPED) >= 2
    assert "\x1b[2J" not in printed


def test_so_is_the_description_of_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    with progress.progress_bars() as bars:
        monkeypatch.setattr(progress, "progress_bars", lambda: bars)
        with progress.progress_bar(HOSTILE, 3):
            assert bars.columns[0].render(bars.tasks[0]).plain == ESCAPED


def test_a_count_stays_on_one_line_beside_a_long_description(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with Reporter().stage("Looking for test sentences in the training text", 60000) as advance:
        advance(60000)
    assert " 60000 of 60000 " in capsys.readouterr().err
