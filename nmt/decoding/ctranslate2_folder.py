"""A model folder's form for CTranslate2: converted once, checked against torch, kept beside it."""

import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ctranslate2
import torch

from nmt.decoding.ctranslate2_spec import all_pieces, specification
from nmt.decoding.forced import ForcedDecoder
from nmt.disk_fault import DiskFault
from nmt.errors import UserError
from nmt.files import atomic_folder, file_inside, read_json, write_json
from nmt.model.transformer import count_parameters
from nmt.tokenizer import Tokenizer, tokenizer_files
from nmt.trained_model import CONFIG_FILE, WEIGHTS_FILE, TrainedModel

CACHE_FOLDER = "ctranslate2-float32"
RECORD_FILE = "made_of.json"

CONVERSION_VERSION = 1
"""To be raised when `ctranslate2_spec` writes another thing of the same model."""

_MOST_RECORD_BYTES = 65_536
# Two programs of 32-bit arithmetic differ by 1e-5 nats a token; a forgotten factor or offset, by
# tenths and more.
_TOLERANCE, _RELATIVE_TOLERANCE = 1e-3, 1e-4
_CHECKED_LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34)

logger = logging.getLogger(__name__)


@contextmanager
def converted(model: TrainedModel, folder: Path) -> Iterator[Path]:
    """The folder to load CTranslate2's form of a model from, while the block runs.

    It is kept in the model folder, and made again when the weights, the tokenizers or a program
    are others. Where that folder cannot be written, it is made for this time only.

    Args:
        model: the model.
        folder: the folder it was loaded from.

    Raises:
        UserError: CTranslate2 cannot hold the model, or scores its translations otherwise.
    """
    cache = folder / CACHE_FOLDER
    made_of = _ingredients(model, folder)
    if not _is_current(cache, made_of):
        try:
            _convert_into(cache, model, made_of)
        except DiskFault as fault:
            logger.info("%s; it is converted for this time only", fault)
            with tempfile.TemporaryDirectory() as scratch:
                convert(model, Path(scratch))
                yield Path(scratch)
            return
    yield cache


def convert(model: TrainedModel, folder: Path) -> None:
    """Write CTranslate2's form of a model into an empty folder, and check it against torch.

    Raises:
        UserError: CTranslate2 cannot hold the model, or scores its translations otherwise.
    """
    spec = specification(model)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    difference = _largest_difference(model, folder)
    # Not `difference > 1`, which NaN passes.
    if not difference <= 1:
        raise UserError(
            "CTranslate2 scores translations of this model otherwise than this program:"
            f" {difference:,.1f} times the tolerance of {_TOLERANCE} nats a token; take"
            " engine=torch"
        )


def _convert_into(cache: Path, model: TrainedModel, made_of: dict[str, Any]) -> None:
    logger.info("converting the model for CTranslate2: %s", cache)
    with atomic_folder(cache, 4 * count_parameters(model.transformer)) as temporary:
        convert(model, temporary)
        record = {"made_of": made_of, "files": _identities(temporary)}
        write_json(temporary / RECORD_FILE, record)


def _ingredients(model: TrainedModel, folder: Path) -> dict[str, Any]:
    """What a conversion depends on."""
    config = model.config
    tokenizers = tokenizer_files(
        config.joint_vocabulary, config.source_language, config.target_language
    )
    checksums = {}
    for name in dict.fromkeys((CONFIG_FILE, WEIGHTS_FILE, *tokenizers)):
        with file_inside(folder, name).open("rb") as stream:
            checksums[name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return {
        "sha256": checksums,
        "ctranslate2": ctranslate2.__version__,
        "conversion_version": CONVERSION_VERSION,
    }


def _is_current(cache: Path, made_of: dict[str, Any]) -> bool:
    record = cache / RECORD_FILE
    try:
        if record.stat().st_size > _MOST_RECORD_BYTES:
            return False
        return bool(read_json(record) == {"made_of": made_of, "files": _identities(cache)})
    except (OSError, UserError):
        return False


def _identities(folder: Path) -> dict[str, list[int]]:
    """Number, last change and size of each file, which a copy does not share.

    A model folder may come from a stranger, with a cache in it that CTranslate2 would read without
    the checks that our own files pass: what was not written here is made again.
    """
    return {
        entry.name: [status.st_ino, status.st_ctime_ns, status.st_size]
        for entry in os.scandir(folder)
        if entry.name != RECORD_FILE
        for status in (entry.stat(follow_symlinks=False),)
    }


def open_translator(folder: Path, **options: Any) -> ctranslate2.Translator:
    """CTranslate2's translator with these of its options; torch keeps its number of threads."""
    num_threads = torch.get_num_threads()
    translator = ctranslate2.Translator(str(folder), **options)
    # Both ask OpenMP how many threads this thread may have, and CTranslate2 changes the answer.
    torch.set_num_threads(num_threads)
    return translator


def _largest_difference(model: TrainedModel, folder: Path) -> float:
    """How far both programs are apart on made-up sentences, in tolerances; 1 is still allowed."""
    generator = torch.Generator().manual_seed(1)
    config = model.config
    sources = [
        _made_up(model.source_tokenizer, min(length, config.max_source_length - 1), generator)
        for length in _CHECKED_LENGTHS
    ]
    targets = [
        _made_up(model.target_tokenizer, min(length, config.model.max_length - 1), generator)
        for length in reversed(_CHECKED_LENGTHS)
    ]
    pairs = list(zip(sources, targets, strict=True))
    forced = ForcedDecoder(model).token_log_probs(pairs)
    ours = torch.tensor([value for values in forced for value in values])
    source_pieces, target_pieces = map(all_pieces, (model.source_tokenizer, model.target_tokenizer))
    translator = open_translator(
        folder, compute_type="float32", intra_threads=torch.get_num_threads()
    )
    scored = translator.score_batch(
        [[source_pieces[i] for i in ids] for ids in sources],
        [[target_pieces[i] for i in ids] for ids in targets],
        max_input_length=0,
    )
    theirs = torch.tensor([value for result in scored for value in result.log_probs])
    if theirs.shape != ours.shape:
        return float("inf")
    allowed = _TOLERANCE + _RELATIVE_TOLERANCE * ours.abs()
    return float(((ours - theirs).abs() / allowed).max())


def _made_up(tokenizer: Tokenizer, length: int, generator: torch.Generator) -> list[int]:
    special = (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unknown_id)
    ordinary = [i for i in range(tokenizer.vocabulary_size) if i not in special]
    drawn = torch.randint(len(ordinary), (length,), generator=generator).tolist()
    return [ordinary[place] for place in drawn]
