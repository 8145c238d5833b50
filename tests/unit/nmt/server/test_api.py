"""The API, as clients use it; results equal those of the pipeline of `nmt translate`."""

import hashlib
import io
import json
import random
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from nmt.trained_model import TrainedModel
from nmt.translation.alignment import Aligner
from nmt.translation.glossary import Glossary
from nmt.translation.pipeline import Pipeline
from nmt.translation.protection import Protection
from nmt.translation.request import Request
from nmt.translation.term_files import parse_terms
from nmt.translation.translator import Translator
from tests.support import made_up_sentences

pytest.importorskip("fastapi", reason="make install-serve")

Served = Callable[..., Any]
TEXT = "Kalo mi nepu. Raso ti!"


def translations(model: TrainedModel, texts: list[str], num_best: int = 1) -> list[list[str]]:
    """Translate each text by itself, as `nmt translate document=true protect=true` does."""
    config = replace(model.config.decoding, num_best=num_best)
    protection = Protection(Aligner(model))
    pipeline = Pipeline(Translator(model, config), "en", protection)
    return [[one.text for one in pipeline.translate([Request(text)])[0]] for text in texts]


def test_results_do_not_depend_on_the_company(served: Served, trained_model: TrainedModel) -> None:
    generator = random.Random(1)
    sentences = made_up_sentences(60, seed=2)
    texts = [" ".join(generator.sample(sentences, generator.randint(1, 4))) for _ in range(40)]
    texts += ["", "  ", "Kalo <b>mi</b> {name} https://example.org/a.", "ne\n\n- pu", "🙂 \x00"]
    expected = translations(trained_model, texts)
    client = served()

    def ask(text: str) -> list[str]:
        wanted = {"q": text, "source": "en", "target": "de"}
        if generator.random() < 0.3:
            wanted["alternatives"] = "2"
        answer = client.post("/translate", data=wanted)
        assert answer.status_code == 200
        return [answer.json()["translatedText"]]

    with ThreadPoolExecutor(16) as pool:
        plain = [text for text in texts if "{" not in text]
        assert list(pool.map(ask, plain)) == translations(trained_model, plain)
    together = client.post("/translate", json={"q": texts, "source": "en", "target": "de"})
    assert [[one] for one in together.json()["translatedText"]] == expected


TERMS = "nepu\tzu raso\nTi\n"
OTHER_TERMS = "nepu\tpu pu\n"


def test_terms_and_protection_are_those_of_one_request(
    served: Served, trained_model: TrainedModel
) -> None:
    text = "Kalo mi nepu {name}. Raso ti!"

    def expected(glossary: str, protect: bool) -> str:
        terms = parse_terms(glossary, "", "en", "de") if glossary else []
        protection = Protection(Aligner(trained_model)) if protect else None
        translator = Translator(trained_model).with_glossary(Glossary("en", "de", terms))
        return Pipeline(translator, "en", protection).translate([Request(text)])[0][0].text

    kinds = [("", True), ("", False), (TERMS, True), (TERMS, False), (OTHER_TERMS, True)]
    found = [expected(*kind) for kind in kinds]
    assert len(set(found)) == len(kinds)
    assert "zu raso" in found[3].lower()
    client = served()

    def ask(kind: tuple[str, bool]) -> str:
        given = {"q": text, "target": "de", "glossary": kind[0], "protect": kind[1]}
        return str(client.post("/translate", data=given).json()["translatedText"])

    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(ask, 4 * kinds)) == 4 * found


@pytest.mark.parametrize("terms", ["nepu", "nepu\nraso", "nepu\nraso\n", "nepu\t\nraso\t"])
def test_terms_without_translations_stay_as_they_are(served: Served, terms: str) -> None:
    given = {"q": "Kalo nepu.", "source": "en", "target": "de", "glossary": terms}
    answer = served().post("/translate", json=given)
    assert answer.status_code == 200, answer.text
    assert "nepu" in answer.json()["translatedText"]


