"""Judge a GPU machine: correctness, speed and memory of training and decoding, unattended.

    python -m benchmarks.gpu [device=cuda] [tiny=false] [minutes=8] [parts=packed,…] [out=FILE]

The parts, the most important first; each can be measured alone:

  packed      packed and captured updates of the paper's base and big models, and of an eighth of
              an update of the base model: speed and memory
  losses      packed updates have the losses of a CPU, and depend on their seed only
  decoding    the torch engine, beside Hugging Face's `generate` and CTranslate2, all with the same
              weights and translations of the same length
  throughput  other ways to compute updates, and `torch.nn.Transformer` in buckets and packed
  kernels     the kernels that take most of the time of an update
  agreement   training on one and on all GPUs has the losses of a CPU, and a training that was
              killed by SIGKILL continues with the same losses: small model, float32, no dropout

Nothing is downloaded and no text is needed: `agreement` has made-up words, the other parts random
tokens with the lengths of WMT14. Every measurement runs in a process of its own with a time limit;
one that fails does not stop the other parts. Each line is printed and written to a JSON file at
once, and a table is printed at the end; the exit status is 1 if a line fails. `device=cpu
tiny=true` tests all parts.
"""

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks import gpu_training
from benchmarks.decoders import Job, Peer, ctranslate2_decoder, nmt_decoder
from benchmarks.figures import Figure, figures_json, print_figures, write_result
from benchmarks.gpu_agreement import agreement
from benchmarks.gpu_setting import TINY, TOLERANCE, NoTimeError, Setting, Sizes
from benchmarks.setting import run_alone, wmt14_lengths, write_made_up_corpus
from nmt.base.errors import UserError
from nmt.cli.common import parse_arguments, run_command
from nmt.cli.compose import compose_config
from nmt.config import DecodingPrecision, checked_dataclass
from nmt.exchange.engines import EngineName
from nmt.model.build import build_model
from nmt.tokenizer import JOINT_FILE, Tokenizer
from nmt.trained_model import TrainedModel, TrainedModelConfig, save_trained_model


@checked_dataclass
class Arguments:
    """See the docstring of the module."""

    device: str = "cuda"
    tiny: bool = False
    minutes: float = 8.0
    parts: str = "packed,losses,decoding,throughput,kernels,agreement"
    out: str = ""


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
        for part in parts:
            for figure in _figures(part, setting):
                print(figure, file=sys.stderr, flush=True)
                figures.append(figure)
                _write(setting, figures, time.monotonic() - started, arguments.out)
    _write(setting, figures, time.monotonic() - started, arguments.out, is_final=True)
    print_figures(f"{torch.cuda.device_count() or 1} × {_device_name(setting)}", figures)
    failed = [figure.name for figure in figures if figure.status == "fail"]
    print(f"{len(failed)} of {len(figures)} lines fail", file=sys.stderr)
    if failed:
        raise SystemExit(1)


def _figures(part: str, setting: Setting) -> Iterator[Figure]:
    """Yield the figures of a part; if it fails, the last one says why."""
    try:
        yield from PARTS[part](setting)
    except NoTimeError:
        yield Figure(f"rest of {part}", None, note="no time left", is_skipped=True)
    except Exception as error:
        yield Figure(part, None, note=f"{type(error).__name__}: {error}")


def _device_name(setting: Setting) -> str:
    return torch.cuda.get_device_name(0) if setting.is_cuda else "cpu"


def _write(
    setting: Setting, figures: list[Figure], seconds: float, out: str, is_final: bool = False
) -> None:
    """Write the figures so far to the JSON file."""
    result = {
        "device": _device_name(setting),
        "num_gpus": torch.cuda.device_count(),
        "seconds": round(seconds, 1),
        "tolerance": TOLERANCE,
        "sizes": vars(setting.sizes),
        "figures": figures_json(figures),
    }
    write_result(f"gpu-{setting.device}", result, Path(out) if out else None, is_final)


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
    "packed": gpu_training.packed,
    "losses": gpu_training.losses,
    "decoding": decoding,
    "throughput": gpu_training.throughput,
    "kernels": gpu_training.kernels,
    "agreement": agreement,
}

if __name__ == "__main__":
    run_command(main)
