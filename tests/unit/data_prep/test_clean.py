import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.clean import Pair, Rejection, Rule, clean_pair, normalise
from nmt.config import CleaningConfig

CONFIG = CleaningConfig(max_characters=100, max_words=10, max_length_ratio=2.0)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("  a  b ", "a b"),
        ("a\u2028b", "a b"),
        ("a\x85b", "a b"),
        ("windows line\r", "windows line"),
        ("a\r\n\tb\x00c\x7fd", "a b c d"),
        ("Vraiment\u00a0? Oui\u202f!", "Vraiment ? Oui !"),
        ("\ufeffstart", "start"),
        ("e\u0301te\u0301", "été"),
        ("a\u2581b", "a_b"),
        ("👩\u200d👩\u200d👧 ﬁ ½ …", "👩\u200d👩\u200d👧 ﬁ ½ …"),
        ("\u2000x\u2000", "x"),
        ("", ""),
    ],
)
def test_normalise(raw: str, expected: str) -> None:
    assert normalise(raw) == expected


@given(st.text())
def test_normalisation_is_idempotent(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert once == " ".join(once.split())
    assert unicodedata.is_normalized("NFC", once)
    assert not any(unicodedata.category(character) in {"Cc", "Zl", "Zp"} for character in once)


@given(st.text(), st.text())
def test_a_kept_pair_is_kept_again_and_in_the_other_direction(source: str, target: str) -> None:
    there, back = clean_pair(source, target, CONFIG), clean_pair(target, source, CONFIG)
    assert isinstance(there, Pair) == isinstance(back, Pair)
    if isinstance(there, Pair):
        assert clean_pair(*there, CONFIG) == there
        assert all(there)


@pytest.mark.parametrize(
    ("source", "target", "rule", "detail"),
    [
        ("", "Hallo", Rule.empty, "source is empty"),
        ("Hello", " \u2028 ", Rule.empty, "target is empty"),
        ("x" * 101, "y" * 101, Rule.length, "source has 101 characters"),
        ("a b c", "a " * 11, Rule.length, "target has 11 words"),
        ("short", "x" * 20, Rule.ratio, "5 against 20 characters"),
        ("The same text", "the same  text", Rule.copy, "both sides are the same text"),
    ],
)
def test_pairs_that_violate_a_rule_are_rejected(
    source: str, target: str, rule: Rule, detail: str
) -> None:
    assert clean_pair(source, target, CONFIG) == Rejection(rule, detail)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("x" * 100, "y" * 100),
        ("w " * 10, "v " * 10),
        ("No", "Aber nicht doch!"),  # short pairs are exempt from the ratio
        ("x" * 20, "y" * 40),
        ("Barack Obama", "Barack Obama"),
    ],
)
def test_pairs_within_the_limits_are_kept(source: str, target: str) -> None:
    assert clean_pair(source, target, CONFIG) == Pair(source.strip(), target.strip())


def test_copies_are_kept_if_configured() -> None:
    config = CleaningConfig(drop_copies=False)
    assert clean_pair("one two three", "one two three", config) == ("one two three",) * 2