def test_terms_apply_to_documents_the_page_and_beside_those_of_the_server(
    served: Served, trained_model: TrainedModel
) -> None:
    terms = parse_terms("kalo\tne ne\nnepu\tmi mi\n", "", "en", "de")
    general = Glossary("en", "de", terms)
    client = served(translator=lambda _: Translator(trained_model).with_glossary(general))
    given = {"q": "Kalo nepu.", "source": "en", "target": "de", "glossary": "nepu\tzu zu"}
    plain = client.post("/translate", json={**given, "glossary": " "}).json()["translatedText"]
    assert "mi mi" in plain.lower()
    answers = [
        client.post("/translate", json=given).json()["translatedText"],
        client.post("/translate", json={**given, "format": "html"}).json()["translatedText"],
        client.post("/page/choices", json=given).json()["translations"][0]["text"],
    ]
    [sentence] = client.post("/page/sentences", json=given).json()["sentences"]
    answers.append(sentence["translations"][0]["text"])
    upload = client.post("/translate_file", data=given, files={"file": ("a.md", b"Kalo nepu.\n")})
    answers.append(client.get(upload.json()["translatedFileUrl"]).text)
    for answer in answers:
        assert "ne ne" in answer.lower()
        assert "zu zu" in answer.lower()
        assert "mi mi" not in answer.lower()


@pytest.mark.parametrize(
    "send",
    [
        lambda client, given: client.post("/translate", json=given),
        lambda client, given: client.post("/translate", data=given),
        lambda client, given: client.post("/translate", params=given),
        lambda client, given: client.get("/translate", params=given),
        lambda client, given: client.post(
            "/translate", files={name: (None, value) for name, value in given.items()}
        ),
    ],
    ids=["json", "form", "post with query", "query", "multipart"],
)
def test_parameters_come_in_every_way(
    served: Served, trained_model: TrainedModel, send: Callable[[Any, dict[str, str]], Any]
) -> None:
    answer = send(served(), {"q": TEXT, "source": "en-GB", "target": "DE", "apiKey": "x"})
    assert answer.json() == {"translatedText": translations(trained_model, [TEXT])[0][0]}


def test_lists_have_lists_of_everything(served: Served, trained_model: TrainedModel) -> None:
    given = {"q": [TEXT, "Pu."], "source": "auto", "target": "de", "alternatives": 2}
    answer = served().post("/translate", json=given).json()
    expected = translations(trained_model, [TEXT, "Pu."], num_best=3)
    assert answer["translatedText"] == [best for best, *_ in expected]
    assert answer["alternatives"] == [others for _, *others in expected]
    assert {one["language"] for one in answer["detectedLanguage"]} == {"en"}


def test_html_keeps_its_markup(served: Served) -> None:
    given = {"q": ["<p>Kalo <b>mi</b> nepu.</p>"], "target": "de", "format": "html"}
    [found] = served().post("/translate", json=given).json()["translatedText"]
    assert found.startswith("<p>")
    assert found.endswith("</p>")
    assert found.count("<b>") == found.count("</b>") == 1


def test_languages_settings_and_detection(served: Served) -> None:
    client = served("first second")
    assert client.post("/languages", data={"x": "1"}).json() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 20_000
    assert [one["name"] for one in settings["models"]] == ["first", "second"]
    best, *_ = client.post("/detect", data={"q": "Das Kind sieht eine große Katze."}).json()
    assert best["language"] == "de"
    assert best["confidence"] > 50
    assert client.post("/detect", data={"q": "123"}).json() == []
    assert client.get("/health").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        ({"q": "a"}, 400, "target: Field required"),
        ({"target": "de"}, 400, "q: Field required"),
        ({"q": "a", "target": "fr"}, 400, "target=fr is not supported; the directions are en-de"),
        ({"q": "a", "source": "de", "target": "de"}, 400, "source=de is not supported"),
        ({"q": "a", "target": "de", "model": "big"}, 400, "model=big is not served; the models"),
        ({"q": "a", "target": "de", "format": "rtf"}, 400, "format: Input should be 'text' or"),
        ({"q": "a", "target": "de", "alternatives": -1}, 400, "alternatives: Input should be"),
        ({"q": "a", "target": "de", "glossary": "\tb"}, 400, "glossary: line 1: has no source"),
        ({"q": "a", "target": "de", "protect": "x"}, 400, "protect: Input should be a valid bool"),
        ({"q": 7, "target": "de"}, 400, "q: Input should be a valid string"),
        ({"q": "a\ud800", "target": "de"}, 400, "half a surrogate pair"),
        ({"q": "a" * 51, "target": "de"}, 413, "q has 51 characters; the limit is 50"),
        ({"q": ["a"] * 4, "target": "de"}, 413, "q has 4 texts; the limit is 3"),
        ({"q": "a" * 100_000, "target": "de"}, 413, "more than 66,136 bytes"),
        ([], 400, "the body must be a JSON object"),
    ],
)
def test_invalid_requests_are_refused(
    served: Served, given: Any, status: int, message: str
) -> None:
    client = served(max_characters=50, max_texts=3)
    answer = client.post("/translate", content=json.dumps(given))
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert message in answer.json()["error"]


