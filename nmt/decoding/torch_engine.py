"""The engine of this house: search over the Transformer itself."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue

import torch

from nmt.config import DecodingConfig, SearchMethod
from nmt.data.batch import pad_ids
from nmt.decoding.engine import banned_ids, longest_translation, most_together
from nmt.decoding.ensemble import Ensemble, EnsembleState, check_same_vocabulary
from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.search import Search
from nmt.decoding.task import Demand, TargetIds, Task
from nmt.decoding.weights import DecodingWeights
from nmt.trained_model import TrainedModel

Sources = Sequence[Sequence[int]]


class TorchEngine:
    """Searches with a trained model on the device where it is.

    Args:
        model: the model; it is used as it is, also while it is in training.
        config: the search.
        others: further models of the same vocabularies; probabilities are averaged.

    Raises:
        UserError: another vocabulary, or a precision that the device has not.
    """

    def __init__(
        self, model: TrainedModel, config: DecodingConfig, others: Sequence[TrainedModel] = ()
    ) -> None:
        check_same_vocabulary(model, others)
        self._model = model
        self._config = config
        self._weights = [
            DecodingWeights(member.transformer, config.precision, config.compile)
            for member in (model, *others)
        ]
        members = [member.config for member in (model, *others)]
        self.longest_target = min(member.model.max_length for member in members)
        longest = min(member.max_source_length for member in members)
        self.longest_source = min(longest, self.longest_target)
        target = model.target_tokenizer
        self._ids = TargetIds(target.bos_id, target.eos_id, banned_ids(target))

    def objection(self, demand: Demand) -> str:
        """Why a demand cannot be met; see `Engine`."""
        config = self._config
        is_plain = config.method is SearchMethod.beam and config.diversity_groups == 1
        if demand.required and not is_plain:
            return (
                "a phrase is required, which only plain beam search can see to; take"
                " decoding.method=beam decoding.diversity_groups=1"
            )
        return ""

    def search(
        self,
        sources: Sources,
        progress: Callable[[int], None] | None = None,
        demands: Sequence[Demand] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search any number of sources; order, neighbours and batch size do not matter.

        Args:
            sources: ids of each source without EOS.
            progress: called with the number of sources just done.
            demands: what each translation has to have; None asks nothing.

        Returns:
            For each source up to num_best hypotheses, best first; at least one.
        """
        found: list[list[Hypothesis]] = [[] for _ in sources]
        most = most_workers(self._config, self._model.device)
        num_workers = min(most, -(-len(sources) // self._config.batch_size))
        waiting = _Waiting(sources, self._config)
        tasks = [
            self._task(ids, demand)
            for ids, demand in zip(sources, demands or [Demand()] * len(sources), strict=True)
        ]
        ensemble = Ensemble([weights.now() for weights in self._weights])
        work = partial(self._work, ensemble, sources, tasks)
        for places, hypotheses in _on_workers(work, waiting, num_workers):
            for place, best in zip(places, hypotheses, strict=True):
                found[place] = best
            if progress:
                progress(len(places))
        return found

    def _work(
        self, model: Ensemble, sources: Sources, tasks: Sequence[Task], waiting: "_Waiting"
    ) -> Iterator["_Results"]:
        """Decode what is waiting, batch after batch, until nothing is."""
        searching: Search[EnsembleState] = Search(
            model.step, self._config, self._ids, self._model.device
        )
        while True:
            with torch.inference_mode():
                if waiting.is_closed:
                    return
                places = waiting.take(searching.keys)
                if places:
                    state = self._start(model, [sources[place] for place in places])
                    searching.add(state, [(place, tasks[place]) for place in places])
                if not searching.num_live:
                    return
                done = searching.advance()
            if done:
                yield [place for place, _ in done], [hypotheses for _, hypotheses in done]

    def _start(self, model: Ensemble, sources: Sources) -> EnsembleState:
        tokenizer, device = self._model.source_tokenizer, self._model.device
        source, source_mask = pad_ids(sources, tokenizer.pad_id, after=tokenizer.eos_id)
        source, source_mask = source.to(device), source_mask.to(device)
        return model.start(source, source_mask, self._config.coverage_penalty > 0)

    def _task(self, source: Sequence[int], demand: Demand) -> Task:
        """What is asked of a source given without EOS."""
        config, length = self._config, len(source) + 1
        most = longest_translation(config, self.longest_target, length)
        # What is demanded is the user's own wish: there is room for it and one token more.
        most = min(max(most, demand.length + 1), self.longest_target)
        least = max(config.min_length, int(config.min_length_ratio * length))
        return Task(most, min(least, most), demand, source)


def most_workers(config: DecodingConfig, device: torch.device) -> int:
    """Batches that are decoded at once, where there are so many."""
    return 1 if device.type != "cpu" else config.num_workers or torch.get_num_threads()


_Results = tuple[list[int], list[list[Hypothesis]]]
"""Places among the sources, and what was found for each."""


def _on_workers(
    work: Callable[["_Waiting"], Iterator[_Results]], waiting: "_Waiting", num_workers: int
) -> Iterator[_Results]:
    """Run workers, a thread each; what they find comes from this thread alone.

    Small matrices keep one core busy but not two: a batch on each goes much faster than one batch
    after the other on both.
    """
    if num_workers <= 1:
        yield from work(waiting)
        return
    num_threads = max(1, torch.get_num_threads() // num_workers)
    arrived: SimpleQueue[_Results | None] = SimpleQueue()

    def work_in_thread() -> None:
        torch.set_num_threads(num_threads)  # of this thread alone
        try:
            for results in work(waiting):
                arrived.put(results)
        except BaseException:
            waiting.close()
            raise
        finally:
            arrived.put(None)

    with ThreadPoolExecutor(num_workers) as pool:
        num_working = num_workers
        try:
            # Settings of this thread, such as the compiler's, are those of the workers.
            workers = [pool.submit(copy_context().run, work_in_thread) for _ in range(num_workers)]
            while num_working:
                results = arrived.get()
                if results is None:
                    num_working -= 1
                else:
                    yield results
        finally:
            waiting.close()
        for worker in workers:
            worker.result()


class _Waiting:
    """The sources that no worker has taken yet, longest first.

    Sentences of like length share a batch; the longest come first, so that a text too large for the
    memory fails at once and the time left is over-estimated rather than under-.

    Attributes:
        is_closed: whether nobody waits for results any more.
    """

    def __init__(self, sources: Sources, config: DecodingConfig) -> None:
        self._config = config
        self._lengths = [len(ids) + 1 for ids in sources]
        self._places = deque(sorted(range(len(sources)), key=lambda place: -self._lengths[place]))
        self._lock = threading.Lock()
        self.is_closed = False

    def take(self, live: Sequence[int]) -> list[int]:
        """The places of those that enter beside the `live` ones; none where these go first."""
        config, num_live = self._config, len(live)
        with self._lock:
            if not self._places:
                return []
            longest = max(self._lengths[place] for place in (*live, self._places[0]))
            size = most_together(config, longest)
            if num_live and (not config.refill or num_live > size * (1 - config.refill)):
                return []
            count = max(0, min(size - num_live, len(self._places)))
            return [self._places.popleft() for _ in range(count)]

    def close(self) -> None:
        """Let nobody else in, and leave what is under way."""
        self.is_closed = True
