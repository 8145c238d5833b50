"""Published clients of LibreTranslate translate with the server as they are."""

import pytest

from tests.unit.nmt.server.test_process import Server

pytest.importorskip("fastapi", reason="make install-serve")

TEXT = "Kalo mi nepu."


def test_libretranslatepy(server: Server) -> None:
    package = pytest.importorskip("libretranslatepy")
    client = package.LibreTranslateAPI(server[1])
    assert client.languages()[0] == {"code": "en", "name": "English", "targets": ["de"]}
    assert client.translate(TEXT, "en", "de")
    assert client.detect("Das Kind sieht die Katze.")[0]["language"] == "de"


def test_deep_translator(server: Server) -> None:
    package = pytest.importorskip("deep_translator")
    client = package.LibreTranslator("en", "de", custom_url=server[1], api_key="any")
    [first, second] = client.translate_batch([TEXT, "Ne pu?"])
    assert first == client.translate(TEXT)
    assert second != first


def test_argostranslate(server: Server) -> None:
    apis = pytest.importorskip("argostranslate.apis")
    client = apis.LibreTranslateAPI(server[1])
    assert client.translate(TEXT, "en", "de")
    assert [one["code"] for one in client.languages()] == ["en", "de"]