def test_a_full_queue_is_reported(served: Served, trained_model: TrainedModel) -> None:
    has_begun, may_go_on = threading.Event(), threading.Event()

    class Slow(Translator):
        def translate(self, requests: Any, progress: Any = None) -> Any:
            has_begun.set()
            assert may_go_on.wait(30)
            return super().translate(requests, progress)

    client = served(translator=lambda _: Slow(trained_model), max_waiting=1)

    def ask() -> Any:  # a list is one request
        return client.post("/translate", json={"q": ["a", "b"], "target": "de"})

    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(ask)]
        assert has_begun.wait(30)
        answers += [pool.submit(ask), pool.submit(ask)]
        refused = next(as_completed(answers)).result()
        may_go_on.set()
        assert sorted(one.result().status_code for one in answers) == [200, 200, 503]
    assert refused.headers["retry-after"] == "1"
    assert refused.json() == {"error": "1 requests wait for this model; try again later"}


def test_an_unexpected_error_says_nothing_of_the_program(served: Served) -> None:
    def broken(num_best: int) -> Any:
        translator = Mock()
        translator.config.beam_size = translator.config.batch_tokens = 4
        translator.translate.side_effect = RuntimeError("a secret path")
        return translator

    answer = served(translator=broken).post("/translate", data={"q": "a", "target": "de"})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_other_errors_have_the_same_form(served: Served) -> None:
    client = served()
    assert client.get("/nothing").json() == {"error": "Not Found"}
    answer = client.request("TRACE", "/translate")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    answer = client.post("/translate", content=b"{", headers={"content-type": "application/json"})
    assert answer.json()["error"].startswith("the body is no valid JSON")
    answer = client.post("/translate", content=b"x", headers={"content-type": "text/plain"})
    assert answer.status_code == 415


def test_keys_are_compared_with_their_digests(served: Served, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"{hashlib.sha256(b'secret').hexdigest()}  of a friend\n")
    client = served(api_keys=str(keys))
    given = {"q": TEXT, "target": "de"}
    assert client.post("/translate", data=given).status_code == 403
    assert client.post("/translate", data={**given, "api_key": "Secret"}).status_code == 403
    assert client.post("/translate", data={**given, "api_key": "secret"}).status_code == 200
    header = {"authorization": "Bearer secret"}
    assert client.post("/translate", data=given, headers=header).status_code == 200
    assert client.get("/frontend/settings").json()["keyRequired"] is True


