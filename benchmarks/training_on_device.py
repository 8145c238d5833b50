"""Training as WMT14 asks for it, on one device: what `python -m benchmarks.training --device` runs.

Updates of the paper's size, of random ids in sentences as long as those of WMT14, through the real
planning, collating and updating, for the presets of the paper's models; beside it the same model
written with `torch.nn.Transformer`, in the same precision. Contenders take turns in one process,
and each turn holds the making of its batches. The ceiling is what a product of large square
matrices reaches on that device in the same run.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from benchmarks.plain_transformer import ordinary_loop
from nmt.config import (
    BatchingConfig,
    Config,
    CorpusConfig,
    ModelConfig,
    OptimizerConfig,
    Precision,
    RunConfig,
    from_mapping,
)
from nmt.data.batch import SpecialIds
from nmt.data.corpus import ParallelCorpus, write_shard
from nmt.data.loader import Position, UpdateLoader, UpdateWork
from nmt.model import cost
from nmt.plain_yaml import read_plain_yaml
from nmt.training.optimizer import step_flops
from nmt.training.rehearsal import Rehearsal
from nmt.training.updater import precision_on

_PRESETS = Path(__file__).parent.parent / "conf" / "model"
_SPECIAL_IDS = SpecialIds(pad_id=0, bos_id=1, eos_id=2)
_NUM_PAIRS = 40_000
_WARM_UP = 5
# Nothing is to be gained by larger ones.
_CEILING_WIDTHS = {"cuda": 8192, "cpu": 1024}

_Step = Callable[[UpdateWork], object]
"""Makes one update."""


@dataclass(frozen=True)
class Sizes:
    """What is measured.

    Attributes:
        models: names of presets of models.
        rounds: turns of each contender.
        updates: in a turn.
        tokens: target tokens of an update.
        micro_batch: most padded tokens of either side in a micro-batch.
        vocabulary: V.
    """

    models: tuple[str, ...]
    rounds: int
    updates: int
    tokens: int
    micro_batch: int
    vocabulary: int


@dataclass(frozen=True)
class _Turn:
    seconds: float
    target_tokens: int
    share_not_padding: float
    flops: int
    peak_gigabytes: float | None  # None on a CPU, where all contenders share a process's memory


class _Contender:
    """One way to train; it goes through the same updates as the others."""

    def __init__(
        self,
        config: Config,
        updates: Iterator[UpdateWork],
        step: _Step,
        device: torch.device,
    ) -> None:
        self._config = config
        self._updates = updates
        self._step = step
        self._device = device
        self.rest_bytes = 0  # what it holds between turns

    def run(self, number: int) -> _Turn:
        works = []
        of_others = _allocated(self._device) - self.rest_bytes
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        _wait(self._device)
        started = time.perf_counter()
        for _ in range(number):
            works.append(next(self._updates))
            self._step(works[-1])
        _wait(self._device)
        seconds = time.perf_counter() - started
        batches = [micro_batch.batch for work in works for micro_batch in work.micro_batches]
        processed = cost.Processed()
        for b in batches:
            rows, source = b.source.shape
            processed += cost.micro_batch(rows, source, b.target_input.size(1), b.num_target_tokens)
        model = self._config.model
        flops = cost.training_flops(model, self._config.tokenizer.vocabulary_size, processed)
        return _Turn(
            seconds,
            processed.projected,
            share_not_padding(works),
            flops + number * step_flops(self._config.optimizer, model),
            (torch.cuda.max_memory_allocated(self._device) - of_others) / 1e9
            if self._device.type == "cuda"
            else None,
        )


def measure(
    device: torch.device, sizes: Sizes, folder: Path, compiles: bool = False
) -> dict[str, Any]:
    """Measure all models on a device.

    Args:
        device: a CPU or a GPU.
        sizes: what is measured.
        folder: holds the made-up corpus for a while.
        compiles: also with compiled layers, which takes minutes before the first update.
    """
    corpus = _made_up(folder, sizes)
    ceiling = _ceiling(device)
    models = {}
    for name in sizes.models:
        contenders: dict[str, _Contender] = {}
        for key, make in _contenders(name, sizes, corpus, device, compiles).items():
            before = _allocated(device)
            contenders[key] = make()
            contenders[key].run(_WARM_UP)
            contenders[key].rest_bytes = _allocated(device) - before
        turns = [
            {key: contender.run(sizes.updates) for key, contender in contenders.items()}
            for _ in range(sizes.rounds)
        ]
        models[name] = _summary(turns, ceiling)
        del contenders
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "precision": precision_on(device, Precision.auto).value,
        "ceiling_flops_per_second": ceiling,
        "rounds": sizes.rounds,
        "updates_per_turn": sizes.updates,
        "target_tokens_per_update": sizes.tokens,
        "tokens_per_micro_batch": sizes.micro_batch,
        "vocabulary_size": sizes.vocabulary,
        "models": models,
    }


def share_not_padding(works: Sequence[UpdateWork]) -> float:
    """The share of places, of both sides, that hold a token."""
    batches = [micro_batch.batch for work in works for micro_batch in work.micro_batches]
    real = sum(int(b.source_mask.sum()) + b.num_target_tokens for b in batches)
    return real / sum(b.source.numel() + b.target_input.numel() for b in batches)


def wmt14_lengths(
    random: np.random.Generator, number: int, longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of sides of pairs as WMT14's: 28 on average, a long tail, sides that go together."""
    source = np.clip(random.lognormal(3.15, 0.6, number), 1, longest).astype(np.int32)
    target = np.clip(source * random.lognormal(0.0, 0.15, number), 1, longest).astype(np.int32)
    return source, target


