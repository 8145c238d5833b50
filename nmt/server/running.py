"""Running the application until a signal."""

import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from nmt.base.signals import REQUESTS, handlers_restored, is_ignored

_SECONDS_TO_FINISH = 60


class _Server(uvicorn.Server):
    """A server that ends normally after a signal, when it has answered what it accepted."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Handle the requests to exit; the original raises the signal again at the end."""
        with handlers_restored():
            for number in REQUESTS:
                if not is_ignored(number):
                    signal.signal(number, self.handle_exit)
            yield


def serve(app: FastAPI, listener: socket.socket) -> None:
    """Serve until a signal asks to exit; a second SIGINT does not wait for answers."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # it would log texts, which are in the query of GET requests
        server_header=False,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
        ws="none",
    )
    _Server(config).run(sockets=[listener])
