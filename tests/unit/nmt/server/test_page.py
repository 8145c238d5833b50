"""The page in a browser: Playwright with an installed Chromium."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.nmt.server.test_process import Server

pytest.importorskip("fastapi", reason="make install-serve")
sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs the program chromium")

TEXT = "Kalo mi nepu. Raso ti!"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    """The page on a narrow screen, in English; nothing may be written to the console."""
    page = browser.new_page(viewport={"width": 360, "height": 800}, locale="en-US")
    messages: list[str] = []
    page.messages = messages
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(server[1])
    page.wait_for_selector("#text:enabled")
    yield page
    assert messages == []
    page.close()


def translated(page: Any) -> str:
    page.fill("#text", TEXT)
    page.wait_for_selector(".words button")
    return str(page.locator(".words").first.inner_text())


def test_typing_translates_and_nothing_is_wider_than_the_screen(page: Any) -> None:
    translated(page)
    assert page.locator(".sentence").count() == 2
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    page.locator("#history summary").click()
    assert TEXT in page.locator("#history li").inner_text()
    page.fill("#text", "")
    page.wait_for_selector(".words button", state="detached")


def test_an_alternative_takes_the_place_of_the_translation(page: Any) -> None:
    first = translated(page)
    page.locator(".sentence summary").first.click()
    other = page.locator(".sentence li button").first
    text = other.inner_text()
    other.click()
    assert page.locator(".words").first.inner_text().split() == text.split() != first.split()


def test_another_word_is_chosen_with_the_keyboard(page: Any) -> None:
    first = translated(page).split()
    page.locator(".words button").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".words button").nth(1).evaluate("(word) => word.matches(':focus')")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices li button:focus")
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices", state="hidden")
    second = page.locator(".words").first.inner_text().split()
    assert second[0] != first[0]
    page.keyboard.press("Enter")
    page.fill("#own", "zu")
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices", state="hidden")
    assert page.locator(".words").first.inner_text().split()[0].startswith("zu")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.wait_for_selector("#choices", state="hidden")


def test_words_light_up_the_words_they_come_from(page: Any) -> None:
    translated(page)
    page.locator(".words button").first.hover()
    assert page.locator(".source .linked").count() == 1


def test_terms_and_protected_text(page: Any) -> None:
    page.fill("#text", "Kalo mi {name}.")
    page.wait_for_selector(".words:has-text('{name}')")
    page.uncheck("#protect")
    page.wait_for_selector(".words:not(:has-text('{name}'))")
    page.locator("#terms summary").click()
    page.fill("#glossary", "kalo = zu raso\nne\n")
    page.wait_for_selector(".words:has-text('u raso')")
    page.locator(".words button").first.click()
    page.wait_for_selector("#choices li button:has-text('u raso')")
    page.keyboard.press("Escape")
    page.reload()
    assert page.input_value("#glossary") == "kalo = zu raso\nne\n"
    page.evaluate("() => localStorage.clear()")


def test_uncertain_words_are_underlined_and_described(page: Any) -> None:
    def with_certainties(route: Any) -> None:
        answer = route.fetch()
        found = answer.json()
        best = found["sentences"][0]["translations"][0]
        assert len(best["word_confidence"]) == len(best["text"].split())
        best.update(text="A b c", word_confidence=[0.9, 0.6, 0.3])
        route.fulfill(response=answer, json=found)

    page.route("**/page/sentences", with_certainties)
    translated(page)
    words = page.locator(".words").first.locator("button").all()
    assert [word.get_attribute("title") for word in words] == [
        *("90 % certain", "60 % certain", "30 % certain")
    ]
    style = "(one) => getComputedStyle(one).textDecoration"
    for word, line in zip(words, ("none", "underline dotted", "underline wavy"), strict=True):
        assert word.evaluate(style).startswith(line)
    assert page.locator(".certainty").first.inner_text().startswith("Confidence ")
    assert page.locator("#legend").is_visible()
    page.unroute("**/page/sentences")


def test_two_models_stand_side_by_side(page: Any) -> None:
    translated(page)
    page.select_option("#other", "copy")
    page.wait_for_selector("#other-result .words button")
    assert page.locator(".differs").count() == 0  # it is the same model
    page.locator(".sentence summary").first.click()
    page.locator(".sentence li button").first.click()
    assert page.locator("#other-result .differs").count() > 0


def test_a_document_is_translated_and_downloaded(page: Any, tmp_path: Path) -> None:
    document = tmp_path / "näme.md"
    document.write_text("# Kalo mi\n\n- **ne**\n")
    page.set_input_files("#file", document)
    page.wait_for_selector("#download:visible")
    with page.expect_download() as download:
        page.locator("#download").click()
    assert download.value.suggested_filename == "näme.de.md"
    assert download.value.path().read_text().startswith("# ")


def test_errors_are_shown_and_the_text_is_translated_later(page: Any) -> None:
    page.route("**/page/sentences", lambda route: route.fulfill(status=503, json={"error": "busy"}))
    page.fill("#text", TEXT)
    page.wait_for_selector("#error:visible")
    assert page.locator("#error").inner_text() == "busy"
    assert "503" in page.messages.pop()
    page.unroute("**/page/sentences")
    page.fill("#text", f"{TEXT} Ne.")
    page.wait_for_selector("#error", state="hidden")
    assert page.locator(".sentence").count() == 3


def test_the_interface_has_three_languages(page: Any) -> None:
    for code, title in {"de": "Übersetzung", "fr": "Traduction", "en": "Translation"}.items():
        page.select_option("#interface", code)
        assert page.locator("#result-title span").inner_text() == title
        assert page.locator("html").get_attribute("lang") == code
    texts = Path("nmt/server/page/texts.js").read_text(encoding="utf-8")
    assert texts.count("offline:") == 3


def test_attention_opens_without_rights(page: Any) -> None:
    translated(page)
    with page.expect_popup() as popup:
        page.locator(".link").first.click()
    popup.value.wait_for_selector("text=Mean of the selected heads")
    assert popup.value.evaluate("() => self.origin") == "null"
    assert "Kalo" not in popup.value.url
