"""The thread that owns a model: it translates whatever waits when it is free.

There is no timer: a request that finds the thread idle is translated at once, and under load the
requests that arrive during a batch form the next one. The results of a request do not depend on the
requests beside it.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from nmt.base.errors import UserError
from nmt.base.progress import Advance
from nmt.server.errors import ApiError
from nmt.trained_model import TrainedModel
from nmt.translation.alignment import Aligner
from nmt.translation.choices import next_beginnings
from nmt.translation.confidence import confidence_of
from nmt.translation.glossary import Glossary, TermCounts, glossary_of
from nmt.translation.pipeline import Pipeline
from nmt.translation.protection import Protection
from nmt.translation.request import Request, Translation
from nmt.translation.term_files import parse_terms
from nmt.translation.translator import Translator

_SHARE = 4
"""A request has at most 1 / _SHARE of a batch, so that a document leaves room for others."""
_CHARACTERS_PER_TOKEN = 4
_MAX_PIPELINES = 64
"""Largest number of pipelines that are kept, one for each combination of options."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Options:
    """What is asked of translations.

    Attributes:
        glossary: terms, as the text of a TSV file; they come before those of the server.
        is_protected: whether protected spans are restored.
        has_alternatives: whether all translations of the beam are wanted, not only the best.
        has_details: whether words are aligned and have a confidence.
        is_sentence: whether each text is one sentence, instead of a document.
        has_prefixes: whether translations begin with given words.
    """

    glossary: str = ""
    is_protected: bool = True
    has_alternatives: bool = False
    has_details: bool = False
    is_sentence: bool = False
    has_prefixes: bool = False


@dataclass
class _Job:
    """Texts to translate, or a function to call, by the thread of the model."""

    work: Options | Callable[[], Any]
    requests: list[Request] = field(default_factory=list)
    tokens: int = 0
    future: Future[Any] = field(default_factory=Future)


