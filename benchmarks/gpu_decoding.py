"""The decoding part of `benchmarks.gpu`: the torch engine, CTranslate2 and Hugging Face.

The weights are random. Where speed is measured, all translations have the same length, so that all
programs do the same work.
"""

import importlib.util
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.decoders import Job, Peer, ctranslate2_decoder, nmt_decoder
from benchmarks.figures import Figure
from benchmarks.gpu_setting import Setting
from benchmarks.gpu_training import kernel_times
from benchmarks.setting import run_alone, wmt14_lengths, write_made_up_corpus
from nmt.cli.compose import compose_config
from nmt.config import DecodingPrecision, EngineName, FixedShapes
from nmt.model.build import build_model
from nmt.model.layers import DecoderLayer
from nmt.search.captured import FixedSearch
from nmt.search.hypothesis import Hypothesis
from nmt.tokenizer import JOINT_FILE, Tokenizer
from nmt.trained_model import (
    TrainedModel,
    TrainedModelConfig,
    load_trained_model,
    save_trained_model,
)
from nmt.translation.torch_engine import TorchEngine

_FIXED = "fixed shapes"
_TORCH = "torch engine"
_COMPILED = "fixed shapes, compiled"
_HUGGING_FACE = "Hugging Face generate"

# Programs, and how many times as fast as each of them decoding in fixed shapes has to be.
_KINDS = {_TORCH: 1.0, _COMPILED: 0.0, _HUGGING_FACE: 1.0, "CTranslate2": 0.5}
# Weight of EOS, with which translations by a random model end sooner or later.
_EOS_BIAS = 2.0
_NUM_KERNELS = 20


def decoding(setting: Setting) -> Iterator[Figure]:
    """Measure the speed of all programs, and whether fixed shapes change translations."""
    job, ending = run_alone(_jobs, setting, seconds=setting.limit(90))
    speeds: dict[str, float] = {}
    yield _speed(_FIXED, job, setting, speeds)
    yield from _exactness(ending, setting)
    yield from _kernels(job, setting)
    for kind, least in _KINDS.items():
        yield _speed(kind, job, setting, speeds)
        if kind in speeds and _FIXED in speeds:
            ratio = speeds[_FIXED] / speeds[kind]
            yield Figure(f"{_FIXED} / {kind}", ratio, at_least=least if setting.is_cuda else None)


def _speed(kind: str, job: Job, setting: Setting, speeds: dict[str, float]) -> Figure:
    """Measure one program, and add its speed to `speeds`."""
    name = f"decoding, {kind}"
    if kind == _HUGGING_FACE and importlib.util.find_spec("transformers") is None:
        return Figure(name, None, note="transformers is not installed", is_skipped=True)
    if kind == "CTranslate2" and importlib.util.find_spec("ctranslate2") is None:
        return Figure(name, None, note="ctranslate2 is not installed", is_skipped=True)
    if kind == _COMPILED and not setting.is_cuda:
        return Figure(name, None, note="no GPU", is_skipped=True)
    try:
        speeds[kind] = run_alone(measure_decoding, kind, job, seconds=setting.limit(120))
    except RuntimeError as error:
        # CTranslate2 opens the libraries of another CUDA only when they are needed.
        return Figure(name, None, note=str(error), is_skipped="cannot be loaded" in str(error))
    return Figure(name, speeds[kind], "tokens/s")


def _exactness(job: Job, setting: Setting) -> Iterator[Figure]:
    """Compare translations of realistic lengths."""
    names = "float32, changed by fixed shapes", "bfloat16, changed by order or company"
    try:
        found = run_alone(measure_changes, job, seconds=setting.limit(120))
    except RuntimeError as error:
        yield Figure("translations that change", None, note=str(error))
        return
    # Sums are rounded differently, so a tie of two candidates may end in another way.
    for name, (changed, number), share in zip(names, found, (0.01, 0.0), strict=True):
        yield Figure(f"translations in {name}", changed, f"of {number}", at_most=share * number)


def _kernels(job: Job, setting: Setting) -> Iterator[Figure]:
    """Count the kernels of a decoding step."""
    name = "kernels per decoding step, encoder included"
    if not setting.is_cuda:
        yield Figure(name, None, note="no GPU", is_skipped=True)
        return
    try:
        found = run_alone(measure_kernels, job, seconds=setting.limit(60))
    except RuntimeError as error:
        yield Figure(name, None, note=str(error))
        return
    for line in found["lines"]:
        print(line, file=sys.stderr)
    yield Figure(name, found["number"])
    yield Figure("time of these kernels per decoding step", found["ms"], "ms")


