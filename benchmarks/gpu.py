"""Judge a GPU machine: correctness, speed and memory of training and decoding, unattended.

    python -m benchmarks.gpu [device=cuda] [tiny=false] [minutes=25] [parts=agreement,…] [out=FILE]

  agreement   training on one and on all GPUs has the losses of a CPU, and a training that was
              killed by SIGKILL continues with the same losses: small model, float32, no dropout
  throughput  the paper's base and big models, eager and compiled, beside `torch.nn.Transformer` in
              the same precision and beside a product of large matrices; peak memory; and the eager
              models without merging of micro-batches
  decoding    the torch engine, beside Hugging Face's `generate` and CTranslate2, all with the same
              weights and translations of the same length

Nothing is downloaded and no text is needed: `agreement` has made-up words, the other parts random
tokens with the lengths of WMT14. Every measurement runs in a process of its own with a time limit;
one that fails does not stop the other parts. At the end, a table is printed and a JSON file
written; the exit status is 1 if a line fails. `device=cpu tiny=true` runs every part in a minute.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.decoders import Job, Peer, ctranslate2_decoder, nmt_decoder
from benchmarks.figures import Figure, figures_json, print_figures, write_result
from benchmarks.plain_transformer import plain_update
from benchmarks.setting import (
    run_alone,
    trainer_of,
    wmt14_lengths,
    write_made_up_corpus,
    write_made_up_text,
)
from nmt.base.errors import UserError
from nmt.base.layout import CHECKPOINTS_FOLDER
from nmt.cli.common import parse_arguments, run_command
from nmt.cli.compose import compose_config
from nmt.config import Config, DecodingPrecision, checked_dataclass
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position, UpdateLoader, UpdateWork
from nmt.exchange.engines import EngineName
from nmt.model.build import build_model
from nmt.run_folder import Run
from nmt.tokenizer import JOINT_FILE, Tokenizer
from nmt.trained_model import TrainedModel, TrainedModelConfig, save_trained_model
from nmt.training.updater import start_tokens_on

# Nats per target token, absolute. float32 sums differ in their order between devices.
_TOLERANCE = 1e-3


@checked_dataclass
class Arguments:
    """See the docstring of the module."""

    device: str = "cuda"
    tiny: bool = False
    minutes: float = 25.0
    parts: str = "agreement,throughput,decoding"
    out: str = ""


@dataclass(frozen=True)
class Sizes:
    """Amount of work; `models` and `decoder` are presets of models, changed by `overrides`."""

    models: tuple[str, ...] = ("base", "big")
    decoder: str = "base"
    overrides: tuple[str, ...] = ()
    vocabulary: int = 37_000
    pairs: int = 40_000
    target_tokens: int = 25_000
    micro_batch: int = 32_768
    warm_up: int = 24
    updates: int = 40
    sentences: int = 2_000
    length: int = 30
    batch_size: int = 128
    agreement_pairs: int = 4_000
    agreement_updates: int = 24


TINY = Sizes(
    models=("tiny",),
    decoder="tiny",
    overrides=("model.width=32", "model.num_encoder_layers=1", "model.num_decoder_layers=1"),
    vocabulary=90,
    pairs=200,
    target_tokens=256,
    micro_batch=256,
    warm_up=1,
    updates=2,
    sentences=4,
    length=4,
    batch_size=4,
    agreement_pairs=200,
    agreement_updates=8,
)


@dataclass(frozen=True)
class Setting:
    """Device, amount of work, temporary folder and deadline, which the parts share."""

    device: str
    sizes: Sizes
    folder: Path
    deadline: float

    @property
    def is_cuda(self) -> bool:
        """Whether GPUs are measured."""
        return self.device == "cuda"

    def limit(self, seconds: float) -> float:
        """Return the time limit of a measurement that should take at most `seconds`."""
        return max(1.0, min(seconds, self.deadline - time.monotonic()))


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(Arguments)
    if arguments.device not in {"cpu", "cuda"}:
        raise UserError(f"device={arguments.device} is unknown; choose cuda or cpu")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        raise UserError("device=cuda: torch finds no GPU; check nvidia-smi and torch.version.cuda")
    parts = arguments.parts.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise UserError(f"parts={unknown[0]} is unknown; choose from {','.join(PARTS)}")
    started = time.monotonic()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        sizes = TINY if arguments.tiny else Sizes()
        deadline = started + 60 * arguments.minutes
        setting = Setting(arguments.device, sizes, Path(folder), deadline)
        try:
            for part in parts:
                _measure(part, setting, figures)
        finally:  # also if the benchmark is interrupted
            _write(setting, figures, time.monotonic() - started, arguments.out)
    failed = [figure.name for figure in figures if figure.status == "fail"]
    print(f"{len(failed)} of {len(figures)} lines fail", file=sys.stderr)
    if failed:
        raise SystemExit(1)


def _measure(part: str, setting: Setting, figures: list[Figure]) -> None:
    """Add the figures of a part."""
    try:
        for figure in PARTS[part](setting):
            print(f"{figure.name}: {figure.status} {figure.note}", file=sys.stderr)
            figures.append(figure)
    except Exception as error:
        figures.append(Figure(part, None, note=f"{type(error).__name__}: {error}"))


def _write(setting: Setting, figures: list[Figure], seconds: float, out: str) -> None:
    """Print the table and write the JSON file."""
    device = torch.cuda.get_device_name(0) if setting.is_cuda else "cpu"
    print_figures(f"{torch.cuda.device_count() if setting.is_cuda else 1} × {device}", figures)
    result = {
        "device": device,
        "num_gpus": torch.cuda.device_count(),
        "seconds": round(seconds, 1),
        "tolerance": _TOLERANCE,
        "sizes": vars(setting.sizes),
        "figures": figures_json(figures),
    }
    write_result(f"gpu-{setting.device}", result, Path(out) if out else None)


# Agreement: the real command, in subprocesses.


def agreement(setting: Setting) -> Iterator[Figure]:
    """Compare losses of CPU, one and all GPUs, and of a run that was killed and continued."""
    sizes = {"train": setting.sizes.agreement_pairs, "valid": 20}
    write_made_up_text(setting.folder / "text", sizes)
    reference = _Training(setting, "cpu", 1, on_cpu=True)
    reference.end()  # prepares the corpus
    number = torch.cuda.device_count() if setting.is_cuda else 2
    # Without a GPU, the reference is also the run on one device.
    runs = {"one device": _Training(setting, "one", 1) if setting.is_cuda else reference}
    killed = _Training(setting, "killed", 1)
    if number > 1:
        runs[f"all {number} devices"] = _Training(setting, "all", number)
    try:
        yield from _differences(setting, reference, runs, killed)
    finally:
        for run in (*runs.values(), killed):
            run.kill()


def _differences(
    setting: Setting, reference: "_Training", runs: dict[str, "_Training"], killed: "_Training"
) -> Iterator[Figure]:
    was_killed = killed.kill_after_checkpoint()
    for name, run in runs.items():
        run.end()
        difference = reference.difference(run)
        yield Figure(f"losses of {name} and CPU", difference, "nats", at_most=_TOLERANCE)
    if len(runs) == 1:
        yield Figure("losses of all devices and CPU", None, note="one GPU", is_skipped=True)
    name = "losses after SIGKILL and resumption"
    if not was_killed:
        yield Figure(name, None, note="it ended before it could be killed, or had no checkpoint")
    else:
        killed.start()
        killed.end()
        difference = runs["one device"].difference(killed)
        limit = _TOLERANCE if setting.is_cuda else 0.0
        yield Figure(name, difference, "nats", at_most=limit, note="beside an untouched run")


class _Training:
    """A run of `nmt.cli.train` in a subprocess."""

    def __init__(self, setting: Setting, name: str, processes: int, on_cpu: bool = False) -> None:
        self._setting = setting
        self._name = name
        outputs = setting.folder / "outputs"
        self.folder = outputs / "runs" / name
        updates = setting.sizes.agreement_updates
        self._command = [
            *(sys.executable, "-m", "nmt.cli.train", "corpus=folder", "model=tiny"),
            *(f"corpus.path={setting.folder / 'text'}", "corpus.direction=en-de"),
            *("corpus.name=made_up", "tokenizer.vocabulary_size=400", "decoding=greedy"),
            *("decoding.max_length_ratio=0", "decoding.max_length_offset=4"),
            *("model.width=64", "model.feed_forward_width=128", "model.dropout=0"),
            *("batching.target_tokens_per_update=1024", "batching.tokens_per_micro_batch=2048"),
            *("schedule.peak_learning_rate=1e-3", f"schedule.warmup_updates={updates // 2}"),
            *("training.precision=float32", "training.log_every=1", "training.num_threads=1"),
            *(f"training.max_updates={updates}", f"training.validate_every={updates // 4}"),
            f"training.num_processes={processes}",
            *(f"run.name={name}", f"run.outputs={outputs}"),
        ]
        self._environment = dict(os.environ)
        if on_cpu or not setting.is_cuda:
            self._environment["CUDA_VISIBLE_DEVICES"] = ""
        self.start()

    def start(self) -> None:
        """Start the command, or start it again after its end."""
        self._log = (self._setting.folder / f"{self._name}.log").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            self._command,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,
        )

    def kill_after_checkpoint(self) -> bool:
        """Kill the run at its first checkpoint; return False if it ended before or has none."""
        limit = time.monotonic() + self._setting.limit(180)
        is_saved = False
        while self._process.poll() is None and not is_saved and time.monotonic() < limit:
            time.sleep(0.005)
            is_saved = any(self.folder.glob(f"{CHECKPOINTS_FOLDER}/update_*"))
        self.kill()
        return is_saved and not Run(self.folder).is_complete

    def kill(self) -> None:
        """End the run, if it has not ended."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def end(self) -> None:
        """Wait for a successful end.

        Raises:
            RuntimeError: the command failed or takes too long.
        """
        try:
            status = self._process.wait(self._setting.limit(240))
        except subprocess.TimeoutExpired:
            self.kill()
            status = -signal.SIGKILL
        if status:
            self._log.seek(0)
            end = self._log.read()[-600:]
            raise RuntimeError(f"training {self._name} ended with {status}: {end}")

    def losses(self) -> dict[int, float]:
        """Return the training loss by update."""
        records = Run(self.folder).metrics
        return {r["update"]: r["train/loss"] for r in records if "train/loss" in r}

    def difference(self, other: "_Training") -> float:
        """Return the largest difference between the losses of two runs."""
        mine, theirs = self.losses(), other.losses()
        if mine.keys() != theirs.keys() or len(mine) != self._setting.sizes.agreement_updates:
            raise RuntimeError(f"{self._name} and {other._name} logged other updates")
        return max(abs(mine[update] - theirs[update]) for update in mine)