class Worker:
    """Translates with one model in a thread of its own.

    Args:
        model: the model.
        folder: its folder, which has word forms for glossaries and the calibration of confidence.
        make_translator: makes a translator that returns this number of translations.
        max_waiting: the largest number of requests that wait.

    Attributes:
        observe: called with the number of texts and the seconds of each batch.
    """

    def __init__(
        self,
        model: TrainedModel,
        folder: Path,
        make_translator: Callable[[int], Translator],
        max_waiting: int,
    ) -> None:
        self.model = model
        self._no_terms = glossary_of((), [model], folder)
        self._confidence = confidence_of(folder, model)
        self._translator = cache(make_translator)
        # A request's glossary is used only by its own pipeline, so it does not affect others.
        self._pipeline = lru_cache(_MAX_PIPELINES)(self._make_pipeline)
        self._max_waiting = max_waiting
        self.observe: Callable[[int, float], None] = lambda _texts, _seconds: None
        self._config = self._translator(1).config
        has_attention = model.network.num_attention_layers > 0
        self._aligner = Aligner(model) if has_attention else None
        self._jobs: deque[_Job] = deque()
        self._condition = threading.Condition()
        self._is_stopping = False
        self._seconds = 1.0  # of the last batch
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    def num_waiting(self) -> int:
        """Return the number of requests that wait."""
        return len(self._jobs)

    @property
    def blank(self) -> str:
        """What separates sentences of the target language."""
        return self._translator(1).blank

    def stop(self) -> None:
        """Finish what was accepted, then end the thread."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify()
        self._thread.join()

    async def translate(
        self,
        requests: Sequence[Request],
        options: Options = Options(),
        progress: Advance | None = None,
    ) -> list[list[Translation]]:
        """Translate texts in the order of the queue, long requests in several turns.

        Args:
            requests: the texts.
            options: what is asked of the translations.
            progress: called with the part that is completed, from 0 to 1.

        Raises:
            ApiError: too many requests wait.
        """
        found: list[list[Translation]] = []
        for number, job in enumerate(self._divided(requests, options)):
            found += await self._wait(job, is_bounded=number == 0)
            if progress:
                progress(len(found) / len(requests))
        return found

    async def call(self, function: Callable[[], Result]) -> Result:
        """Call a function that computes with the model, in its thread."""
        result: Result = await self._wait(_Job(function))
        return result

    def choices(self, source: str, prefix: str, count: int, options: Options) -> list[Translation]:
        """Translate a sentence once for each likely next word after a prefix; run it by `call`.

        Returns:
            Different translations, best first.
        """
        beginnings = next_beginnings(self.model, source, prefix, count)
        requests = [Request(source, prefix=one) for one in beginnings]
        found = {best.text: best for best, *_ in self._pipeline(options).translate(requests)}
        return sorted(found.values(), key=lambda one: -one.score)

    def _divided(self, requests: Sequence[Request], options: Options) -> list[_Job]:
        limit = self._config.batch_tokens // _SHARE
        jobs: list[_Job] = []
        for request in requests:
            # Estimated: tokenizing here would block the thread that serves all clients.
            tokens = len(request.source) // _CHARACTERS_PER_TOKEN + 1
            if not jobs or jobs[-1].tokens + tokens > limit:
                jobs.append(_Job(options))
            jobs[-1].requests.append(request)
            jobs[-1].tokens += tokens
        return jobs

    async def _wait(self, job: _Job, is_bounded: bool = True) -> Any:
        """Add a job to the queue and wait for its result; a cancelled job is not begun."""
        with self._condition:
            if len(self._jobs) >= self._max_waiting:  # of which some clients may have left
                self._jobs = deque(one for one in self._jobs if not one.future.cancelled())
            if is_bounded and len(self._jobs) >= self._max_waiting:
                message = f"{len(self._jobs)} requests wait for this model; try again later"
                raise ApiError(503, message, math.ceil(self._seconds))
            self._jobs.append(job)
            self._condition.notify()
        return await asyncio.wrap_future(job.future)

    def _run(self) -> None:
        while jobs := self._take():
            by_work: dict[Any, list[_Job]] = {}
            for job in jobs:
                by_work.setdefault(job.work, []).append(job)
            for work, some in by_work.items():
                self._do(work, some)

    def _take(self) -> list[_Job]:
        """Wait for jobs, and take as many as fit in a batch; none at the end."""
        with self._condition:
            jobs: list[_Job] = []
            while not jobs:
                self._condition.wait_for(lambda: self._jobs or self._is_stopping)
                if not self._jobs:
                    break
                tokens = 0
                while self._jobs and (
                    not jobs or tokens + self._jobs[0].tokens <= self._config.batch_tokens
                ):
                    job = self._jobs.popleft()
                    if job.future.set_running_or_notify_cancel():
                        jobs.append(job)
                        tokens += job.tokens
        return jobs

    def _do(self, work: Options | Callable[[], Any], jobs: Sequence[_Job]) -> None:
        started = time.monotonic()
        try:
            if isinstance(work, Options):
                requests = [request for job in jobs for request in job.requests]
                found = iter(self._pipeline(work).translate(requests))
                results: list[Any] = [[next(found) for _ in job.requests] for job in jobs]
            else:
                results = [work() for _ in jobs]
        except Exception as error:
            # A text that cannot be translated must not fail those of others.
            for job in jobs:
                if len(jobs) > 1:
                    self._do(work, [job])
                else:
                    job.future.set_exception(error)
            return
        self._seconds = time.monotonic() - started
        self.observe(sum(len(job.requests) for job in jobs), self._seconds)
        for job, result in zip(jobs, results, strict=True):
            job.future.set_result(result)

    def _make_pipeline(self, options: Options) -> Pipeline:
        num_best = self._config.beam_size if options.has_alternatives else 1
        if options.glossary or options.has_prefixes:
            translator = self._constrained(num_best)
        else:
            translator = self._translator(num_best)
        if options.has_details:
            translator = translator.scoring()
        if options.glossary:
            translator = translator.with_glossary(self._glossary(options.glossary))
        return Pipeline(
            translator,
            "" if options.is_sentence else self.model.config.source_language,
            Protection(self._aligner) if self._aligner and options.is_protected else None,
            aligner=self._aligner if options.has_details else None,
            confidence=self._confidence if options.has_details else None,
        )

    def _constrained(self, num_best: int) -> Translator:
        """Return a translator that supports prefixes and terms; not all engines do."""
        translator = self._translator(num_best)
        try:
            translator.check(Request("", prefix="a"))
        except UserError:
            return Translator(self.model, translator.config)
        return translator

    def _glossary(self, text: str) -> Glossary:
        """Return the terms of a request, and those of the server that it does not replace."""
        general = self._translator(1).glossary or self._no_terms
        own = parse_terms(text, "glossary", *self.model.config.languages, may_lack_targets=True)
        replaced = {term.source for term in own}
        kept = [term for term in general.terms if term.source not in replaced]
        return replace(general, terms=[*kept, *own], counts=TermCounts())
