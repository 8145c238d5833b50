import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import pytest

from nmt.base import signals
from nmt.base.signals import REQUESTS, Interruption


def turned_into_an_error() -> None:
    """What libraries in C do with an exception that a handler raises within them."""
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except Interruption as error:
        raise ValueError("could not determine the shape") from error


def test_what_a_library_makes_of_a_signal_is_undone() -> None:
    with Interruption.watched() as interruption:
        with pytest.raises(Interruption) as raised, interruption.immediately():
            turned_into_an_error()
        assert raised.value.exit_status == 143


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_whose_exception_is_ignored_ends_the_block() -> None:
    class Signalling:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    with (
        pytest.raises(Interruption),
        Interruption.watched() as received,
        received.immediately(),
    ):
        Signalling()


def test_an_error_without_a_signal_stays_itself() -> None:
    is_ours = pytest.raises(ValueError, match="ours")
    with Interruption.watched() as interruption, is_ours, interruption.immediately():
        raise ValueError("ours")


def work_until_time_is_up(save: Callable[[], None]) -> None:
    """Be told, as by a scheduler, that time is nearly up; save and leave, as training does."""
    with Interruption.watched() as interruption:
        signal.raise_signal(signal.SIGUSR2)
        save()
        interruption.exit()


def test_a_scheduler_queues_the_job_again_once_all_is_saved() -> None:
    done = []

    def queue_again(number: int, frame: FrameType | None) -> NoReturn:
        del number, frame
        done.append("queued")
        sys.exit(1)

    signal.signal(signal.SIGUSR2, queue_again)
    with pytest.raises(SystemExit):
        work_until_time_is_up(lambda: done.append("saved"))
    assert done == ["saved", "queued"]


def test_without_a_scheduler_its_signal_ends_the_work_like_any_other() -> None:
    done = []
    with pytest.raises(Interruption) as raised:
        work_until_time_is_up(lambda: done.append("saved"))
    assert done == ["saved"]
    assert raised.value.exit_status == 128 + signal.SIGUSR2


@pytest.mark.parametrize("number", REQUESTS)
def test_every_request_to_end_is_heard_while_work_is_saved(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)  # nohup, which may have started the tests, ignores SIGHUP
    with Interruption.watched() as received:
        signal.raise_signal(number)
        signal.raise_signal(number)  # sent to a process and to its group: one request
        assert received.exit_status == 128 + number
    assert signal.getsignal(number) is not received._handle


def test_a_closed_terminal_does_not_end_what_nohup_started() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Interruption.watched() as received:
        signal.raise_signal(signal.SIGHUP)
    assert received.signal_number == 0


def test_a_used_up_cpu_time_does_not_end_the_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system sends SIGXCPU every second."""
    monkeypatch.setattr(signals, "_SECONDS_OF_ONE_REQUEST", -1.0)
    with Interruption.watched() as received:
        for _ in range(3):
            signal.raise_signal(signal.SIGXCPU)
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGTERM)
    assert received.exit_status == 128 + signal.SIGXCPU
