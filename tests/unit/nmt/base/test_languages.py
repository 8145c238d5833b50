"""Scripts of languages, and words of text without blanks."""

import pytest

from nmt.base.languages import (
    continues_word,
    has_sentence_blanks,
    has_word_blanks,
    num_words,
    script_of,
    split_words,
)


@pytest.mark.parametrize(
    ("code", "script"),
    [
        ("de", "Latn"),
        ("zh", "Hans"),
        ("zh_TW", "Hant"),
        ("zho_Hant", "Hant"),
        ("sr_Latn", "Latn"),
        ("ja", "Jpan"),
        ("tha", "Thai"),
        ("sat", "Olck"),
        ("source", ""),
    ],
)
def test_script_of_a_language(code: str, script: str) -> None:
    assert script_of(code) == script


@pytest.mark.parametrize(
    ("text", "is_continued"),
    [
        ("und", True),
        ("▁und", False),
        ("-und", False),
        ("7", False),
        ("\u093f", True),
        ("猫", False),
    ],
)
def test_pieces_that_continue_a_word(text: str, is_continued: bool) -> None:
    assert continues_word(text) is is_continued


def test_languages_without_blanks_between_words() -> None:
    without = {"zh", "yue", "ja", "th", "lo", "km", "my", "shn", "bo", "dz"}
    others = {"de", "ru", "el", "ko", "hi", "ta", "am", "ka", "he", "ar", "zgh", "sat", "source"}
    assert {code for code in without | others if not has_word_blanks(code)} == without
    assert {code for code in without | others if not has_sentence_blanks(code)} == {
        "zh",
        "yue",
        "ja",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("Hallo, Welt! — Ja", ["Hallo,", "Welt!", "—", "Ja"]),
        ("안녕하세요 여러분", ["안녕하세요", "여러분"]),
        ("在2020年,我去了 IBM。", ["在", "2020", "年,", "我", "去", "了", "IBM。"]),
        ("《保护》!", ["《保", "护》!"]),
        ("ป็น", ["ป็", "น"]),
        ("မြန်မာ", ["မြ", "န်", "မာ"]),
        ("日々の\U00020000", ["日", "々", "の", "\U00020000"]),
        ("བོད་སྐད", ["བོ", "ད་", "སྐ", "ད"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words
    assert num_words(text) == len(words)
