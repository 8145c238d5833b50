import platform
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from nmt.errors import UserError
from nmt.training import network


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_LOOK_AGAIN", 0.01)


def test_an_address_is_ours_or_anothers() -> None:
    assert network.own_address("127.0.0.1") == "127.0.0.1"
    assert network.own_address("localhost") in {"127.0.0.1", "::1"}
    assert network.own_address("192.0.2.1") == ""  # kept for documents: nobody has it


def test_an_unknown_name_is_the_users_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*arguments: Any, **named: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(UserError, match=r"training\.rendezvous: .* nowhere is not known .*Name or"):
        network.own_address("nowhere")


@pytest.mark.skipif(platform.system() != "Linux", reason="interfaces are looked up on Linux alone")
def test_an_address_has_its_interface() -> None:
    assert network.interface_of("127.0.0.1") == "lo"
    assert network.interface_of("192.0.2.1") == ""


def test_a_host_is_waited_for(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    assert network.wait_until_reached("127.0.0.1", port, 0) == "127.0.0.1"
    listener.close()
    told = rf"training\.rendezvous=127\.0\.0\.1:{port} has not answered for 0\.1 seconds .*refused"
    with pytest.raises(UserError, match=told):
        network.wait_until_reached("127.0.0.1", port, 0.1)


def test_a_lost_host_is_given_up(listener: socket.socket) -> None:
    port, messages, is_given_up = listener.getsockname()[1], list[str](), threading.Event()

    def give_up(message: str) -> None:
        messages.append(message)
        is_given_up.set()

    with network.watched("127.0.0.1", port, 0.1, give_up):
        assert not is_given_up.wait(0.3)
        listener.close()
        assert is_given_up.wait(5)
    assert messages[0].startswith(f"training.rendezvous=127.0.0.1:{port} has been out of reach for")
