"""Subwords: sentencepiece learns them from a sample of the cleaned text.

The model normalises text as `data_prep.clean` does (white space, composed characters), by a table
that goes into the model file: a trained model reads raw text and sees what it saw in training. For
text that is normalised already, decoding what was encoded gives the same text back, always.

sentencepiece runs in a process of its own. Its C++ cannot be interrupted from Python and writes to
stderr as it likes; a process can be stopped, and has a stderr of its own.
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
from nmt.config import TokenizerConfig
from nmt.errors import UserError
from nmt.files import atomic_path, iterate_lines, scratch_folder

TOKENIZER_VERSION = 1
"""Part of the corpus's fingerprint: raise it whenever this module's results change."""

UNKNOWN_ID, BOS_ID, EOS_ID, PAD_ID = 0, 1, 2, 3

NUM_THREADS = 4
"""Fixed: sums over threads are rounded by their number, so the cores of a machine would decide
about the last piece of a unigram vocabulary."""

MAX_SENTENCE_BYTES = 1 << 16
"""sentencepiece drops longer sentences in silence; cleaned text has none unless asked for."""

_LAST_COMPOSED = 0x2FFFF
"""Beyond this code point Unicode has no character that it composes or takes for white space."""

_SAMPLE_FILE = "sample.txt"
_RULES_FILE = "normalisation.tsv"

# To stdout: sentencepiece itself writes a file without asking whether the disk has taken it.
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
) -> None:
    """Learn subwords from text files and write the model file.

    Args:
        paths: cleaned text, one sentence a line.
        num_lines: lines in all of them together.
        config: what to learn.
        output: the model file.
        reporter: where progress goes.

    Raises:
        UserError: the text does not allow a vocabulary of that size.
    """
    size = min(config.sample_sentences or num_lines, num_lines)
    with scratch_folder(output) as folder:
        with (folder / _SAMPLE_FILE).open("w", encoding="utf-8", newline="\n") as out:
            out.writelines(f"{line}\n" for line in sample_lines(paths, num_lines, size))
        rules = "".join(f"{rule}\n" for rule in normalisation_rules())
        (folder / _RULES_FILE).write_text(rules, encoding="utf-8")
        with reporter.stage(f"Learning subwords from {size:,} sentences", None):
            model = _run_trainer(folder, config, output)
    with atomic_path(output, len(model)) as temporary:
        temporary.write_bytes(model)


def sample_lines(paths: Sequence[Path], num_lines: int, size: int) -> Iterator[str]:
    """`size` of the lines, spread evenly over the files: no chance, no memory."""
    index = 0
    for path in paths:
        for line in iterate_lines(path):
            # True for exactly `size` values of index, at even distances.
            if index * size // num_lines != (index + 1) * size // num_lines:
                yield line
            index += 1


def normalisation_rules() -> Iterator[str]:
    """`clean.normalise` as sentencepiece's table: code points, a tab, code points, in hexadecimal.

    The composed characters are those that Unicode lists one by one; Hangul syllables, which it
    composes by a formula, would make the table five times as long and are left as they come.
    """
    yield from ("FEFF\t", "2581\t5F")
    rules = set()
    for code in range(1, _LAST_COMPOSED + 1):
        character = chr(code)
        if 0xD800 <= code <= 0xDFFF or 0xAC00 <= code <= 0xD7A3:
            continue
        if WHITE_SPACE.fullmatch(character):
            if character != " ":
                rules.add((character, " "))
            continue
        composed = unicodedata.normalize("NFC", character)
        decomposed = unicodedata.normalize("NFD", character)
        rules.update((form, composed) for form in (character, decomposed) if form != composed)
    for form, composed in sorted(rules):
        yield f"{_code_points(form)}\t{_code_points(composed)}"


def _code_points(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)


def _run_trainer(folder: Path, config: TokenizerConfig, output: Path) -> bytes:
    """Run sentencepiece in `folder`; returns the model."""
    options = {
        # Relative names, and the folder as working directory: in sentencepiece a comma in a path
        # would be the end of it.
        "input": _SAMPLE_FILE,
        "normalization_rule_tsv": _RULES_FILE,
        "model_type": config.algorithm.value,
        "vocab_size": config.vocabulary_size,
        "character_coverage": config.character_coverage,
        "byte_fallback": config.byte_fallback,
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
        complaint = ended.stderr.decode(errors="replace").strip()
        raise _explain(complaint or f"it ended with status {ended.returncode}", config, output)
    return ended.stdout


def _explain(complaint: str, config: TokenizerConfig, output: Path) -> UserError:
    key = f"tokenizer.vocabulary_size={config.vocabulary_size}"
    if found := re.search(r"Vocabulary size too high .*<= (\d+)", complaint):
        return UserError(
            f"{key} is larger than the text allows; the largest that works is {found[1]}"
        )
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", complaint):
        return UserError(
            f"{key} is too small: the characters of the text alone need {found[1]}; raise it, or"
            f" lower tokenizer.character_coverage={config.character_coverage}"
        )
    last = complaint.splitlines()[-1]
    return UserError(f"{output.name}: sentencepiece could not learn it with {key}: {last}")
