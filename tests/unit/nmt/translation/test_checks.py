from collections.abc import Sequence

import pytest

from nmt.translation.checks import checked, findings
from nmt.translation.request import Request, Translation


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("It costs 1,234.50 dollars.", "Es kostet 1.234,50 Dollar."),
        ("It costs 1,234,567 dollars.", "Es kostet 1\u202f234\u202f567 Dollar."),
        ("On 3/4/2024 (a Monday)", "Am 04.03.2024 (ein Montag)"),
        ("On 3/4/2024, or 5. 6. 2023", "Am 4. März 2024 oder am 5/6/23"),
        ("On 2024-04-03", "2024年4月3日"),
        ("A <b>dog.</b>", "Ein <b>Hund</b>."),
        ("It is 5 km", "Es sind 5 Kilometer"),
        ("Hello {name}, see <b>this</b>!", "Hallo {name}, <b>siehe</b>!"),
        ("It costs $5.00, or 5 km.", "Es kostet 5,00 $ oder 5 Kilometer."),
        ("It costs $5 (or 100 percent).", "要5美元（或100%）。"),
        ("【重要】 {x}", "[Wichtig] {x}"),
        ("{n, plural, other {# dogs}} bark", "{n, plural, other {# Hunde}} bellen"),
        ("Who is it?", "这是谁？"),
        ("He said: “Go.”", "Er sagte: „Geh.“"),
        ("", ""),
    ],
)
def test_nothing_is_wrong(source: str, translation: str) -> None:
    assert findings(source, translation) == []


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        (
            "It costs 1,234 dollars.",
            "Es kostet 1.235 Dollar.",
            ["number 1234 is lost", "number 1235 is added"],
        ),
        ("Hello {name}.", "Hallo.", ["{name} is lost"]),
        ("On 3/4/2024.", "Am 3.5.2024.", ["date 3/4/2024 is lost", "date 3.5.2024 is added"]),
        ("A <b>dog</b>.", "<b></b>Hund.", ["0 instead of 1 pairs of tags around words"]),
        ("Two (2) dogs.", "Zwei (2 Hunde.", ["0 instead of 1 of )"]),
        ("Use {a b}.", "Nutze a b.", ["0 instead of 1 of {", "0 instead of 1 of }"]),
        ("A < b", "A b", ["0 instead of 1 of <"]),
        ("It costs $5.00.", "Es kostet 5,00 €.", ["$5.00 is lost", "5,00 € is added"]),
        ("5 km", "5 m", ["5 km is lost", "5 m is added"]),
        ("A <!-- b --> @c %%", "A", ["<!-- b --> is lost", "@c is lost", "%% is lost"]),
        (
            "{n, plural, other {a}}",
            "{n, plural, many {a}}",
            ["{n, plural, other { is lost", "{n, plural, many { is added"],
        ),
        (
            "{n, select, one {a",
            "{n, select, one {b",
            ["the plural or select of the source is malformed"],
        ),
        ("Who?", "Wer.", ["ends with '.', the source with '?'"]),
        ("A dog.", "Hund " * 60 + ".", ["301 characters for 6"]),
        ("A dog", "", ["0 characters for 5"]),
    ],
)
def test_findings(source: str, translation: str, expected: list[str]) -> None:
    assert findings(source, translation) == expected


class Fake:
    """Has one translation for all texts."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.requests: list[Request] = []

    def translate(self, requests: Sequence[Request]) -> list[list[Translation]]:
        self.requests += requests
        return [[Translation(self.text, -2.0)] for _ in requests]


@pytest.mark.parametrize(
    ("again", "text"),
    [
        ("Es sind 1.200 Hunde.", "Es sind 1.200 Hunde."),
        ("Nein", "Es sind Hunde."),
        ("There are 1,200 dogs.", "Es sind Hunde."),
    ],
)
def test_a_lost_number_is_required_once_more(again: str, text: str) -> None:
    translator = Fake(again)
    requests = [Request("There are 1,200 dogs."), Request("A dog.")]
    found = [[Translation("Es sind Hunde.", -1.0)], [Translation("Ein Hund.", -1.0)]]
    [[first], [second]] = checked(requests, found, translator.translate)
    assert (first.text, second.text) == (text, "Ein Hund.")
    assert first.findings == (() if text == again else ("number 1200 is lost",))
    [request] = translator.requests
    assert request.terms == [("1,200", "1.200", "1\u202f200", "1 200")]


def test_a_number_of_thousands_of_digits_is_compared() -> None:
    number = "9" * 5_000
    assert findings(f"{number}.", f"00{number}.") == []
    assert findings(f"{number}.", f"{number[1:]}8.") != []
