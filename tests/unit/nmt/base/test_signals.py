import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import pytest

from nmt.base.signals import Interruption


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
