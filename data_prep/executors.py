"""Apply a function to many jobs, in order: in processes, as SLURM jobs, or on a Ray cluster.

A job may be run again: the file that it writes, if any, is complete or missing.
"""

import multiprocessing
import os
import re
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from nmt.base.errors import UserError, first_line, one_line
from nmt.base.ray_cluster import connect_to_ray
from nmt.base.system import num_cores, signal_at_death_of_parent
from nmt.config import ExecutorName, PrepareConfig

Job = TypeVar("Job")
Result = TypeVar("Result")


_ARRAY_JOBS = 64
_RETRIES = 10


def map_jobs(
    function: Callable[[Job], Result],
    jobs: Iterable[Job],
    config: PrepareConfig,
    folder: Path,
    num_jobs: int | None = None,
) -> Iterator[Result]:
    """Yield the result of each job, in order, from the executor that is configured.

    Args:
        function: is defined at module level; its result depends only on its job.
        jobs: iterated lazily: only twice as many as run at the same time, or those of one SLURM
            array, are in memory.
        config: the executor.
        folder: for files of SLURM jobs.
        num_jobs: number of jobs, if known; no more local processes than this are started.

    Raises:
        UserError: a process was killed, or the cluster cannot be used or refuses the jobs; also any
            error of the function.
    """
    match config.executor:
        case ExecutorName.local:
            processes = config.num_processes or num_cores()
            return map_in_processes(function, jobs, min(processes, num_jobs or processes))
        case ExecutorName.slurm:
            import submitit  # noqa: PLC0415 - takes half a second, and few corpora need it

            try:
                executor = submitit.AutoExecutor(folder / "slurm", cluster="slurm")
                executor.update_parameters(**config.slurm)
            except (RuntimeError, NameError, AssertionError) as error:
                raise UserError(f"prepare.executor=slurm: {first_line(error)}") from None
            return map_in_arrays(function, jobs, executor, config.num_processes or _ARRAY_JOBS)
        case ExecutorName.ray:
            return map_on_ray(function, jobs, config.ray_address)


def map_in_arrays(
    function: Callable[[Job], Result],
    jobs: Iterable[Job],
    executor: Any,
    array_jobs: int,
) -> Iterator[Result]:
    """Yield the result of each job, in order, from arrays of at most `array_jobs` jobs.

    Args:
        function: as in `map_jobs`.
        jobs: the jobs of an array are in memory together.
        executor: a submitit executor.
        array_jobs: largest number of jobs of an array. The jobs may run at the same time.
    """
    iterator = iter(jobs)
    while batch := list(islice(iterator, array_jobs)):
        try:
            submitted = executor.map_array(function, batch)
        except RuntimeError as error:  # of sbatch
            raise UserError(f"SLURM refused the jobs: {first_line(error)}") from None
        try:
            for job in submitted:
                yield _result_of(job)
        finally:
            for job in submitted:
                if not job.done():
                    job.cancel(check=False)


def _result_of(job: Any) -> Any:
    """Return the result of a submitit job.

    Raises:
        UserError: the function raised one, or the job failed in another way.
    """
    error = job.exception()
    if error is None:
        return job.result()
    # `error` contains the job's traceback as text; its last line that names an error is the cause.
    lines = re.findall(r"^(?:[\w.]+\.)?\w*(?:Error|Interrupt)\b.*$", str(error), re.MULTILINE)
    text = one_line(lines[-1] if lines else error)
    raise UserError(f"job {job.job_id} failed: {text}; its log is {job.paths.stderr}")


def map_on_ray(
    function: Callable[[Job], Result], jobs: Iterable[Job], address: str
) -> Iterator[Result]:
    """Yield the result of each job, in order, from tasks on a Ray cluster.

    If a host fails, Ray runs its tasks again on another one.
    """
    connect_to_ray(address, "prepare.executor=ray")
    import ray  # noqa: PLC0415 - takes a second, and few corpora need it

    task = ray.remote(max_retries=_RETRIES)(function)
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    window = 2 * max(1, int(resources.get("CPU", 1)))
    pending: deque[Any] = deque()
    try:
        for job in jobs:
            pending.append(task.remote(job))
            if len(pending) > window:
                yield ray.get(pending.popleft())
        while pending:
            yield ray.get(pending.popleft())
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, UserError):  # Ray's own message contains the traceback
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise UserError(f"a task of the Ray cluster failed: {first_line(error)}") from None
    finally:
        for each in pending:
            ray.cancel(each, force=True)
        ray.shutdown()


def map_in_processes(
    function: Callable[[Job], Result], jobs: Iterable[Job], num_processes: int
) -> Iterator[Result]:
    """Yield the result of each job, in order.

    Jobs are iterated lazily: twice as many as there are processes are in memory. If
    `num_processes` is 1, no process is started, and the function runs in the calling process.

    Raises:
        UserError: a process was killed; also any error of the function.
    """
    if num_processes == 1:
        yield from map(function, jobs)
        return
    # A forked process would inherit locks that threads of torch and rich hold.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        num_processes, mp_context=context, initializer=_set_up, initargs=(os.getpid(),)
    )
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
            f" set prepare.num_processes to less than {num_processes}"
        ) from None
    finally:
        # After an error or Ctrl-C, cancel waiting jobs, and wait for running ones: their folder
        # is about to be removed.
        pool.shutdown(cancel_futures=True)


def _set_up(parent: int) -> None:
    # Ctrl-C reaches every process of the terminal; without this, each prints a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Processes would wait forever for the jobs of a command that was killed.
    signal_at_death_of_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
