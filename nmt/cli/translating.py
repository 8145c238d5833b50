"""Translation into files, shared by `translate` and `backtranslate`."""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.base.files import check_unchanged, file_version
from nmt.base.log import print_line
from nmt.base.progress import progress_bar
from nmt.base.resumable import ResumableOutputs
from nmt.translation.lines import LineTranslator, chunks_of, raw_lines


def translate_to_files(
    translator: LineTranslator,
    source: Path | Iterator[bytes],
    outs: Sequence[Path],
    settings: Mapping[str, Any],
    models: Sequence[Path],
    resume: bool,
    overwrite: bool = False,
) -> int:
    """Translate lines into files; with `resume`, the same command continues after an interruption.

    Args:
        translator: translates the lines.
        source: a file, of which all lines are checked first, or a stream.
        outs: the output files; see `ResumableOutputs.open` for `resume` and `overwrite`.
        settings: what the translations depend on besides the input.
        models: the model folders; no output may replace a file in them.

    Returns:
        The number of input lines.

    Raises:
        UserError: a line is invalid, an output file exists and is not to be overwritten, or the
            input changes meanwhile.
    """
    versions, size, total = {}, None, None
    if isinstance(source, Path):
        versions[source] = file_version(source)
        size = versions[source][0]
        total = sum(1 for _ in translator.read(raw_lines(source)))
    lines = raw_lines(source) if isinstance(source, Path) else source
    inputs = [*models, *versions]
    with ResumableOutputs.open(outs, settings, inputs, resume, overwrite) as outputs:
        read = outputs.skip_done(lines, translator.name)
        done = outputs.num_lines
        if done:
            print_line(f"continuing after line {done:,}")
        started = time.monotonic()
        try:
            with progress_bar("translating", total, done) as advance:
                for chunk, texts in translator.translate(chunks_of(lines), done + 1, advance):
                    # Expect a translation to be about as long as its source.
                    outputs.add(chunk, texts, None if size is None else max(0, size - read))
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
    print_line(f"{count:,} lines translated in {seconds:,.1f} s ({speed:,.0f} per second)")
    return outputs.num_lines
