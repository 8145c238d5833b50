import gc
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

import nmt.model.cpu_library
from nmt.base.signals import handlers_restored
from nmt.base.system import num_cores
from nmt.config import Compilation, Config, Layout, OptimizerConfig, OptimizerName
from nmt.runs.opening import open_run
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel
from nmt.training import distributed
from tests import two_processes
from tests.support import (
    made_up_sentences,
    reversed_digits,
    tiny_config,
    tiny_trained_model,
    train_tokenizer,
    with_batching,
    write_corpus,
)

# Losses and translations do not depend on the CPU that runs the tests; subprocesses inherit this.
os.environ["NMT_CPU_LIBRARY"] = nmt.model.cpu_library.override = "torch"
# The tensors are tiny: more threads would only wait for each other.
torch.set_num_threads(1)
# Garbage collection would take half of the time in which the tests are imported.
gc.disable()
# A test must not fail because the machine is busy.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Two workers more than cores, because some tests wait most of the time."""
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else 2 + num_cores()


def pytest_collection_finish() -> None:
    gc.freeze()  # later collections skip what the imports have created
    gc.enable()


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Use one thread also after a test with two, which may round equal rows differently."""
    torch.set_num_threads(1)


@pytest.fixture(params=["torch", "onednn"])
def cpu_library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compute matrix products with each library in turn, whatever CPU this is."""
    library = str(request.param)
    monkeypatch.setattr(nmt.model.cpu_library, "override", library)
    return library


@pytest.fixture(autouse=True)
def _signals_restored() -> Iterator[None]:
    """Restore signal handlers, which commands replace."""
    with handlers_restored():
        yield


@pytest.fixture(autouse=True)
def _logger_restored() -> Iterator[None]:
    """Restore the logger of the application, which commands take away from `caplog`."""
    logger = logging.getLogger("nmt")
    level, handlers, propagate = logger.level, logger.handlers, logger.propagate
    yield
    logger.setLevel(level)
    logger.handlers, logger.propagate = handlers, propagate


@pytest.fixture(scope="session")
def tokenizer_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A joint tokenizer of made-up words; unknown characters become bytes."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    return train_tokenizer(path, made_up_sentences(300), 400, byte_fallback=True)


@pytest.fixture(scope="session")
def tokenizer(tokenizer_path: Path) -> Tokenizer:
    return Tokenizer(tokenizer_path)


@pytest.fixture(scope="session")
def digit_tokenizer_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "tokenizer.model"
    return train_tokenizer(path, [source for source, _ in reversed_digits(300, 0)], 26)


@pytest.fixture(scope="session")
def trained_model(tokenizer_path: Path) -> TrainedModel:
    return tiny_trained_model(tokenizer_path)


@pytest.fixture(scope="session")
def digit_corpus(tmp_path_factory: pytest.TempPathFactory, digit_tokenizer_path: Path) -> Path:
    """A prepared corpus: reverse some digits; 300 pairs, 6 for validation, a test set of 6."""
    splits = {
        "train": reversed_digits(300, 1),
        "valid": reversed_digits(6, 2),
        "test": reversed_digits(6, 3),
    }
    folder = tmp_path_factory.mktemp("corpora") / "digits-0123456789ab"
    return write_corpus(folder, digit_tokenizer_path, splits)


@dataclass(frozen=True)
class TwoProcesses:
    """Results by rank, configurations, and signal handlers before and after two processes ran."""

    ranks: list[dict[str, Any]]
    configs: dict[str, Config]
    run: Config
    handlers_before: dict[int, Any]
    handlers_after: dict[int, Any]


@pytest.fixture(scope="session")
def two_processes_found(
    tmp_path_factory: pytest.TempPathFactory, digit_corpus: Path
) -> TwoProcesses:
    """One launch of two gloo processes for all tests that need it: a launch takes seconds."""
    folder = tmp_path_factory.mktemp("two_processes")
    base = tiny_config(folder)
    configs = {
        "shared": replace(base, optimizer=replace(base.optimizer, max_gradient_norm=0.0)),
        "one idle": with_batching(base, tokens_per_micro_batch=4096),
        "muon": replace(base, optimizer=OptimizerConfig(name=OptimizerName.muon)),
        "experts": replace(base, model=replace(base.model, num_experts=4)),
        # One row per micro-batch, so that dropout does not depend on the number of processes.
        "packed": with_batching(base, layout=Layout.packed, tokens_per_micro_batch=32),
    }
    packed = configs["packed"]
    configs["compiled"] = replace(
        packed, training=replace(packed.training, compile=Compilation.always)
    )
    training = replace(base.training, num_processes=2, num_threads=1)
    run = replace(base, run=replace(base.run, name="two"), training=training)
    open_run(run, digit_corpus)
    with handlers_restored() as handlers_before:
        distributed.launch(
            run.training, two_processes.in_one_of_two, configs, run, digit_corpus, folder
        )
        with handlers_restored() as handlers_after:
            pass
    ranks = [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in (0, 1)]
    return TwoProcesses(ranks, configs, run, handlers_before, handlers_after)