def _jobs(setting: Setting) -> tuple[Job, Job]:
    """Save models with random weights and draw their sentences.

    Translations of the first job have the same length; those of the second one end by EOS or at the
    default maximum length.
    """
    sizes = setting.sizes
    corpus = setting.folder / "decoding"
    write_made_up_corpus(corpus, 8, sizes.vocabulary, 100)
    tokenizer = Tokenizer(corpus / JOINT_FILE)
    random_numbers = np.random.default_rng(2)
    lengths, _ = wmt14_lengths(random_numbers, sizes.sentences, 100)
    words = [f"w{index}" for index in range(tokenizer.vocabulary_size - 4)]
    job = Job(
        setting.folder / "model",
        [" ".join(random_numbers.choice(words, length)) for length in lengths],
        beam_size=4,
        length_penalty=0.6,
        threads=torch.get_num_threads(),
        batch_size=sizes.batch_size,
        longest=sizes.length + 1,  # with EOS
        shortest=sizes.length,
        device=setting.device,
    )
    _save_model(setting, tokenizer, job.model, output_bias=False)
    ending = replace(job, model=setting.folder / "ending_model", longest=0, shortest=1)
    _save_model(setting, tokenizer, ending.model, output_bias=True)
    return job, replace(ending, sentences=job.sentences[: max(4, sizes.sentences // 2)])


def _save_model(setting: Setting, tokenizer: Tokenizer, folder: Path, output_bias: bool) -> None:
    """Save a model with random weights, and a bias of EOS if it has an output bias."""
    bias = f"model.output_bias={str(output_bias).lower()}"
    overrides = [f"model={setting.sizes.decoder}", *setting.sizes.overrides, bias]
    config = compose_config(overrides).model
    torch.manual_seed(1)
    transformer = build_model(config, tokenizer.vocabulary_size, tokenizer.vocabulary_size)
    if transformer.output_bias is not None:
        transformer.output_bias.data[tokenizer.eos_id] = _EOS_BIAS
    model = TrainedModel(TrainedModelConfig(model=config), transformer, tokenizer, tokenizer)
    save_trained_model(model, folder, {})


def measure_decoding(kind: str, job: Job) -> float:
    """Return the target tokens per second of one program."""
    is_cuda = job.device == "cuda"
    if kind == _HUGGING_FACE:
        peer = Peer(sys.executable, job)
        _warm_up, measured = peer.ask(), peer.ask()
        peer.close()
        return measured.num_tokens / measured.seconds
    if kind == _COMPILED:
        _compile_fixed_shapes()
    if kind == "CTranslate2":
        decode = ctranslate2_decoder("float16" if is_cuda else "float32", job)
    else:
        precision = DecodingPrecision.bfloat16 if is_cuda else DecodingPrecision.float32
        shapes = FixedShapes.never if kind == _TORCH else FixedShapes.always
        decode = nmt_decoder(EngineName.torch, "", job, precision=precision, fixed_shapes=shapes)
    # Fixed shapes need two batches of each length: the second one captures the graphs.
    for _ in range(1 if kind in {_TORCH, "CTranslate2"} else 2):
        decode(job.sentences[: job.batch_size] if kind == _TORCH else job.sentences)
    started = time.perf_counter()
    output = decode(job.sentences)
    return output.num_tokens / (time.perf_counter() - started)


def _compile_fixed_shapes() -> None:
    """Compile the parts of a decoding step whose kernels are small, in this process."""
    FixedSearch._advance = torch.compile(FixedSearch._advance)  # type: ignore[method-assign]
    DecoderLayer.step = torch.compile(DecoderLayer.step)  # type: ignore[method-assign]


def _engine(job: Job, **changes: Any) -> tuple[TorchEngine, list[list[int]]]:
    """Return the torch engine and the sources as ids."""
    model = load_trained_model(job.model, torch.device(job.device))
    engine = TorchEngine(model, replace(job.decoding(model), **changes))
    return engine, model.source_tokenizer.encode(job.sentences)


def _best(engine: TorchEngine, sources: list[list[int]]) -> list[Hypothesis]:
    return [hypotheses[0] for hypotheses in engine.search(sources)]


def measure_changes(job: Job) -> list[tuple[int, int]]:
    """Return how many translations change, and of how many.

    The first pair is for fixed shapes instead of others, in float32; the second one for another
    order and company in fixed shapes, in bfloat16.
    """
    torch.set_float32_matmul_precision("highest")
    fixed, sources = _engine(job, fixed_shapes=FixedShapes.always)
    plain, _ = _engine(job, fixed_shapes=FixedShapes.never)
    some = sources[: max(4, len(sources) // 4)]
    pairs = zip(_best(fixed, some), _best(plain, some), strict=True)
    by_shapes = sum(one.ids != other.ids for one, other in pairs)

    precision = DecodingPrecision.bfloat16
    engine, _ = _engine(job, fixed_shapes=FixedShapes.always, precision=precision)
    expected = _best(engine, sources)
    order = list(range(len(sources)))
    random.Random(1).shuffle(order)
    changed = set()
    for chosen in (order, order[: len(order) // 3], order[:1]):
        found = _best(engine, [sources[index] for index in chosen])
        changed |= {i for i, one in zip(chosen, found, strict=True) if one != expected[i]}
    return [(by_shapes, len(some)), (len(changed), len(sources))]


def measure_kernels(job: Job) -> dict[str, Any]:
    """Profile the search of one batch in fixed shapes; the encoder is included."""
    engine, sources = _engine(
        job, fixed_shapes=FixedShapes.always, precision=DecodingPrecision.bfloat16
    )
    batch = [ids[:20] for ids in sources[: job.batch_size]]
    for _ in range(2):
        engine.search(batch)
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        engine.search(batch)
    kernels = kernel_times(profiled)
    steps = job.longest
    return {
        "number": sum(number for _, _, number in kernels) / steps,
        "ms": sum(milliseconds for _, milliseconds, _ in kernels) / steps,
        "lines": [
            f"{milliseconds / steps:9.4f} ms {number / steps:7.1f} × {name}"
            for name, milliseconds, number in kernels[:_NUM_KERNELS]
        ],
    }
