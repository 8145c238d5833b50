import io
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from data_prep import opus
from data_prep.manifest import FactsCache
from data_prep.opus import fetch_opus
from data_prep.sources import open_source
from nmt.base.errors import UserError
from nmt.config import CorpusConfig, CorpusSource

CONFIG = CorpusConfig(source=CorpusSource.opus, opus="Books/v1", direction="en-de")
LINES = {"en": "A book.\nTwo\u2028books.\n", "de": "Ein Buch.\nZwei Bücher.\n"}


def ignore(message: str) -> None:
    pass


@pytest.fixture
def archive() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("README", "licence")
        for language, text in LINES.items():
            zipped.writestr(f"Books.de-en.{language}", text)
    return stream.getvalue()


@pytest.fixture
def ranges(archive: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The ranges that a local server was asked for; opustools names this server."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Range", ""))
            first = int(asked[-1][6:-1] or 0) if asked[-1] else 0
            body = archive[first:]
            self.send_response(206 if first else 200)
            self.send_header("Content-Length", str(len(body)))
            if first:
                content_range = f"bytes {first}-{len(archive) - 1}/{len(archive)}"
                self.send_header("Content-Range", content_range)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/de-en.txt.zip"
    found = {"corpus": "Books", "version": "v1", "url": url, "size": 1}
    monkeypatch.setattr(opus, "_find", lambda config, folder: found)
    yield asked
    server.shutdown()


def test_a_corpus_is_downloaded_once(ranges: list[str], tmp_path: Path) -> None:
    facts = FactsCache(tmp_path / "facts.json")
    source = open_source(CONFIG, tmp_path, facts, ignore)
    assert list(source.pairs("train")) == [
        ("A book.", "Ein Buch."),
        ("Two\u2028books.", "Zwei Bücher."),
    ]
    back = open_source(replace(CONFIG, direction="de-en"), tmp_path, facts, ignore)
    assert list(back.pairs("train")) == [(b, a) for a, b in source.pairs("train")]
    assert ranges == [""]


def test_an_interrupted_download_continues(
    ranges: list[str], archive: bytes, tmp_path: Path
) -> None:
    (tmp_path / "Books-v1.de-en.zip.part").write_bytes(archive[:50])
    text = fetch_opus(CONFIG, tmp_path, ignore)
    assert ranges == ["bytes=50-"]
    for language, lines in LINES.items():
        assert Path(f"{text}.{language}").read_text(encoding="utf-8") == lines
    assert not (tmp_path / "Books-v1.de-en.zip").exists()


@pytest.mark.parametrize(("damaged", "number"), [("Books.de-en.en", 8), ("", 200)])
def test_a_damaged_download_is_deleted(
    ranges: list[str], archive: bytes, damaged: str, number: int, tmp_path: Path
) -> None:
    start = archive.index(damaged.encode()) + len(damaged)
    (tmp_path / "Books-v1.de-en.zip").write_bytes(archive[:start] + b"\xff" * number)
    with pytest.raises(UserError, match=r"was damaged .* and is deleted; try again"):
        fetch_opus(CONFIG, tmp_path, ignore)
    assert Path(f"{fetch_opus(CONFIG, tmp_path, ignore)}.en").is_file()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Europarl", "name a release, one of Europarl/v3, Europarl/v7, Europarl/v8"),
        ("Europarl/v99", "OPUS has no such corpus for en-de"),
        ("../etc/v1", "OPUS has no such corpus for en-de"),
    ],
)
def test_a_corpus_that_opus_does_not_have(name: str, message: str, tmp_path: Path) -> None:
    pytest.importorskip("opustools")
    with pytest.raises(UserError, match=message):
        fetch_opus(replace(CONFIG, opus=name), tmp_path, ignore)


def test_a_complete_download_is_not_asked_for_again(
    ranges: list[str], archive: bytes, tmp_path: Path
) -> None:
    (tmp_path / "Books-v1.de-en.zip").write_bytes(archive)
    assert Path(f"{fetch_opus(CONFIG, tmp_path, ignore)}.en").is_file()
    assert ranges == []


def test_a_damaged_list_of_opustools_is_deleted(tmp_path: Path) -> None:
    pytest.importorskip("opustools")
    (tmp_path / "opus.sqlite3").touch()
    with pytest.raises(UserError, match=r"opus.sqlite3 was damaged .* and is deleted; try again"):
        fetch_opus(CONFIG, tmp_path, ignore)
    assert not (tmp_path / "opus.sqlite3").exists()


def test_the_list_of_opustools_has_the_corpus(tmp_path: Path) -> None:
    pytest.importorskip("opustools")
    found = opus._find(replace(CONFIG, opus="Europarl/v8"), tmp_path)
    assert found["url"].endswith("/OPUS-Europarl/v8/moses/de-en.txt.zip")
