"""Connection to a Ray cluster."""

import logging
import os
import re
import socket
from pathlib import Path

from nmt.base.errors import UserError, first_line
from nmt.base.system import require_package

_SECONDS_TO_CONNECT = 10


def connect_to_ray(address: str, key: str) -> None:
    """Connect this process to a Ray cluster, whose workers then import this source tree.

    An empty `address` means the cluster of RAY_ADDRESS or, without it, the one on this machine,
    which is started if none runs. `key` is the option that needs Ray, for error messages.

    Raises:
        UserError: Ray is not installed, or there is no cluster at the address.
    """
    require_package(key, "ray", "ray")
    import ray  # noqa: PLC0415 - takes a second, and few commands need it

    where = address or os.environ.get("RAY_ADDRESS", "")
    root = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        if re.fullmatch(r"[^/]+:\d+", where):  # Ray itself would try for minutes
            host, port = where.rsplit(":", 1)
            socket.create_connection((host, int(port)), _SECONDS_TO_CONNECT).close()
        ray.init(
            address or None,
            runtime_env={"env_vars": {"PYTHONPATH": paths}},
            log_to_driver=False,
            logging_level=logging.ERROR,
            ignore_reinit_error=True,
        )
    except Exception as error:  # Ray raises many types
        raise UserError(
            f"{key}: cannot connect to the Ray cluster {where or 'on this machine'}"
            f" ({type(error).__name__}: {first_line(error)})"
        ) from error
