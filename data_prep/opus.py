"""Corpora of OPUS (Tiedemann 2012) by name: found by opustools, downloaded as aligned text."""

import sqlite3
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from nmt.base.errors import UserError, disk_errno, first_line
from nmt.base.files import atomic_folder, no_link, put, writing
from nmt.base.locks import exclusive
from nmt.base.system import require_package
from nmt.config import CorpusConfig

_BYTES_PER_UNIT = 1_000
"""Bytes per unit of the sizes that opustools reports."""


def fetch_opus(config: CorpusConfig, folder: Path, report: Callable[[str], None]) -> Path:
    """Download the two text files of a corpus if they are missing; return their common path.

    The common path lacks the ending `.<language>`. An interrupted download continues at the next
    call. Names and releases come from the list in the installed version of opustools, so the same
    command finds the same text later.

    Args:
        config: the corpus; `opus` is its name and release, such as `Europarl/v8`.
        folder: folder for downloads.
        report: receives a message when a download begins, or while another process downloads.

    Raises:
        UserError: OPUS has no such corpus for these languages, or the download fails.
    """
    found = _find(config, folder)
    languages = sorted(config.languages)
    name = f"{found['corpus']}-{found['version']}.{'-'.join(languages)}"
    text = folder / f"{name}.text" / name
    waiting = partial(report, f"waiting for the process that downloads {name}")
    with exclusive(folder / f"{name}.lock", waiting):
        if not text.parent.is_dir():
            archive = folder / f"{name}.zip"
            if not archive.exists():
                part = folder / f"{name}.zip.part"
                _download(found["url"], part, found["size"] * _BYTES_PER_UNIT, report)
                put(part, archive)
            _extract(archive, text, languages)
            archive.unlink()
    return text


def _find(config: CorpusConfig, folder: Path) -> dict[str, Any]:
    """Return the entry of opustools for a corpus: `corpus`, `version`, `url`, `size` and more.

    Raises:
        UserError: there is no entry, the configuration names no release, or the list is damaged.
    """
    require_package("corpus=opus", "opustools", "data")
    from opustools import OpusGet  # noqa: PLC0415 - few corpora need it

    name, _, release = config.opus.partition("/")
    database = folder / "opus.sqlite3"
    with exclusive(folder / "opus.lock", lambda: None):
        try:
            list_of_opus = OpusGet(
                source=config.source_language,
                target=config.target_language,
                directory=name,
                release=release or None,
                preprocess="moses",
                local_db=True,
                database=str(database),
                download_dir=str(folder),
            )
            found, _ = list_of_opus.get_corpora_data()
        except sqlite3.Error as error:
            if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
                raise UserError(f"corpus.opus={config.opus}: {error}") from None
            database.unlink(missing_ok=True)
            raise UserError(f"{database} was damaged ({error}) and is deleted; try again") from None
    if release and found:
        return found[0]
    releases = ", ".join(f"{name}/{one['version']}" for one in found)
    raise UserError(
        f"corpus.opus={config.opus}: "
        + (
            f"name a release, one of {releases}"
            if found
            else f"OPUS has no such corpus for {config.direction}; names and releases are on"
            " https://opus.nlpl.eu, for example Europarl/v8"
        )
    )


def _download(url: str, path: Path, num_bytes: int, report: Callable[[str], None]) -> None:
    """Download a file to `path`, continuing an interrupted download."""
    from huggingface_hub.file_download import http_get  # noqa: PLC0415 - it takes a second

    report(f"downloading {url} ({num_bytes / 1e6:,.0f} MB)")
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path, num_bytes), open(path, "ab", opener=no_link) as stream:
        try:
            http_get(url, stream, resume_size=path.stat().st_size)
        except Exception as error:  # the library's HTTP client raises errors of many types
            if disk_errno(error):
                raise
            raise UserError(
                f"{url}: cannot be downloaded ({first_line(error)}); check the network, and try"
                f" again to continue the download, or remove {path} to begin it again"
            ) from error


def _extract(archive: Path, text: Path, languages: list[str]) -> None:
    """Extract the files of both languages; zipfile verifies their checksums."""
    try:
        with zipfile.ZipFile(archive) as zipped:
            members = {name.rpartition(".")[2]: name for name in zipped.namelist()}
            with atomic_folder(text.parent) as temporary:
                for language in languages:
                    extracted = zipped.extract(members[language], temporary)
                    Path(extracted).rename(temporary / f"{text.name}.{language}")
    except (zipfile.BadZipFile, zlib.error, KeyError) as error:
        archive.unlink()
        raise UserError(f"{archive} was damaged ({error}) and is deleted; try again") from None
