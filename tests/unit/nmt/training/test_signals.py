import os
import signal

import pytest

from nmt.training.signals import Interruption


def turned_into_an_error() -> None:
    """What libraries in C do with an exception that a handler raises within them."""
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except Interruption as error:
        raise ValueError("could not determine the shape") from error


def test_what_a_library_makes_of_a_signal_is_undone() -> None:
    with Interruption.watched() as interruption:
        with pytest.raises(Interruption) as raised, interruption.at_once():
            turned_into_an_error()
        assert raised.value.exit_status == 143


def test_an_error_without_a_signal_stays_itself() -> None:
    is_ours = pytest.raises(ValueError, match="ours")
    with Interruption.watched() as interruption, is_ours, interruption.at_once():
        raise ValueError("ours")
