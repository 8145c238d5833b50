import logging
import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nmt.config import Config, load_config
from nmt.data.corpus import PreparedCorpus
from nmt.errors import UserError
from nmt.model.memory import Arithmetic
from nmt.training import experiment
from nmt.training import probe as probe_module
from nmt.training.probe import Probed, largest_that_fits, resolve_auto
from nmt.training.workload import (
    Sizes,
    Surroundings,
    corpus_sizes,
    largest_useful,
    shared_evenly,
    workload,
)
from tests.support import tiny_config, with_batching

WHERE = Surroundings(Arithmetic(), program=100, room=1000)


def asked(tmp_path: Path) -> Config:
    return with_batching(tiny_config(tmp_path), tokens_per_micro_batch="auto")


def measuring(
    peak: Callable[[int], int | None], tried: list[int]
) -> Callable[[Callable[[Surroundings], int]], Probed]:
    def measure(choose: Callable[[Surroundings], int]) -> Probed:
        tried.append(choose(WHERE))
        return Probed(WHERE, tried[-1], peak(tried[-1]))

    return measure


def predict(tokens: int, where: Surroundings) -> int:
    return where.program + tokens


@pytest.mark.parametrize(
    ("peak", "chosen", "tried"),
    [
        (lambda tokens: 100 + tokens, 500, [500]),  # all that is useful fits
        (lambda tokens: 100 + 3 * tokens // 2, 500, [500]),
        (lambda tokens: 2 * (100 + tokens), 400, [500, 400]),
        # Where memory ran out there is no measure: less is tried until it fits.
        (lambda tokens: None if tokens > 300 else 100 + tokens, 281, [500, 375, 281]),
    ],
)
def test_the_largest_that_was_measured_to_fit(
    peak: Callable[[int], int | None], chosen: int, tried: list[int]
) -> None:
    found: list[int] = []
    probed = largest_that_fits(50, 500, predict, measuring(peak, found))
    assert probed.fits
    assert (probed.tokens, found) == (chosen, tried)


def test_a_size_that_is_better_than_predicted_grows() -> None:
    found: list[int] = []
    probed = largest_that_fits(50, 5000, predict, measuring(lambda n: (100 + n) // 2, found))
    assert found[0] == 900  # as much as was predicted to fit
    assert probed.tokens == found[1] == 1900
    assert probed.fits


def test_the_last_of_the_probes_is_the_smallest() -> None:
    found: list[int] = []

    def peak(tokens: int) -> int | None:
        return 900 if tokens == 2 else None

    probed = largest_that_fits(2, 800, predict, measuring(peak, found))
    assert found == [800, 600, 450, 337, 252, 2]
    assert (probed.tokens, probed.fits) == (2, True)


class Killed:
    """Stands for multiprocessing: its process is killed after it has sent so much."""

    Pipe = staticmethod(multiprocessing.Pipe)

    def __init__(self, sent: list[Any], exitcode: int = -9) -> None:
        self.sent, self.exitcode = sent, exitcode

    def Process(self, target: Any, args: tuple[Any, ...], daemon: bool) -> "Killed":  # noqa: N802
        self.there = args[0]
        return self

    def start(self) -> None:
        for value in self.sent:
            self.there.send(value)
        self.there.close()

    def terminate(self) -> None: ...

    def join(self) -> None: ...


@pytest.fixture
def sizes(digit_corpus: Path, tmp_path: Path) -> Sizes:
    return corpus_sizes(asked(tmp_path), PreparedCorpus(digit_corpus))


def probe(config: Config, sizes: Sizes, sent: list[Any], patch: Any, exitcode: int = -9) -> Probed:
    patch.setattr(probe_module.mp, "get_context", lambda _: Killed(sent, exitcode))
    return probe_module._probe(config, sizes, lambda _: 40)


def test_a_probe_that_is_killed_says_that_memory_ran_out(
    sizes: Sizes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert probe(asked(tmp_path), sizes, [WHERE], monkeypatch) == Probed(WHERE, 40, None)
    with pytest.raises(UserError, match=r"killed before it had begun \(exit status -9.* a number"):
        probe(asked(tmp_path), sizes, [], monkeypatch)
    with pytest.raises(RuntimeError, match="the probe ended with 1"):
        probe(asked(tmp_path), sizes, [WHERE], monkeypatch, exitcode=1)


def test_what_does_not_fit_one_sentence_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"not even one .*batching\.max_source_length.*0\.00 GB"):
        largest_that_fits(50, 500, predict, measuring(lambda _: None, []))


def test_the_workload_is_the_heaviest_of_the_plan_and_the_longest(
    digit_corpus: Path, tmp_path: Path
) -> None:
    config = asked(tmp_path)
    sizes = corpus_sizes(config, PreparedCorpus(digit_corpus))
    assert sizes.longest == (
        int(sizes.plan.source_lengths.max()),
        int(sizes.plan.target_lengths.max()),
    )
    heavy = workload(config, sizes, 48)
    for shape in heavy.shapes:
        assert shape.rows * max(shape.source, shape.target) <= 48
    longest = heavy.shapes[0]
    assert (longest.source, longest.target) == sizes.longest
    assert longest.rows == 48 // max(sizes.longest)
    # Two hundred tokens an update are a cell of their own, and no micro-batch is larger.
    assert 160 <= largest_useful(config, sizes) < 2 * 160


def test_several_processes_get_micro_batches_that_they_share_evenly(
    digit_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = asked(tmp_path)
    sizes = corpus_sizes(config, PreparedCorpus(digit_corpus))
    useful = largest_useful(config, sizes)
    assert shared_evenly(config, sizes, useful) == useful
    two = replace(config, training=replace(config.training, num_processes=2))
    tokens = shared_evenly(two, sizes, useful)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert shared_evenly(config, sizes, useful) == tokens  # launched by somebody else
    # One cell an update: halved at the least.
    assert config.batching.longest <= tokens < useful
    plans = [replace(sizes.plan, max_micro_batch_tokens=number) for number in (useful, tokens)]
    whole, halved = (plan.evenness(2) for plan in plans)
    assert whole < 0.6
    assert halved > 0.8


@pytest.mark.slow
def test_a_probe_measures_a_process_of_its_own(
    digit_corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    monkeypatch.setattr(logging.getLogger("nmt"), "propagate", True)
    config = asked(tmp_path)
    with caplog.at_level(logging.INFO, logger="nmt"):
        found = resolve_auto(config, PreparedCorpus(digit_corpus)).batching
    assert found.longest <= found.max_micro_batch_tokens < 400
    assert "padded tokens: predicted 0." in caplog.text
    assert "GB, measured 0." in caplog.text


def test_the_number_is_found_once_and_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digit_corpus: Path
) -> None:
    config, calls = asked(tmp_path), []

    def found(config: Config, corpus: PreparedCorpus) -> Config:
        calls.append(corpus.folder)
        return with_batching(config, tokens_per_micro_batch=77)

    monkeypatch.setattr(experiment, "resolve_auto", found)
    for _ in range(2):
        assert experiment.open_run(config, digit_corpus).batching.max_micro_batch_tokens == 77
    stored: Config = load_config(Config, config.run_folder / "config.yaml")
    assert stored.batching.max_micro_batch_tokens == 77
    assert calls == [digit_corpus]
    other = replace(config, training=replace(config.training, label_smoothing=0.2))
    with pytest.raises(UserError, match="label_smoothing"):
        experiment.open_run(other, digit_corpus)
