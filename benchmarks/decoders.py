"""Programs that translate the same sentences with the same weights, each in its own process."""

import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from nmt.base.errors import UserError
from nmt.base.layout import WEIGHTS_FILE
from nmt.config import DecodingConfig, DecodingPrecision, EngineName, FixedShapes, to_plain
from nmt.exchange.engines import open_engine
from nmt.trained_model import TrainedModel, load_trained_model
from nmt.translation.translator import Translator

# Fewest tokens of a translation, without EOS, as other programs count.
_SHORTEST = DecodingConfig.min_length - 1

_PEER = Path(__file__).with_name("peer_hugging_face.py")


@dataclass(frozen=True)
class Job:
    """The work that all programs do.

    Attributes:
        model: a model folder.
        sentences: the sentences to translate.
        beam_size: K.
        length_penalty: alpha; every program divides by a penalty of its own form.
        threads: CPU threads.
        batch_size: sentences searched together.
        longest: most tokens of a translation with EOS; 0: twice the source length plus 10 (of the
            longest source of a batch for Hugging Face), but 256 for CTranslate2 itself.
        shortest: fewest tokens of a translation without EOS.
        device: `cpu` or `cuda`.
    """

    model: Path
    sentences: list[str]
    beam_size: int
    length_penalty: float
    threads: int
    batch_size: int = 64
    longest: int = 0
    shortest: int = _SHORTEST
    device: str = "cpu"

    def decoding(self, model: TrainedModel) -> DecodingConfig:
        """Return the search configuration."""
        return replace(
            model.config.decoding,
            max_length_ratio=0.0 if self.longest else DecodingConfig.max_length_ratio,
            max_length_offset=self.longest or DecodingConfig.max_length_offset,
            min_length=self.shortest + 1,
            beam_size=self.beam_size,
            length_penalty=self.length_penalty,
            batch_size=self.batch_size,
        )


@dataclass(frozen=True)
class Measurement:
    """Measurements of one program in one round; `num_tokens` counts EOS."""

    seconds: float
    texts: list[str]
    num_tokens: int
    peak_mebibytes: float


@dataclass(frozen=True)
class Output:
    """Translations and the number of their tokens, EOS included."""

    texts: list[str]
    num_tokens: int


Decoder = Callable[[Sequence[str]], Output]
"""Translates sentences with a model that is loaded already."""


def nmt_decoder(
    engine: EngineName,
    compute_type: str,
    job: Job,
    patience: float = 0.0,
    precision: DecodingPrecision = DecodingPrecision.float32,
    fixed_shapes: FixedShapes = FixedShapes.never,
) -> Decoder:
    """Return this project's translator with one of its engines."""
    model = load_trained_model(job.model, torch.device(job.device))
    config = replace(
        job.decoding(model), patience=patience, precision=precision, fixed_shapes=fixed_shapes
    )
    searches = open_engine(engine, compute_type, model, config)
    translator = Translator(model, config, engine=searches)

    def decode(sentences: Sequence[str]) -> Output:
        translations = [best[0] for best in translator.translate(sentences)]
        num_tokens = sum(len(t.hypotheses[0].ids) + 1 for t in translations if t.hypotheses)
        return Output([t.text for t in translations], num_tokens)

    return decode


def ctranslate2_decoder(compute_type: str, job: Job) -> Decoder:
    """Return CTranslate2's own translator, which works on subwords."""
    # Optional, as are the packages of the other programs.
    import ctranslate2  # noqa: PLC0415

    from nmt.exchange.ctranslate2 import convert  # noqa: PLC0415

    model = load_trained_model(job.model)
    with tempfile.TemporaryDirectory() as folder:
        convert(model, Path(folder))
        translator = ctranslate2.Translator(
            folder,
            device=job.device,
            compute_type=compute_type,
            inter_threads=job.threads if job.device == "cpu" else 1,
            intra_threads=1,
        )
    source, target = model.source_tokenizer, model.target_tokenizer
    ids = {piece: index for index, piece in enumerate(target.pieces(range(target.vocabulary_size)))}

    def decode(sentences: Sequence[str]) -> Output:
        pieces = [source.pieces(row) for row in source.encode(sentences)]
        results = translator.translate_batch(
            pieces,
            max_batch_size=job.batch_size,
            beam_size=job.beam_size,
            length_penalty=job.length_penalty,
            min_decoding_length=job.shortest,
            max_decoding_length=job.longest or 256,  # 256 is its default
        )
        rows = [result.hypotheses[0] for result in results]
        texts = target.decode([[ids[piece] for piece in row] for row in rows])
        return Output(texts, sum(len(row) + 1 for row in rows))

    return decode


def handler(
    open_decoder: Callable[[Job], Decoder], job: Job
) -> Callable[[int], Measurement | list[float]]:
    """Return a function that measures a decoder, for a `Worker`.

    It translates all sentences and returns a `Measurement`; given a number, it translates that many
    sentences one by one and returns the seconds of each.
    """
    torch.set_num_threads(job.threads)
    decode = open_decoder(job)
    decode(job.sentences[: job.batch_size])  # warm-up: allocator, thread pool, first touches

    def answer(number: int = 0) -> Measurement | list[float]:
        if not number:
            started = time.perf_counter()
            found = decode(job.sentences)
            seconds = time.perf_counter() - started
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            return Measurement(seconds, found.texts, found.num_tokens, peak)
        each = []
        for sentence in job.sentences[:number]:
            started = time.perf_counter()
            decode([sentence])
            each.append(time.perf_counter() - started)
        return each

    return answer


class Peer:
    """Hugging Face's `generate`, in a process of its own; used like a `Worker` of `handler`.

    Args:
        python: an interpreter with torch, transformers and safetensors.
        job: the sentences.
    """

    def __init__(self, python: str, job: Job) -> None:
        model = load_trained_model(job.model)
        source, target = model.source_tokenizer, model.target_tokenizer
        self._target = target
        self._process = subprocess.Popen(
            [python, str(_PEER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ask(
            json.dumps(
                {
                    "model": to_plain(model.config.model),
                    "weights": str((job.model / WEIGHTS_FILE).resolve()),
                    "vocabulary_size": target.vocabulary_size,
                    "pad_id": target.pad_id,
                    "bos_id": target.bos_id,
                    "eos_id": target.eos_id,
                    "sources": source.encode(job.sentences),
                    "beam_size": job.beam_size,
                    "length_penalty": job.length_penalty,
                    "batch_size": job.batch_size,
                    "threads": job.threads,
                    "longest": job.longest,
                    "shortest": job.shortest,
                    "device": job.device,
                }
            )
        )
        self.ask(20)  # warm-up

    def ask(self, number: int = 0) -> Any:
        """Translate all sentences, or the first `number` one by one; see `handler`."""
        if number:
            return self._ask(f"single {number}")["each"]
        answer = self._ask("all")
        num_tokens = sum(len(ids) + 1 for ids in answer["ids"])
        texts = self._target.decode(answer["ids"])
        return Measurement(answer["seconds"], texts, num_tokens, answer["peak_mebibytes"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answered = self._process.stdout.readline()
        if not answered:
            raise UserError("peer_python=: the process has ended; its messages are above")
        return json.loads(answered)