def test_rates_are_limited(served: Served) -> None:
    client = served(max_rate=2)
    answers = [client.post("/detect", data={"q": "a"}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 30
    assert client.get("/health").status_code == 200


def test_metrics_count_requests_and_batches(served: Served) -> None:
    client = served()
    client.post("/translate", json={"q": [TEXT, "Ne.", "Pu."], "source": "en", "target": "de"})
    client.get("/some/secret")
    lines = client.get("/metrics").text.splitlines()
    assert 'nmt_request_seconds_count{path="/translate",status="200"} 1.0' in lines
    assert 'nmt_request_seconds_count{path="other",status="404"} 1.0' in lines
    assert "nmt_batch_texts_sum 3.0" in lines
    assert 'nmt_waiting_requests{model="tiny"} 0.0' in lines


def test_only_listed_origins_may_read(served: Served) -> None:
    origin = {"origin": "https://example.org"}
    allowed = "access-control-allow-origin"
    assert allowed not in served().get("/languages", headers=origin).headers
    client = served(cors="https://example.org")
    assert client.get("/languages", headers=origin).headers[allowed] == "https://example.org"
    other = client.get("/languages", headers={"origin": "https://example.com"})
    assert allowed not in other.headers
    assert "default-src 'none'" in other.headers["content-security-policy"]


def test_sentences_of_the_page_make_up_the_translation(
    served: Served, trained_model: TrainedModel
) -> None:
    text = f"- {TEXT} Ne zu.\n\n  Pu!"
    found = served().post("/page/sentences", json={"q": text, "target": "de"}).json()
    best = [one["translations"][0] for one in found["sentences"]]
    before, *after = found["separators"]
    joined = before + "".join(one["text"] + end for one, end in zip(best, after, strict=True))
    assert [joined] == translations(trained_model, [text])[0]
    assert all(one["alignment"] for one in best)
    assert len(found["sentences"]) == 4


@pytest.mark.parametrize("prefix", ["", "Kalo", "Kalo ne"])
def test_choices_begin_with_the_prefix_and_differ(served: Served, prefix: str) -> None:
    given = {"q": "Kalo mi nepu.", "source": "en", "target": "de", "prefix": prefix}
    found = served().post("/page/choices", json=given).json()["translations"]
    texts = [one["text"] for one in found]
    assert len(texts) == len(set(texts)) > 1
    assert all(text.startswith(prefix) for text in texts)
    assert [one["score"] for one in found] == sorted((one["score"] for one in found), reverse=True)


@pytest.mark.parametrize("path", ["/page/choices", "/page/attention"])
def test_sentences_that_are_too_long_or_blank_are_refused(served: Served, path: str) -> None:
    given = {"target": "de", "translation": "a"}
    client = served()
    assert client.post(path, json={**given, "q": "kalo " * 100}).status_code == 413
    assert client.post(path, json={**given, "q": " "}).status_code == 400


def test_documents_are_translated_and_kept(served: Served) -> None:
    client = served()
    given = {"source": "en", "target": "de", "progress": "mine"}
    files = {"file": ("a.en.html", b"<p>Kalo <b>mi</b> nepu.</p>")}
    answer = client.post("/translate_file", data=given, files=files)
    url = answer.json()["translatedFileUrl"]
    assert url.endswith("/a.de.html")
    found = client.get(url)
    assert found.content.startswith(b"<p>")
    assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''a.de.html"
    assert found.headers["content-type"] == "application/octet-stream"
    assert client.get(url.replace("a.de", "b.de")).status_code == 404
    assert client.post("/page/progress", json={"progress": "mine"}).json() == {"progress": 1}


@pytest.mark.parametrize(
    ("name", "data", "status", "message"),
    [
        ("a.docx", b"no archive", 400, "a.docx: is no valid docx file: File is not a zip file"),
        ("a.pdf", b"", 400, "a.pdf: .pdf files cannot be translated"),
        ("a.xyz", b"", 400, "a.xyz is no document of a kind that can be translated"),
        ("../a.html", b"", 400, "file: its name is empty, hidden or has a slash"),
        ("a.html", b"<p>\xff", 400, "a.html: is not UTF-8"),
        ("a.html", b"a" * 1_100_000, 413, "more than 1,065,536 bytes"),
    ],
)
def test_invalid_documents_are_refused(
    served: Served, name: str, data: bytes, status: int, message: str
) -> None:
    client = served(max_file_megabytes=1)
    answer = client.post("/translate_file", data={"target": "de"}, files={"file": (name, data)})
    assert answer.status_code == status
    assert answer.json()["error"].startswith(message) or message in answer.json()["error"]
    assert "/tmp" not in answer.json()["error"]


def test_archives_that_unpack_to_too_much_are_refused(served: Served) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/media/picture", bytes(21_000_000))
    client = served(max_file_megabytes=1)
    files = {"file": ("a.docx", packed.getvalue())}
    answer = client.post("/translate_file", data={"target": "de"}, files=files)
    assert answer.status_code == 413
    assert "21,000,000 bytes when unpacked" in answer.json()["error"]