def _made_up(folder: Path, sizes: Sizes) -> ParallelCorpus:
    """Random ids in sentences as long as WMT14's."""
    random = np.random.default_rng(1)
    source, target = wmt14_lengths(random, _NUM_PAIRS, BatchingConfig().longest - 1)

    def ids(length: int) -> list[int]:
        return random.integers(4, sizes.vocabulary, length).tolist()

    path = folder / "train-00000.arrow"
    write_shard(path, ((ids(s), ids(t)) for s, t in zip(source, target, strict=True)))
    return ParallelCorpus([path])


def _contenders(
    name: str, sizes: Sizes, corpus: ParallelCorpus, device: torch.device, compiles: bool
) -> dict[str, Callable[[], _Contender]]:
    """What makes each contender, by its name."""
    values = yaml.safe_load(read_plain_yaml(_PRESETS / f"{name}.yaml"))
    preset: ModelConfig = from_mapping(ModelConfig, values, f"conf/model/{name}.yaml")
    base = Config(
        corpus=CorpusConfig(name="made_up"),
        model=preset,
        optimizer=OptimizerConfig(max_gradient_norm=1.0),
        batching=BatchingConfig(
            target_tokens_per_update=sizes.tokens, tokens_per_micro_batch=sizes.micro_batch
        ),
        run=RunConfig(name="made_up"),
    )
    base = replace(base, tokenizer=replace(base.tokenizer, vocabulary_size=sizes.vocabulary))
    # torch.nn.Transformer has one rate for all places.
    rate = preset.dropout
    everywhere = replace(
        base, model=replace(preset, attention_dropout=rate, activation_dropout=rate)
    )

    compiled = replace(base, training=replace(base.training, compile=True))

    def contender(config: Config, step_of: Callable[[Config], _Step]) -> _Contender:
        loader = UpdateLoader(
            corpus, config.batching, config.training.seed, _SPECIAL_IDS, _SPECIAL_IDS
        )
        return _Contender(config, loader.updates(Position()), step_of(config), device)

    def ours(config: Config) -> _Step:
        return _ours(config, device)

    def plain(config: Config) -> _Step:
        return ordinary_loop(config, sizes.vocabulary, _SPECIAL_IDS.pad_id, device)

    makers: dict[str, Callable[[], _Contender]] = {
        "ours": partial(contender, everywhere, ours),
        "nn.Transformer": partial(contender, everywhere, plain),
        "ours, dropout as the preset has it": partial(contender, base, ours),
    }
    if compiles:
        makers["the same, layers compiled"] = partial(contender, compiled, ours)
    return makers


def _ours(config: Config, device: torch.device) -> _Step:
    size = config.tokenizer.vocabulary_size
    torch.manual_seed(config.training.seed)
    rehearsal = Rehearsal(config, (size, size), device)
    updater = rehearsal.updater  # by itself: a rehearsal waits after each gradient and step
    numbers = itertools.count(1)

    def step(work: UpdateWork) -> None:
        updater.step(updater.gradient(work, lambda: None), next(numbers))

    return step


def _ceiling(device: torch.device) -> float:
    """Floating-point operations a second of one large product, the best of some."""
    width = _CEILING_WIDTHS[device.type]
    is_narrow = precision_on(device, Precision.auto) is Precision.bfloat16
    one = torch.rand(width, width, device=device, dtype=torch.bfloat16 if is_narrow else None)
    best = 0.0
    for _ in range(10):
        _wait(device)
        started = time.perf_counter()
        torch.mm(one, one)
        _wait(device)
        best = max(best, 2 * width**3 / (time.perf_counter() - started))
    return best


def _allocated(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _summary(turns: list[dict[str, _Turn]], ceiling: float) -> dict[str, Any]:
    def row(name: str) -> dict[str, float | None]:
        mine = [turn[name] for turn in turns]
        rates = [turn.target_tokens / turn.seconds for turn in mine]
        operations = [turn.flops / turn.seconds for turn in mine]
        peaks = [turn.peak_gigabytes for turn in mine if turn.peak_gigabytes is not None]
        plain = [turn["nn.Transformer"] for turn in turns]
        ratios = [
            one / (other.target_tokens / other.seconds)
            for one, other in zip(rates, plain, strict=True)
        ]
        return {
            "target_tokens_per_second": round(statistics.median(rates)),
            "lowest": round(min(rates)),
            "highest": round(max(rates)),
            "to_nn_transformer": round(statistics.median(ratios), 3),
            "share_of_ceiling": round(statistics.median(operations) / ceiling, 3),
            "share_not_padding": round(statistics.mean(turn.share_not_padding for turn in mine), 4),
            "peak_gigabytes": round(max(peaks), 2) if peaks else None,
        }

    return {name: row(name) for name in turns[0]}
