"""`batching.tokens_per_micro_batch=auto`: the largest micro-batches that memory holds.

The heaviest that the corpus can bring is tried in a process of its own, whose peak is measured; it
leaves nothing behind.
"""

import logging
import multiprocessing as mp
import resource
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

import torch

from nmt.config import Config
from nmt.data.corpus import PreparedCorpus
from nmt.errors import UserError
from nmt.model.memory import Arithmetic, Workload
from nmt.training import distributed
from nmt.training.rehearsal import Rehearsal
from nmt.training.room import mapped_bytes, peak_bytes, program_bytes
from nmt.training.updater import OutOfMemory, is_out_of_memory
from nmt.training.workload import (
    Sizes,
    Surroundings,
    corpus_sizes,
    largest_useful,
    predicted,
    shared_evenly,
    surroundings,
    workload,
)

logger = logging.getLogger(__name__)

_MOST_PROBES = 6
# Where the next size is less than this much larger, another probe is not worth its time.
_WORTHWHILE = 1.1


def resolve_auto(config: Config, corpus: PreparedCorpus) -> Config:
    """The same experiment with a number in the place of `auto`.

    Raises:
        UserError: not even one of the longest sentences fits.
    """
    sizes = corpus_sizes(config, corpus)
    smallest = config.batching.longest
    largest = max(smallest, largest_useful(config, sizes))

    def measure(choose: Callable[[Surroundings], int]) -> "Probed":
        return _probe(config, sizes, choose)

    def predict(tokens: int, where: Surroundings) -> int:
        return predicted(config, sizes, tokens, where).total

    fitting = largest_that_fits(smallest, largest, predict, measure).tokens
    tokens = shared_evenly(config, sizes, fitting)
    if tokens < fitting:
        logger.info(
            "batching.tokens_per_micro_batch=auto: %s padded tokens, so that %d processes"
            " have about as much to do",
            f"{tokens:,}",
            distributed.num_processes(config.training)[0],
        )
    batching = replace(config.batching, tokens_per_micro_batch=tokens)
    return replace(config, batching=batching)


@dataclass(frozen=True)
class Probed:
    """What came of one probe.

    Attributes:
        where: it found itself.
        tokens: padded tokens of its micro-batches.
        peak: bytes of the process; None where memory ran out.
    """

    where: Surroundings
    tokens: int
    peak: int | None

    @property
    def fits(self) -> bool:
        """Whether it stayed within its room."""
        return self.peak is not None and self.peak <= self.where.room


def largest_that_fits(
    smallest: int,
    largest: int,
    predict: Callable[[int, Surroundings], int],
    measure: Callable[[Callable[[Surroundings], int]], Probed],
) -> Probed:
    """The largest size that was measured to fit; predictions say what to measure next.

    Args:
        smallest: padded tokens of one longest sentence.
        largest: padded tokens that no micro-batch exceeds.
        predict: bytes for a size.
        measure: asks for a size, given its surroundings, and measures it.

    Raises:
        UserError: not even the smallest fits.
    """
    best: Probed | None = None
    ceiling, correction, is_last = largest, 1.0, False

    def next_size(where: Surroundings) -> int:
        if is_last and best is None:
            return smallest  # before it is said that not even that fits
        low, high = best.tokens if best else smallest, ceiling
        # The largest whose corrected prediction fits; the smallest is tried in any case.
        while low < high:
            middle = (low + high + 1) // 2
            if correction * predict(middle, where) <= where.room:
                low = middle
            else:
                high = middle - 1
        return low

    for number in range(1, _MOST_PROBES + 1):
        is_last = number == _MOST_PROBES
        probed = measure(next_size)
        told = predict(probed.tokens, probed.where)
        _say(probed, told)
        if probed.peak is None:
            ceiling = 3 * probed.tokens // 4  # nothing was measured, so this is a guess
        else:
            correction = probed.peak / told
        if probed.fits:
            best = probed
        elif probed.tokens <= smallest:
            raise _too_small(probed)
        else:
            ceiling = min(ceiling, probed.tokens - 1)
        if best is not None and next_size(probed.where) < _WORTHWHILE * best.tokens:
            return best
    assert best is not None, "the last one tries the smallest"
    return best