# Throughput.


# Ways to train, and the most seconds of each.
_KINDS = {"nn.Transformer": 90, "not merged": 90, "eager": 90, "compiled": 300}
_BASELINES = {"eager": "nn.Transformer", "compiled": "eager"}


def throughput(setting: Setting) -> Iterator[Figure]:
    """Measure updates of the size used for WMT14, also with `torch.nn.Transformer`."""
    sizes = setting.sizes
    longest = compose_config([]).batching.longest - 1
    corpus = setting.folder / "corpora" / "made_up-0"
    write_made_up_corpus(corpus, sizes.pairs, sizes.vocabulary, longest)
    peak_flops = run_alone(peak_matrix_flops, setting.device, seconds=setting.limit(60))
    yield Figure("largest matrix product", peak_flops / 1e12, "TFLOPS")
    for model in sizes.models:
        found: dict[str, dict[str, Any]] = {}
        for kind, seconds in _KINDS.items():
            name = f"{model}, {kind}"
            try:
                found[kind] = run_alone(
                    measure_training, setting, model, kind, corpus, seconds=setting.limit(seconds)
                )
            except RuntimeError as error:
                yield Figure(name, None, "target tokens/s", note=str(error))
                continue
            speeds = {key: result["tokens_per_second"] for key, result in found.items()}
            # On a CPU, a small model only tests the benchmark itself.
            baseline = _BASELINES.get(kind)
            limit = speeds.get(baseline) if baseline and setting.is_cuda else None
            note = f"limit: {baseline}" if limit else ""
            yield Figure(name, speeds[kind], "target tokens/s", limit, note=note)
        if "nn.Transformer" in found:
            yield from _shares(setting, model, found, peak_flops)


