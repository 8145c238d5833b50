"""Programs that translate the same sentences with the same weights, each in its own process."""

import json
import multiprocessing as mp
import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import ctranslate2
import torch

from nmt.cli.engines import EngineName, open_engine
from nmt.config import DecodingConfig, to_plain
from nmt.decoding.ctranslate2_folder import converted
from nmt.decoding.translator import Translator
from nmt.errors import UserError
from nmt.tokenizer import Tokenizer
from nmt.trained_model import WEIGHTS_FILE, TrainedModel, load_trained_model

# Tokens that a translation has at least, EOS not counted as other programs do not.
_SHORTEST = DecodingConfig.min_length - 1

_PEER = Path(__file__).with_name("peer_hugging_face.py")


@dataclass(frozen=True)
class Job:
    """What all of them do.

    Attributes:
        model: a model folder.
        sentences: what is translated.
        beam_size: K.
        length_penalty: alpha; each program divides by a penalty of its own form.
        threads: of the processor.
        batch_size: sentences searched together.
        longest: most tokens of a translation, EOS included; 0 leaves each program its usual: ours
            twice the source's and 10, CTranslate2 256.
    """

    model: Path
    sentences: list[str]
    beam_size: int
    length_penalty: float
    threads: int
    batch_size: int = 64
    longest: int = 0

    def decoding(self, model: TrainedModel) -> DecodingConfig:
        """The search, in our terms."""
        return replace(
            model.config.decoding,
            # As a model has them that is trained today, however old this one is.
            max_length_ratio=0.0 if self.longest else DecodingConfig.max_length_ratio,
            max_length_offset=self.longest or DecodingConfig.max_length_offset,
            min_length=DecodingConfig.min_length,
            beam_size=self.beam_size,
            length_penalty=self.length_penalty,
            batch_size=self.batch_size,
        )


@dataclass(frozen=True)
class Turn:
    """What one program did in one turn: seconds, translations, their tokens with EOS."""

    seconds: float
    texts: list[str]
    num_tokens: int
    peak_mebibytes: float


@dataclass(frozen=True)
class Found:
    """What a decoder gives: texts, and their tokens with EOS."""

    texts: list[str]
    num_tokens: int


class Decoder(Protocol):
    """Translates sentences; what it needs to do so is there already."""

    def __call__(self, sentences: Sequence[str], /) -> Found:
        """Translate."""


Opened = Callable[[Job], Decoder]


def ours(engine: EngineName, compute_type: str, job: Job, patience: float = 0.0) -> Decoder:
    """Our translator with one of its engines, from text to text."""
    model = load_trained_model(job.model)
    config = replace(job.decoding(model), patience=patience)
    searches = open_engine(engine, compute_type, model, config, job.model)
    translator = Translator(model, config, engine=searches)

    def decode(sentences: Sequence[str]) -> Found:
        translations = [best[0] for best in translator.translate(sentences)]
        num_tokens = sum(len(t.hypotheses[0].ids) + 1 for t in translations if t.hypotheses)
        return Found([t.text for t in translations], num_tokens)

    return decode


def bare(compute_type: str, job: Job) -> Decoder:
    """CTranslate2's translator as its own users call it, on pieces."""
    model = load_trained_model(job.model)
    with converted(model, job.model) as folder:
        translator = ctranslate2.Translator(
            str(folder), compute_type=compute_type, inter_threads=job.threads, intra_threads=1
        )
    source, target = model.source_tokenizer, model.target_tokenizer
    ids = {piece: index for index, piece in enumerate(target.pieces(range(target.vocabulary_size)))}

    def decode(sentences: Sequence[str]) -> Found:
        pieces = [source.pieces(row) for row in source.encode(sentences)]
        results = translator.translate_batch(
            pieces,
            max_batch_size=job.batch_size,
            beam_size=job.beam_size,
            length_penalty=job.length_penalty,
            min_decoding_length=_SHORTEST,
            max_decoding_length=job.longest or 256,  # 256 is its default
        )
        rows = [result.hypotheses[0] for result in results]
        texts = target.decode([[ids[piece] for piece in row] for row in rows])
        return Found(texts, sum(len(row) + 1 for row in rows))

    return decode


class Contender:
    """A process of ours that translates when it is told to.

    Args:
        open_decoder: makes the decoder, in that process.
        job: what it translates.
    """

    def __init__(self, open_decoder: Opened, job: Job) -> None:
        context = mp.get_context("spawn")
        self._here, there = context.Pipe()
        # daemon: it ends with us, whatever we end by.
        self._process = context.Process(target=_serve, args=(there, open_decoder, job), daemon=True)
        self._process.start()
        there.close()  # so that its death is an end of what can be read here
        self._here.recv()

    def turn(self) -> Turn:
        """Translate all sentences."""
        self._here.send(None)
        turn: Turn = self._here.recv()
        return turn

    def single(self, number: int) -> list[float]:
        """Seconds of each of the first sentences by itself."""
        self._here.send(number)
        seconds: list[float] = self._here.recv()
        return seconds

    def close(self) -> None:
        """End the process."""
        self._here.send(-1)
        self._process.join()


def _serve(there: Connection, open_decoder: Opened, job: Job) -> None:
    torch.set_num_threads(job.threads)
    decode = open_decoder(job)
    decode(job.sentences[: job.batch_size])  # warm-up: allocator, thread pool, first touches
    there.send(None)
    while (number := there.recv()) != -1:
        if number is None:
            started = time.perf_counter()
            found = decode(job.sentences)
            seconds = time.perf_counter() - started
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            there.send(Turn(seconds, found.texts, found.num_tokens, peak))
            continue
        each = []
        for sentence in job.sentences[:number]:
            started = time.perf_counter()
            decode([sentence])
            each.append(time.perf_counter() - started)
        there.send(each)


class Peer:
    """Hugging Face's `generate`, by an interpreter that has it.

    Args:
        python: the interpreter.
        job: what it translates.
    """

    def __init__(self, python: str, job: Job) -> None:
        self._model = load_trained_model(job.model)
        source, target = self._model.source_tokenizer, self._model.target_tokenizer
        self._target: Tokenizer = target
        self._process = subprocess.Popen(
            [python, str(_PEER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ask(
            json.dumps(
                {
                    "model": to_plain(self._model.config.model),
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
                    "shortest": _SHORTEST,
                }
            )
        )
        self._ask("single 20")  # warm-up

    def turn(self) -> Turn:
        """Translate all sentences."""
        answer = self._ask("turn")
        num_tokens = sum(len(ids) + 1 for ids in answer["ids"])
        texts = self._target.decode(answer["ids"])
        return Turn(answer["seconds"], texts, num_tokens, answer["peak_mebibytes"])

    def single(self, number: int) -> list[float]:
        """Seconds of each of the first sentences by itself."""
        seconds: list[float] = self._ask(f"single {number}")["each"]
        return seconds

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
            raise UserError("peer_python=: that process has ended; what it said is above")
        answer: dict[str, Any] = json.loads(answered)
        return answer