def _too_small(probed: Probed) -> UserError:
    return UserError(
        "batching.tokens_per_micro_batch=auto: not even one sentence of the longest that"
        f" batching.max_source_length and batching.max_target_length admit fits in the"
        f" {_size(probed.where.room)} of memory that there are for a process; lower these two,"
        " decoding.batch_size or decoding.num_workers, or train a smaller model"
    )


def _say(probed: Probed, told: int) -> None:
    measured = "memory ran out" if probed.peak is None else f"measured {_size(probed.peak)}"
    logger.info(
        "batching.tokens_per_micro_batch=auto: %s padded tokens: predicted %s, %s, of %s"
        " that a process may take%s",
        f"{probed.tokens:,}",
        _size(told),
        measured,
        _size(probed.where.room),
        "" if probed.fits else ": too much",
    )


def _size(number: int) -> str:
    return f"{number / 1e9:.2f} GB"


def _probe(config: Config, sizes: Sizes, choose: Callable[[Surroundings], int]) -> Probed:
    """Ask a fresh process for its surroundings, choose a size, and let it try that.

    Raises:
        UserError: it was killed before it could tell them.
    """
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(
        target=_try, args=(there, config, sizes.vocabulary_sizes), daemon=True
    )
    process.start()
    there.close()  # so that its end is seen here
    where, tokens, peak = None, 0, None
    try:
        where = here.recv()
        tokens = choose(where)
        here.send(workload(config, sizes, tokens))
        peak = here.recv()
    except (EOFError, OSError):  # its end of the pipe is closed
        process.join()
        if process.exitcode is not None and process.exitcode > 0:
            raise RuntimeError(f"the probe ended with {process.exitcode}") from None
    finally:
        process.terminate()
        process.join()
    if where is None:
        raise UserError(
            "batching.tokens_per_micro_batch=auto: the process that measures was killed"
            f" before it had begun (exit status {process.exitcode}; SIGKILL often means that memory"
            " is out); end other programs, or give batching.tokens_per_micro_batch a number"
        )
    # Killed by the system after that: memory was out.
    return Probed(where, tokens, peak)


def _try(there: Connection, config: Config, vocabulary_sizes: tuple[int, int]) -> None:
    """What the fresh process does."""
    _, local_processes = distributed.num_processes(config.training)
    torch.set_num_threads(
        distributed.threads_per_process(config.training.num_threads, local_processes)
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    where = surroundings(config, device)
    there.send(where)
    heaviest: Workload = there.recv()
    if device.type == "cpu":
        _limit_to(where.room)
    try:
        there.send(_peak(config, vocabulary_sizes, heaviest, device, where.arithmetic))
    except (OutOfMemory, MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        there.send(None)


def _limit_to(room: int) -> None:
    """Let memory run out here before it does for the whole machine."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if not mapped_bytes():
        return
    # Not all that is mapped is taken, so this is a bound for gross errors alone.
    wanted = mapped_bytes() + 2 * max(0, room - program_bytes())
    limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def _peak(
    config: Config,
    vocabulary_sizes: tuple[int, int],
    heaviest: Workload,
    device: torch.device,
    arithmetic: Arithmetic,
) -> int:
    """Bytes at the peak of two updates of each shape, and of as much search as is made at once."""
    rehearsal = Rehearsal(config, vocabulary_sizes, device)
    weights = list(rehearsal.transformer.parameters())
    buckets = [torch.zeros_like(weight) for weight in weights] if arithmetic.is_shared else []
    for shape in heaviest.shapes:
        batch = rehearsal.made_up_batch(shape)
        for _ in range(2):
            rehearsal.gradient([batch, batch])
            rehearsal.step()
    rehearsal.search(heaviest.search[: arithmetic.num_workers])
    del buckets
    return torch.cuda.max_memory_reserved(device) if device.type == "cuda" else peak_bytes()
