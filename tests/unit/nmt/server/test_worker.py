"""The thread of a model: batches, errors of single texts, a full queue, cancellation, the end."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nmt.base.errors import UserError
from nmt.trained_model import TrainedModel
from nmt.translation.request import Request, Translation
from nmt.translation.translator import Translator

pytest.importorskip("fastapi", reason="make install-serve")

from nmt.server.errors import ApiError
from nmt.server.worker import Options, Worker

SENTENCE = Options(is_sentence=True)


class Recorder(Translator):
    """Records the texts of each batch; waits until it may go on, and fails at a text."""

    def __init__(self, model: TrainedModel) -> None:
        super().__init__(model)
        self.batches: list[list[str]] = []
        self.may_go_on = threading.Event()

    def translate(self, requests: Sequence[Any], progress: Any = None) -> list[list[Translation]]:
        texts = [request.source for request in requests]
        self.batches.append(texts)
        assert self.may_go_on.wait(30)
        if "bad" in texts:
            raise UserError("a bad text")
        return [[Translation(text.upper(), 0.0)] for text in texts]


@pytest.fixture
def recorder(trained_model: TrainedModel) -> Recorder:
    return Recorder(trained_model)


@pytest.fixture
def worker(trained_model: TrainedModel, recorder: Recorder) -> Worker:
    return Worker(trained_model, Path(), lambda _: recorder, max_waiting=4)


async def started(worker: Worker, recorder: Recorder, *texts: str) -> list[asyncio.Task[Any]]:
    """Ask for the first text; when it is being translated, ask for the others."""
    tasks = []
    for number, text in enumerate(texts):
        tasks.append(asyncio.create_task(worker.translate([Request(text)], SENTENCE)))
        while not recorder.batches or worker.num_waiting() < number:
            await asyncio.sleep(0.001)
    return tasks


def test_what_waits_is_the_next_batch(worker: Worker, recorder: Recorder) -> None:
    async def main() -> None:
        tasks = await started(worker, recorder, "a", "b", "bad", "c")
        recorder.may_go_on.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(one if isinstance(one, UserError) else one[0][0].text) for one in found] == [
            *("A", "B", "a bad text", "C")
        ]

    asyncio.run(main())
    # The batch with the bad text is translated again, each text by itself.
    assert recorder.batches == [["a"], ["b", "bad", "c"], ["b"], ["bad"], ["c"]]
    worker.stop()


def test_a_full_queue_refuses_and_a_cancelled_request_is_not_begun(
    worker: Worker, recorder: Recorder
) -> None:
    async def main() -> None:
        tasks = await started(worker, recorder, "a", "b", "c", "d", "e")
        with pytest.raises(ApiError, match="4 requests wait") as raised:
            await worker.translate([Request("f")], SENTENCE)
        assert (raised.value.status_code, raised.value.retry_after) == (503, 1)
        tasks[1].cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(worker.translate([Request("f")], SENTENCE)))
        await asyncio.sleep(0)
        recorder.may_go_on.set()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())
    assert recorder.batches == [["a"], ["c", "d", "e", "f"]]
    worker.stop()


def test_a_long_request_leaves_room_for_others(trained_model: TrainedModel) -> None:
    recorder = Recorder(trained_model)
    config = recorder.config
    recorder.may_go_on.set()
    worker = Worker(trained_model, Path(), lambda _: recorder, max_waiting=1)
    count = config.batch_tokens // 4 // 2  # by an estimate, a word of four letters has two tokens

    async def main() -> None:
        progress: list[float] = []
        texts = [Request("kalo")] * (2 * count + 1)
        found = await worker.translate(texts, SENTENCE, progress.append)
        assert len(found) == len(texts)
        assert progress == [count / len(texts), 2 * count / len(texts), 1]

    asyncio.run(main())
    worker.stop()


def test_the_end_waits_for_what_was_accepted(worker: Worker, recorder: Recorder) -> None:
    async def main() -> None:
        tasks = await started(worker, recorder, "a", "b")
        ending = asyncio.create_task(asyncio.to_thread(worker.stop))
        await asyncio.sleep(0.01)
        assert not ending.done()
        recorder.may_go_on.set()
        found = await asyncio.gather(*tasks)
        assert [one[0][0].text for one in found] == ["A", "B"]
        await ending

    asyncio.run(main())
