"""Apply a function to many jobs in parallel processes, in order."""

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from nmt.base.errors import UserError

Job = TypeVar("Job")
Result = TypeVar("Result")


def map_in_processes(
    function: Callable[[Job], Result], jobs: Iterable[Job], num_processes: int
) -> Iterator[Result]:
    """Yield the result of each job, in order.

    Jobs are taken one by one, a few more than there are processes, so that not all of them are in
    memory. With one process, the function runs in this one.

    Raises:
        UserError: a process was killed; also any error of the function.
    """
    if num_processes == 1:
        yield from map(function, jobs)
        return
    # A forked process would inherit locks that threads of torch and rich hold.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(num_processes, mp_context=context, initializer=_exit_at_interrupt)
    futures: deque[Future[Result]] = deque()
    try:
        for job in jobs:
            futures.append(pool.submit(function, job))
            if len(futures) > 2 * num_processes:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
    except BrokenProcessPool:
        raise UserError(
            "a process that prepared the corpus was killed, probably because it ran out of memory;"
            f" prepare on fewer than {num_processes} cores, for example with"
            " `taskset -c 0,1 make prepare`"
        ) from None
    finally:
        # After an error or Ctrl-C, cancel waiting jobs, and wait for running ones: their folder
        # is about to be removed.
        pool.shutdown(cancel_futures=True)


def _exit_at_interrupt() -> None:
    # Ctrl-C reaches every process of the terminal; without this, each prints a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
