"""Learn subwords with sentencepiece from a sample of the cleaned text.

A table in the model file normalises text like `data_prep.clean` (white space, composed characters),
so raw text gets the form that a trained model expects. Decoding restores normalised text exactly.

sentencepiece runs in a separate process, because its C++ code cannot be interrupted from Python and
writes to stderr.
"""

import json
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from data_prep.clean import WHITE_SPACE
from data_prep.progress import Reporter
from nmt.base.errors import UserError
from nmt.base.files import atomic_path, iterate_lines, temporary_path
from nmt.config import TokenizerConfig
from nmt.tokenizer import RULES_FILE

TOKENIZER_VERSION = 1
"""Part of the fingerprint of a corpus: raise it whenever the results of this module change."""

UNKNOWN_ID, BOS_ID, EOS_ID, PAD_ID = 0, 1, 2, 3

NUM_THREADS = 4
"""Fixed, because rounding depends on it and may change the last pieces of a unigram vocabulary."""

MAX_SENTENCE_BYTES = 1 << 16
"""sentencepiece ignores longer sentences; the default filters drop them."""

_LAST_COMPOSED = 0x2FFFF
"""The last code point that may be a composed character or white space."""

_SAMPLE_FILE = "sample.txt"

# sentencepiece does not check for errors when it writes a file; writing to stdout does.
_TRAIN_SCRIPT = """
import json, sys
import sentencepiece
try:
    options = json.load(sys.stdin)
    sentencepiece.SentencePieceTrainer.train(**options, model_writer=sys.stdout.buffer)
except (RuntimeError, OSError) as error:
    sys.exit(str(error))
"""


def train_tokenizer(
    paths: Sequence[Path],
    num_lines: int,
    config: TokenizerConfig,
    output: Path,
    reporter: Reporter,
    tags: Sequence[str] = (),
) -> None:
    """Learn subwords from text files and write the model file.

    Args:
        paths: files of cleaned text, one sentence per line.
        num_lines: number of lines in all files.
        config: kind and size of the vocabulary.
        output: path of the model file.
        reporter: shows progress.
        tags: symbols that become one piece each, besides those of `config`.

    Raises:
        UserError: the text does not allow a vocabulary of this size.
    """
    size = min(config.sample_sentences or num_lines, num_lines)
    with temporary_path(output) as folder:
        folder.mkdir()
        with (folder / _SAMPLE_FILE).open("w", encoding="utf-8", newline="\n") as out:
            out.writelines(f"{line}\n" for line in sample_lines(paths, num_lines, size))
        rules = "".join(f"{rule}\n" for rule in normalisation_rules())
        (folder / RULES_FILE).write_text(rules, encoding="utf-8")
        with reporter.stage(f"Learning subwords from {size:,} sentences", None):
            model = _run_trainer(folder, config, output, tags)
    with atomic_path(output, len(model)) as temporary:
        temporary.write_bytes(model)


def sample_lines(paths: Sequence[Path], num_lines: int, size: int) -> Iterator[str]:
    """Yield `size` of the `num_lines` lines of all files, at even distances."""
    index = 0
    for path in paths:
        for line in iterate_lines(path):
            # True for exactly `size` values of `index`, at even distances.
            if index * size // num_lines != (index + 1) * size // num_lines:
                yield line
            index += 1


def normalisation_rules() -> Iterator[str]:
    """Yield the lines of a table by which sentencepiece normalises like `clean.normalise`.

    A line has hexadecimal code points, a tab, and the code points that replace them. Sequences of
    Hangul letters are not composed to syllables: their rules, which Unicode states as a formula,
    would make the table five times as long.
    """
    yield from ("FEFF\t", "2581\t5F")
    rules = set()
    for character in map(chr, range(1, _LAST_COMPOSED + 1)):
        if WHITE_SPACE.fullmatch(character):
            rules.add((character, " "))
        # Compatibility characters such as ½, whose decomposition begins with "<", stay as they are.
        elif unicodedata.decomposition(character)[:1] not in ("", "<"):
            composed = unicodedata.normalize("NFC", character)
            decomposed = unicodedata.normalize("NFD", character)
            rules.update((form, composed) for form in (character, decomposed) if form != composed)
    rules.discard((" ", " "))
    for form, composed in sorted(rules):
        yield f"{_code_points(form)}\t{_code_points(composed)}"


def _code_points(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)


def _run_trainer(folder: Path, config: TokenizerConfig, output: Path, tags: Sequence[str]) -> bytes:
    """Run sentencepiece in `folder` and return the model."""
    options = {
        # Names relative to the working directory: sentencepiece splits paths at commas.
        "input": _SAMPLE_FILE,
        "normalization_rule_tsv": RULES_FILE,
        "model_type": config.algorithm.name,
        "vocab_size": config.vocabulary_size,
        "character_coverage": config.character_coverage,
        "byte_fallback": config.byte_fallback,
        "split_digits": config.split_digits,
        "user_defined_symbols": list(dict.fromkeys((*config.user_symbols, *tags))),
        "unk_id": UNKNOWN_ID,
        "bos_id": BOS_ID,
        "eos_id": EOS_ID,
        "pad_id": PAD_ID,
        "max_sentence_length": MAX_SENTENCE_BYTES,
        "num_threads": NUM_THREADS,
        "train_extremely_large_corpus": config.sample_sentences == 0,
        "minloglevel": 2,
    }
    ended = subprocess.run(
        [sys.executable, "-c", _TRAIN_SCRIPT],
        cwd=folder,
        input=json.dumps(options).encode(),
        capture_output=True,
        check=False,
    )
    if ended.returncode:
        message = ended.stderr.decode(errors="replace").strip()
        raise _explain(message or f"it ended with status {ended.returncode}", config, output)
    return ended.stdout


def _explain(message: str, config: TokenizerConfig, output: Path) -> UserError:
    key = f"tokenizer.vocabulary_size={config.vocabulary_size}"
    if found := re.search(r"Vocabulary size too high .*<= (\d+)", message):
        return UserError(f"{key} is larger than the text allows; the maximum is {found[1]}")
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return UserError(
            f"{key} is too small: the characters of the text need {found[1]}; raise it, or"
            f" lower tokenizer.character_coverage={config.character_coverage}"
        )
    last = message.splitlines()[-1]
    return UserError(f"{output.name}: sentencepiece failed with {key}: {last}")