def _shares(
    setting: Setting, model: str, found: dict[str, dict[str, Any]], peak_flops: float
) -> Iterator[Figure]:
    plain = found["nn.Transformer"]
    for kind, result in found.items():
        share = result["tokens_per_second"] * plain["flops_per_token"] / peak_flops
        yield Figure(f"{model}, {kind}: share of the largest product", 100 * share, "%")
        if setting.is_cuda and kind in _BASELINES:
            name = f"{model}, {kind}: peak memory"
            yield Figure(name, result["peak_gb"], "GB", at_most=plain["peak_gb"])


def peak_matrix_flops(device: str) -> float:
    """Return the FLOPS of a product of large square matrices, the best of ten."""
    is_cuda = device == "cuda"
    width = 8192 if is_cuda else 256
    dtype = torch.bfloat16 if is_cuda and torch.cuda.is_bf16_supported() else torch.float32
    matrix = torch.rand(width, width, device=device, dtype=dtype)
    best = 0.0
    for _ in range(10):
        _synchronize(device)
        started = time.perf_counter()
        torch.mm(matrix, matrix)
        _synchronize(device)
        best = max(best, 2 * width**3 / (time.perf_counter() - started))
    return best


def measure_training(setting: Setting, model: str, kind: str, corpus: Path) -> dict[str, Any]:
    """Measure one way to train; making the batches is included.

    Args:
        setting: device and amount of work.
        model: a preset.
        kind: a key of `_KINDS`.
        corpus: a prepared corpus.
    """
    if not setting.is_cuda:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    config = _training_config(setting, model, kind == "compiled")
    updates, step = _training_updates(setting, config, kind, corpus)
    for _ in range(setting.sizes.warm_up):
        step(next(updates))
    flops_per_token = 0.0
    if kind == "nn.Transformer":
        work = next(updates)
        with FlopCounterMode(display=False) as counter:
            step(work)
        flops_per_token = counter.get_total_flops() / work.num_target_tokens
    if setting.is_cuda:
        torch.cuda.reset_peak_memory_stats()
    _synchronize(setting.device)
    started, tokens = time.perf_counter(), 0
    for _ in range(setting.sizes.updates):
        work = next(updates)
        step(work)
        tokens += work.num_target_tokens
    _synchronize(setting.device)
    return {
        "tokens_per_second": tokens / (time.perf_counter() - started),
        "flops_per_token": flops_per_token,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if setting.is_cuda else 0.0,
    }


