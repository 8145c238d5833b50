"""The network between hosts: which address of ours the others reach, and whether one answers."""

import contextlib
import fcntl
import logging
import math
import platform
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

from nmt.errors import UserError

logger = logging.getLogger(__name__)

_LOOK_AGAIN = 1.0
"""Seconds between two looks at a host."""

_ANSWER_WITHIN = 2.0
"""Seconds that a host has for its answer."""

_GET_ADDRESS = 0x8915  # SIOCGIFADDR of netdevice(7)


def own_address(host: str) -> str:
    """The address of this machine that `host` names; empty when it names another machine.

    Raises:
        UserError: the name is not known here.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"training.rendezvous: the host {host} is not known here ({why})") from None
    for family, kind, _, _, place in found:
        # An address can be bound where it is at home, and nowhere else.
        with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
            probe.bind((place[0], 0))
            return str(place[0])
    return ""


def interface_of(address: str) -> str:
    """The name of the network interface that has this IPv4 address; empty where none is found."""
    if platform.system() != "Linux":
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no such address
                found = fcntl.ioctl(probe, _GET_ADDRESS, struct.pack("256s", name.encode()))
                if socket.inet_ntoa(found[20:24]) == address:
                    return name
    return ""


def reach(host: str, port: int) -> str:
    """Connect and leave again; returns the address that we have on this way.

    Raises:
        OSError: nobody answers.
    """
    with socket.create_connection((host, port), timeout=_ANSWER_WITHIN) as connection:
        return str(connection.getsockname()[0])


def wait_until_reached(host: str, port: int, seconds: float) -> str:
    """Wait for so long until `reach` succeeds; returns what it returns.

    Raises:
        UserError: it did not.
    """
    end = time.monotonic() + seconds
    is_told = False
    while True:
        try:
            return reach(host, port)
        except OSError as error:
            why = error.strerror or str(error)
        if time.monotonic() >= end:
            raise UserError(
                f"training.rendezvous={host}:{port} has not answered for {seconds:g} seconds"
                f" ({why}): give the same command on {host} too, and let its firewall pass the"
                " port"
            )
        if not is_told:
            logger.info("waiting for %s:%d, which does not answer yet (%s)", host, port, why)
            is_told = True
        time.sleep(_LOOK_AGAIN)


@contextlib.contextmanager
def watched(
    host: str, port: int, seconds: float, give_up: Callable[[str], object]
) -> Iterator[None]:
    """Call `give_up` with a message, from another thread, once a host was out of reach so long.

    For calls that wait for an answer out of a network that is gone: they do not come back.
    """
    is_over = threading.Event()

    def watch() -> None:
        lost_at = math.inf
        while not is_over.wait(_LOOK_AGAIN):
            try:
                reach(host, port)
                lost_at = math.inf
            except OSError as error:
                lost_at = min(lost_at, time.monotonic())
                if time.monotonic() - lost_at >= seconds:
                    give_up(
                        f"training.rendezvous={host}:{port} has been out of reach for"
                        f" {seconds:g} seconds ({error.strerror or error}); when it is back, the"
                        " same command continues"
                    )

    threading.Thread(target=watch, name="rendezvous", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
