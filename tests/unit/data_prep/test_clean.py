import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.clean import normalise


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