def _training_config(setting: Setting, model: str, compiles: bool) -> Config:
    sizes = setting.sizes
    rate = compose_config([f"model={model}"]).model.dropout
    return compose_config(
        [
            *(f"model={model}", *sizes.overrides, f"tokenizer.vocabulary_size={sizes.vocabulary}"),
            # torch.nn.Transformer has one rate for all of its dropout.
            *(f"model.attention_dropout={rate}", f"model.activation_dropout={rate}"),
            *("optimizer.max_gradient_norm=1.0", f"training.compile={str(compiles).lower()}"),
            f"batching.target_tokens_per_update={sizes.target_tokens}",
            f"batching.tokens_per_micro_batch={sizes.micro_batch}",
            *(f"run.outputs={setting.folder}", f"run.name={model}_{compiles}"),
        ]
    )


def _training_updates(
    setting: Setting, config: Config, kind: str, corpus: Path
) -> tuple[Iterator[UpdateWork], Callable[[UpdateWork], object]]:
    """Return the updates of an experiment and the function that computes one."""
    if kind == "nn.Transformer":
        tokenizer = Tokenizer(corpus / JOINT_FILE)
        pairs = PreparedCorpus(corpus).train()
        size, device = tokenizer.vocabulary_size, torch.device(setting.device)
        loader = UpdateLoader(
            pairs,
            config.batching,
            config.training.seed,
            tokenizer,
            tokenizer,
            start_tokens=start_tokens_on(device),
        )
        return loader.updates(Position()), plain_update(config, size, tokenizer.pad_id, device)
    trainer = trainer_of(config, corpus, threads=0)
    trainer.model.network.train()
    if kind == "not merged":
        trainer.loader.start_tokens = 0
    return trainer.loader.updates(Position()), trainer.update


