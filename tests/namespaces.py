"""New processes with their own mounts or network, which end with them.

Root can always create them, other users where the machine allows user namespaces.
"""

import ctypes
import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET of unshare(2)
_libc = ctypes.CDLL(None, use_errno=True)

_CALL = """
import importlib, sys
module, name, *arguments = sys.argv[1:]
getattr(importlib.import_module(module), name)(*arguments)
"""


@functools.cache
def unshare(kind: str, probe: str) -> list[str]:
    """The command that gives a process its own mounts (`m`) or network (`n`).

    Empty if the machine does not allow it, or does not allow the command `probe` there.
    """
    for flags in (f"-{kind}", f"-Ur{kind}"):
        command = ["unshare", flags]
        try:
            if not subprocess.run(
                [*command, *probe.split()], capture_output=True, check=False
            ).returncode:
                return command
        except OSError:
            break
    return []


def in_a_process(
    function: Callable[..., None], *arguments: str | Path, within: Sequence[str] = ()
) -> str:
    """Call a function of a test module in a new process, which must succeed; return its stderr.

    `within` is the result of `unshare`.
    """
    ended = subprocess.run(
        [
            *within,
            *(sys.executable, "-c", _CALL, function.__module__, function.__name__),
            *map(str, arguments),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def system(name: str, *arguments: int) -> None:
    """Call the system where Python 3.11 has no function for it."""
    if getattr(_libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


class Host:
    """A network namespace that acts as a host; it ends with the process that created it."""

    def __init__(self, number: int) -> None:
        self.address = f"10.77.0.{number}"
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        system("unshare", _NEW_NETWORK)
        self._network = os.open("/proc/self/ns/net", os.O_RDONLY)
        system("setns", home, _NEW_NETWORK)
        os.close(home)
        self._ip("link set lo up")

    def cable_to(self, other: "Host") -> None:
        """Connect this host to another one of the same process."""
        path = f"/proc/{os.getpid()}/fd/{other._network}"
        self._ip(f"link add cable type veth peer name cable netns {path}")
        for host in (self, other):
            host._ip(f"address add {host.address}/24 dev cable")
            host._ip("link set cable up")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Processes that are started in the block run on this host."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        system("setns", self._network, _NEW_NETWORK)
        try:
            yield
        finally:
            system("setns", home, _NEW_NETWORK)
            os.close(home)

    def _ip(self, arguments: str) -> None:
        with self.inside():
            subprocess.run(["ip", *arguments.split()], check=True)
