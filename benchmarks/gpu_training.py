"""Speed, memory and exactness of training on a GPU; parts of `benchmarks.gpu`."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.figures import Figure
from benchmarks.gpu_setting import TOLERANCE, Setting, synchronize
from benchmarks.plain_transformer import plain_update
from benchmarks.setting import run_alone, write_made_up_corpus
from nmt.cli.compose import compose_config
from nmt.config import Config
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position, Prefetcher, UpdateLoader, UpdateWork
from nmt.model.cost import Processed, training_flops
from nmt.tokenizer import JOINT_FILE, Tokenizer
from nmt.training.distributed import Process
from nmt.training.trainer import Trainer
from nmt.training.updater import start_tokens_on


@dataclass(frozen=True)
class Way:
    """A way to compute updates, and the most seconds that its measurement may take."""

    seconds: int
    is_packed: bool = False
    is_compiled: bool = False
    is_captured: bool = False
    is_ours: bool = True


_CAPTURED = "packed, captured"
_PEER = "nn.Transformer, bucketed"
_PACKED_PEER = "nn.Transformer, packed, captured"
WAYS = {
    _CAPTURED: Way(100, is_packed=True, is_compiled=True, is_captured=True),
    "packed, compiled": Way(80, is_packed=True, is_compiled=True),
    "packed": Way(50, is_packed=True),
    "bucketed": Way(50),
    "bucketed, compiled": Way(120, is_compiled=True),
    _PEER: Way(50, is_ours=False),
    _PACKED_PEER: Way(80, is_packed=True, is_compiled=True, is_captured=True, is_ours=False),
}
# Target tokens/s on an H100 or H200.
_AT_LEAST = {"base": 600_000.0, "big": 290_000.0}
_EIGHTH_AT_LEAST = 350_000.0
_TIMES_THE_PEER = 4.0
_ASSUMED_LENGTH = 28  # tokens of a sentence, for the FLOPs of a target token
_NUM_KERNELS = 20


def packed(setting: Setting) -> Iterator[Figure]:
    """Measure packed and captured updates, of 25,000 target tokens and of an eighth of them."""
    sizes = setting.sizes
    for model in sizes.models:
        limit = _AT_LEAST.get(model) if setting.is_cuda else None
        yield from _speed(setting, model, _CAPTURED, sizes.target_tokens, limit)
    limit = _EIGHTH_AT_LEAST if setting.is_cuda else None
    yield from _speed(setting, sizes.models[0], _CAPTURED, sizes.target_tokens // 8, limit)


def throughput(setting: Setting) -> Iterator[Figure]:
    """Measure the other ways to train, and `torch.nn.Transformer`, with the same updates."""
    tokens, speeds = setting.sizes.target_tokens, setting.speeds
    for model in setting.sizes.models:
        for way in WAYS:
            if (model, way, tokens) not in speeds:
                yield from _speed(setting, model, way, tokens)
        for peer, limit in ((_PEER, _TIMES_THE_PEER), (_PACKED_PEER, None)):
            ours, theirs = (speeds.get((model, way, tokens)) for way in (_CAPTURED, peer))
            if ours and theirs:
                at_least = limit if setting.is_cuda else None
                yield Figure(f"{model}: {_CAPTURED} / {peer}", ours / theirs, at_least=at_least)
    peak_flops = run_alone(peak_matrix_flops, setting.device, seconds=setting.limit(60))
    yield Figure("largest matrix product", peak_flops / 1e12, "TFLOPS")


def _speed(
    setting: Setting, model: str, way: str, target_tokens: int, at_least: float | None = None
) -> Iterator[Figure]:
    name = f"{model}, {way}"
    if target_tokens != setting.sizes.target_tokens:
        name += f", {target_tokens:,} target tokens"
    try:
        found = run_alone(
            measure_training,
            setting,
            model,
            way,
            target_tokens,
            seconds=setting.limit(WAYS[way].seconds),
        )
    except RuntimeError as error:
        yield Figure(name, None, "target tokens/s", note=str(error))
        return
    note = f"{found['tflops']:.0f} TFLOPS, {found['start_seconds']:.0f} s to start"
    if setting.is_cuda and WAYS[way].is_ours and found["is_captured"] != WAYS[way].is_captured:
        note = f"not captured, see the warning: {found['tokens_per_second']:,.0f} target tokens/s"
        yield Figure(name, None, note=note)
        return
    setting.speeds[model, way, target_tokens] = found["tokens_per_second"]
    yield Figure(name, found["tokens_per_second"], "target tokens/s", at_least, note=note)
    if setting.is_cuda:
        yield Figure(f"{name}: peak memory", found["peak_gb"], "GB")


def measure_training(setting: Setting, model: str, way: str, target_tokens: int) -> dict[str, Any]:
    """Measure updates of a preset, computed in one of `WAYS`; making the batches is included."""
    started = time.perf_counter()
    config = _config(setting, model, WAYS[way], target_tokens)
    works, step, trainer = _updates(setting, config, WAYS[way])
    step(next(works))
    synchronize(setting.device)
    start_seconds = time.perf_counter() - started
    for _ in range(setting.sizes.warm_up):
        step(next(works))
    if setting.is_cuda:
        torch.cuda.reset_peak_memory_stats()
    synchronize(setting.device)
    started, tokens = time.perf_counter(), 0
    for _ in range(setting.sizes.updates):
        work = next(works)
        step(work)
        tokens += work.num_target_tokens
    synchronize(setting.device)
    speed = tokens / (time.perf_counter() - started)
    of_pair = Processed.of([(1, _ASSUMED_LENGTH, _ASSUMED_LENGTH)], _ASSUMED_LENGTH)
    flops = training_flops(config.model, config.tokenizer.vocabulary_size, of_pair)
    return {
        "tokens_per_second": speed,
        "start_seconds": start_seconds,
        "tflops": speed * flops / _ASSUMED_LENGTH / 1e12,
        "is_captured": trainer is not None and trainer._updater._passes._captured is not None,
        "peak_gb": torch.cuda.max_memory_reserved() / 1e9 if setting.is_cuda else 0.0,
    }


def kernels(setting: Setting) -> Iterator[Figure]:
    """List the kernels that take most of the time of a packed update of the first model."""
    if not setting.is_cuda:
        yield Figure("kernels", None, note="needs a GPU", is_skipped=True)
        return
    for name, milliseconds, number in run_alone(
        measure_kernels, setting, seconds=setting.limit(100)
    ):
        yield Figure(f"kernel {name}", milliseconds, "ms per update", note=f"{number} times")


def measure_kernels(setting: Setting) -> list[tuple[str, float, int]]:
    """Return name, milliseconds and number of kernels per update: first of all, then by time."""
    sizes, way = setting.sizes, WAYS[_CAPTURED]
    config = _config(setting, sizes.models[0], way, sizes.target_tokens)
    works, step, _ = _updates(setting, config, way)
    for _ in range(sizes.warm_up):
        step(next(works))
    synchronize(setting.device)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        step(next(works))
        synchronize(setting.device)
    rows = kernel_times(profiler)
    return [("all", sum(row[1] for row in rows), sum(row[2] for row in rows)), *rows[:_NUM_KERNELS]]


def kernel_times(profiler: profile) -> list[tuple[str, float, int]]:
    """Return name, milliseconds and number of each kernel, by time."""
    events = [one for one in profiler.key_averages() if one.device_type.name == "CUDA"]
    events.sort(key=lambda event: -event.self_device_time_total)
    return [
        (f"{rank} {event.key[:80]}", event.self_device_time_total / 1e3, event.count)
        for rank, event in enumerate(events, start=1)
    ]


def losses(setting: Setting) -> Iterator[Figure]:
    """Compare packed updates on the device with those of a CPU, and with themselves."""
    found = run_alone(measure_losses, setting, seconds=setting.limit(120))
    name = "losses of packed updates, captured, and CPU"
    yield Figure(name, found["cpu"], "nats", at_most=TOLERANCE, note="float32, no dropout")
    name = "losses of packed updates with dropout, the same seed"
    yield Figure(name, found["again"], "nats", at_most=0.0)
    yield Figure("the same, captured and not", found["uncaptured"], "nats", at_most=TOLERANCE)
    name = "the same, another seed"
    yield Figure(name, found["other seed"], "nats", at_least=1e-6, note="must differ")


def measure_losses(setting: Setting) -> dict[str, float]:
    """Return the differences that `losses` states, per target token."""
    way, updates = WAYS[_CAPTURED], setting.sizes.agreement_updates
    tokens = setting.sizes.agreement_tokens
    small = (
        *("model.width=64", "model.num_heads=4", "model.feed_forward_width=128"),
        *("model.num_encoder_layers=2", "model.num_decoder_layers=2", "training.precision=float32"),
    )

    def made(device: str, rate: float, is_compiled: bool) -> Trainer:
        own_way = replace(way, is_compiled=is_compiled)
        config = _config(setting, setting.sizes.models[0], own_way, tokens, rate, small)
        return _trainer(setting, config, device)

    def train(trainer: Trainer) -> list[float]:
        position, found = Position(), []
        for _ in range(updates):
            work = trainer.loader.work(position)
            found.append(float(trainer.update(work).loss) / work.num_target_tokens)
            position = work.next_position
        return found

    pairs = zip(train(made("cpu", 0.0, False)), train(made(setting.device, 0.0, True)), strict=True)
    trainer = made(setting.device, 0.1, is_compiled=True)
    work = trainer.loader.work(Position())
    other = replace(work, position=Position(1, 1))

    def loss(work: UpdateWork) -> float:
        gradient = trainer._updater.gradient(work, lambda: None)
        return float(gradient.loss) / work.num_target_tokens

    captured = loss(work)
    again, other_seed = loss(work), loss(other)
    passes = trainer._updater._passes
    passes._captured, passes._is_captured = None, False
    return {
        "cpu": max(abs(first - second) for first, second in pairs),
        "again": abs(again - captured),
        "other seed": abs(other_seed - captured),
        "uncaptured": abs(loss(work) - captured),
    }


def _config(
    setting: Setting,
    model: str,
    way: Way,
    target_tokens: int,
    rate: float | None = None,
    overrides: tuple[str, ...] = (),
) -> Config:
    """Return the experiment; `rate` of dropout is by default that of the preset `model`."""
    sizes = setting.sizes
    dropout = [] if rate is None else [f"model.dropout={rate}"]
    compilation = "always" if way.is_compiled else "never"
    return compose_config(
        [
            *(f"model={model}", *sizes.overrides, f"tokenizer.vocabulary_size={sizes.vocabulary}"),
            *(*dropout, "optimizer.max_gradient_norm=1.0"),
            f"training.compile={compilation}",
            f"batching.layout={'packed' if way.is_packed else 'bucketed'}",
            f"batching.target_tokens_per_update={target_tokens}",
            f"batching.tokens_per_micro_batch={sizes.micro_batch}",
            *(f"run.outputs={setting.folder}", f"run.name=run_{os.getpid()}"),
            *overrides,
        ]
    )


def _corpus(setting: Setting) -> Path:
    """Return the corpus, which the first measurement writes."""
    folder = setting.folder / "corpora" / "made_up-0"
    if not folder.exists():
        longest = compose_config([]).batching.longest - 1
        write_made_up_corpus(folder, setting.sizes.pairs, setting.sizes.vocabulary, longest)
    return folder


def _trainer(setting: Setting, config: Config, device: str) -> Trainer:
    config.run_folder.mkdir(parents=True, exist_ok=True)
    process = Process(0, 1, torch.device(device))
    trainer = Trainer(config, PreparedCorpus(_corpus(setting)), process)
    trainer.model.network.train()
    return trainer


def _updates(
    setting: Setting, config: Config, way: Way
) -> tuple[Iterator[UpdateWork], Callable[[UpdateWork], object], Trainer | None]:
    """Return the updates of an experiment, the function that computes one, and our trainer."""
    if way.is_ours:
        trainer = _trainer(setting, config, setting.device)
        if not way.is_captured:
            trainer._updater._passes._is_captured = False
        return _works(trainer.loader, setting), trainer.update, trainer
    tokenizer = Tokenizer(_corpus(setting) / JOINT_FILE)
    pairs, seed = PreparedCorpus(_corpus(setting)).train(), config.training.seed
    size, device = tokenizer.vocabulary_size, torch.device(setting.device)
    start = start_tokens_on(device)
    loader = UpdateLoader(pairs, config.batching, seed, tokenizer, tokenizer, start_tokens=start)
    return _works(loader, setting), plain_update(config, size, tokenizer.pad_id, device), None


def _works(loader: UpdateLoader, setting: Setting) -> Iterator[UpdateWork]:
    make = (Prefetcher(loader) if setting.is_cuda else loader).work
    position = Position()
    while True:
        work = make(position)
        yield work
        position = work.next_position


def peak_matrix_flops(device: str) -> float:
    """Return the FLOPS of a product of large square matrices, the best of ten."""
    is_cuda = device == "cuda"
    width = 8192 if is_cuda else 256
    dtype = torch.bfloat16 if is_cuda and torch.cuda.is_bf16_supported() else torch.float32
    matrix = torch.rand(width, width, device=device, dtype=dtype)
    best = 0.0
    for _ in range(10):
        synchronize(device)
        started = time.perf_counter()
        torch.mm(matrix, matrix)
        synchronize(device)
        best = max(best, 2 * width**3 / (time.perf_counter() - started))
    return best