def _synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


# Decoding.


def decoding(setting: Setting) -> Iterator[Figure]:
    """Translate with the same weights by the torch engine, CTranslate2 and Hugging Face.

    The weights are random, and all translations have the same length, so that all programs do the
    same work.
    """
    job = run_alone(_decoding_job, setting, seconds=setting.limit(60))
    kinds = {"torch engine": 1.0, "CTranslate2": 0.5, "Hugging Face generate": 1.0}
    found: dict[str, float] = {}
    for kind, least in kinds.items():
        name = f"decoding, {kind}"
        if kind.startswith("Hugging") and importlib.util.find_spec("transformers") is None:
            yield Figure(name, None, note="transformers is not installed", is_skipped=True)
            continue
        try:
            found[kind] = run_alone(measure_decoding, kind, job, seconds=setting.limit(120))
        except RuntimeError as error:
            # CTranslate2 opens the libraries of another CUDA only when they are needed.
            is_missing = "cannot be loaded" in str(error)
            yield Figure(name, None, "tokens/s", note=str(error), is_skipped=is_missing)
            continue
        yield Figure(name, found[kind], "tokens/s")
        if kind != "torch engine" and "torch engine" in found:
            ratio = found["torch engine"] / found[kind]
            limit = least if setting.is_cuda else None
            yield Figure(f"torch engine / {kind}", ratio, at_least=limit)


def _decoding_job(setting: Setting) -> Job:
    """Save a model with random weights and draw its sentences."""
    sizes = setting.sizes
    corpus = setting.folder / "decoding"
    write_made_up_corpus(corpus, 8, sizes.vocabulary, 100)
    tokenizer = Tokenizer(corpus / JOINT_FILE)
    config = compose_config([f"model={sizes.decoder}", *sizes.overrides]).model
    torch.manual_seed(1)
    transformer = build_model(config, tokenizer.vocabulary_size, tokenizer.vocabulary_size)
    folder = setting.folder / "model"
    model = TrainedModel(TrainedModelConfig(model=config), transformer, tokenizer, tokenizer)
    save_trained_model(model, folder, {})
    random = np.random.default_rng(2)
    lengths, _ = wmt14_lengths(random, sizes.sentences, 100)
    words = [f"w{index}" for index in range(tokenizer.vocabulary_size - 4)]
    sentences = [" ".join(random.choice(words, length)) for length in lengths]
    return Job(
        folder,
        sentences,
        beam_size=4,
        length_penalty=0.6,
        threads=torch.get_num_threads(),
        batch_size=sizes.batch_size,
        longest=sizes.length + 1,  # with EOS
        shortest=sizes.length,
        device=setting.device,
    )


def measure_decoding(kind: str, job: Job) -> float:
    """Return the target tokens per second of one program."""
    is_cuda = job.device == "cuda"
    if kind.startswith("Hugging"):
        peer = Peer(sys.executable, job)
        _warm_up, measured = peer.ask(), peer.ask()
        peer.close()
        return measured.num_tokens / measured.seconds
    if kind == "torch engine":
        precision = DecodingPrecision.bfloat16 if is_cuda else DecodingPrecision.float32
        decode = nmt_decoder(EngineName.torch, "", job, precision=precision)
    else:
        decode = ctranslate2_decoder("float16" if is_cuda else "float32", job)
    decode(job.sentences[: job.batch_size])  # warm-up
    started = time.perf_counter()
    output = decode(job.sentences)
    return output.num_tokens / (time.perf_counter() - started)


PARTS: dict[str, Callable[[Setting], Iterator[Figure]]] = {
    "agreement": agreement,
    "throughput": throughput,
    "decoding": decoding,
}

if __name__ == "__main__":
    run_command(main)
