"""A GPU of its own for each of several runs on this machine."""

import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import torch

from nmt.base.errors import BusyError, UserError
from nmt.base.locks import exclusive
from nmt.config import Config

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_TRIES = 1.0  # to lock a GPU


@contextmanager
def own_gpu(config: Config) -> Iterator[None]:
    """Reserve a GPU for the block if several runs share this machine; wait until one is free.

    All commands of this user see the locks, so several sweeps can share the GPUs.

    Raises:
        UserError: more parallel runs than GPUs.
    """
    if config.run.parallel_runs == 1 or not torch.cuda.is_available():
        yield
        return
    num_gpus = torch.cuda.device_count()
    if config.run.parallel_runs > num_gpus:
        raise UserError(
            f"run.parallel_runs={config.run.parallel_runs} is more than the {num_gpus} GPUs of this"
            f" machine; set run.parallel_runs={num_gpus} or less"
        )
    with ExitStack() as stack:
        index = _lock_gpu(num_gpus, stack)
        os.environ["LOCAL_RANK"] = str(index)  # the device of a single process
        stack.callback(os.environ.pop, "LOCAL_RANK", None)
        yield


def _lock_gpu(num_gpus: int, stack: ExitStack) -> int:
    """Lock a GPU until the stack is closed, and return its index."""
    is_waiting = False
    while True:
        for index in range(num_gpus):
            # With another CUDA_VISIBLE_DEVICES, the same index is another GPU.
            name = f"nmt-{os.getuid()}-{torch.cuda.get_device_properties(index).uuid}.lock"
            with suppress(BusyError):
                stack.enter_context(exclusive(Path(tempfile.gettempdir(), name), BusyError()))
                return index
        if not is_waiting:
            logger.info("all GPUs are used by other runs; waiting for one")
        is_waiting = True
        time.sleep(_SECONDS_BETWEEN_TRIES)
