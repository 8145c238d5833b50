"""Translation of files and streams, line by line, into files and streams."""

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from nmt.base.files import check_unchanged, file_version, raw_lines
from nmt.base.log import print_line
from nmt.base.progress import progress_bar
from nmt.base.stdin import Stdin
from nmt.translation.lines import LineTranslator, arriving_chunks, chunks_of
from nmt.translation.resumable import ResumableOutputs

# Lines by which a stream is recognised when its translation is continued: few, so that an invalid
# line after them can be corrected.
_LINES_OF_A_STREAM = 10


def translate_to_files(
    translator: LineTranslator,
    source: Path | Iterator[bytes],
    outs: Sequence[Path],
    settings: Mapping[str, Any],
    models: Sequence[Path],
    resume: bool,
    replaces: bool = False,
) -> list[Path]:
    """Translate lines into files; with `resume`, the same command continues after an interruption.

    Args:
        translator: translates the lines.
        source: a file, of which all lines are checked first, or a stream.
        outs: the output files; see `ResumableOutputs.open` for `resume` and `replaces`.
        settings: what the translations depend on besides the input.
        models: the model folders; no output may replace a file in them.

    Returns:
        The files that were written.

    Raises:
        UserError: a line is invalid, an output file exists and is not to be replaced, or the input
            changes meanwhile.
    """
    versions, size, total = {}, None, None
    digest = hashlib.sha256()
    if isinstance(source, Path):
        versions[source] = file_version(source)
        size = versions[source][0]
        total = sum(1 for _ in translator.read(_hashed(raw_lines(source), digest)))
        lines, name = raw_lines(source), f"{total:,} lines"
    else:
        first = list(_hashed(islice(source, _LINES_OF_A_STREAM), digest))
        lines, name = chain(first, source), "a stream"
    made_with = {**settings, "input": f"{name}, SHA-256 {digest.hexdigest()[:16]}"}
    with ResumableOutputs.open(outs, made_with, [*models, *versions], resume, replaces) as outputs:
        done = outputs.num_lines
        if outputs.is_complete:
            print_line("the translation is complete")
            return outputs.paths
        if done:
            print_line(f"continuing after line {done:,}")
        read = sum(map(len, islice(lines, done)))
        started = time.monotonic()
        try:
            with progress_bar("translating", total, done) as advance:
                for chunk, texts in translator.translate(chunks_of(lines), done + 1, advance):
                    # Expect a translation to be about as long as its source.
                    outputs.add(texts, None if size is None else max(0, size - read))
                    read += sum(map(len, chunk))
        except BaseException:
            if outputs.num_lines:
                command = "the same command" if resume else "the command without resume=false"
                print_line(
                    f"{outputs.paths[0]}.part has the first {outputs.num_lines:,} lines; {command}"
                    " continues from there"
                )
            raise
        check_unchanged(versions)
        outputs.complete()
    seconds, count = time.monotonic() - started, outputs.num_lines - done
    speed = count / max(seconds, 1e-9)
    print_line(f"lines translated: {count:,} in {seconds:,.1f} s ({speed:,.0f} per second)")
    return outputs.paths


def translate_to_stream(translator: LineTranslator, file: Path | None, out: IO[str]) -> None:
    """Translate a file, or the lines of stdin as they arrive, and write each chunk at once."""
    if file is None:
        chunks = arriving_chunks(Stdin().read, translator.name)
    else:
        for _ in translator.read(raw_lines(file)):  # report an invalid line before long work
            pass
        chunks = chunks_of(raw_lines(file))
    for _, (text,) in translator.translate(chunks):
        out.write(text)
        out.flush()


def _hashed(lines: Iterable[bytes], digest: "hashlib._Hash") -> Iterator[bytes]:
    for line in lines:
        digest.update(line)
        yield line
