import pytest

from nmt.metrics.oddities import find_oddities


@pytest.mark.parametrize(
    ("text", "is_repetitive"),
    [
        *[("ja ja ja", True), ("er sagt ja ja ja .", True), ("ja ja nein ja", False)],
        *[("ja ja", False), ("a b a b a b", True), ("a b a b a", False), ("", False)],
        *[("x a b c d a b c d a b c d y", True), ("a b c d e a b c d e a b c d e", False)],
        *[("他说他说他说走", True), ("他说我说他说", False), ("天天天晴了", False)],
        ("ฉันรักหมาฉันรักหมาฉันรักหมา", True),
    ],
)
def test_repeated_words(text: str, is_repetitive: bool) -> None:
    assert find_oddities(["x"], ["y"], [text])["repeated"] == [0] * is_repetitive


@pytest.mark.parametrize(
    "reference", ["Ende.", "„Ende?“ ", "(Ende!)", "終わり。", "(ပြီးပြီ။)", "ខ្ញុំ។"]
)
@pytest.mark.parametrize("text", ["Ende,", "Ende", "“", "", "„Ende!“"])
def test_truncated_translations_lack_the_final_mark(reference: str, text: str) -> None:
    is_truncated = text in ("Ende,", "Ende", "“")
    assert find_oddities(["x"], [reference], [text])["truncated"] == [0] * is_truncated
    assert find_oddities(["x"], [text], ["Ende"])["truncated"] == [0] * (text == "„Ende!“")


def test_suspicious_translations_of_each_kind() -> None:
    sources = ["One.", "Two.", "Paris", "Four.", "Five.", "", "Bonn.", " Rom . ", "Six"]
    references = ["Eins.", "Zwei.", "Paris", "Vier.", "nein nein nein.", "A.", "x", "y", "B"]
    translations = ["One.", " ", "Paris", "vier vier vier", "Fünf!", "", "bonn.", "Rom .", "Sechs"]
    assert find_oddities(sources, references, translations) == {
        "copied": [0, 2, 7],
        "empty": [1, 5],
        "repeated": [3],
        "truncated": [3],
    }
    # "nein." is a different word because of its full stop.
    assert find_oddities(sources, references, references) == {
        "copied": [2],
        "empty": [],
        "repeated": [],
        "truncated": [],
    }
