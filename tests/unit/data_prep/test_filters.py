from dataclasses import asdict
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep import filters, languages
from data_prep.clean import Pair
from data_prep.filters import FILTERS, GLOBAL_FILTERS, MEANINGS, RATIO, SCORE, usual_ratio
from nmt.base.errors import UserError
from nmt.cli.compose import CONFIG_FOLDER, compose_config
from nmt.config import CleaningConfig

LIMITED = {"max_characters": 100, "max_words": 10, "max_length_ratio": 2.0}


def clean(source: str, target: str, **config: object) -> tuple[Pair, dict[str, str]]:
    values = CleaningConfig(**(LIMITED | config))
    return filters.clean_pair(source, target, values, ("en", "de"))


@given(st.text(), st.text())
def test_a_kept_pair_is_kept_again_and_in_the_other_direction(source: str, target: str) -> None:
    (there, reasons), (_, back) = clean(source, target), clean(target, source)
    assert reasons.keys() == back.keys()
    assert clean(*there) == (there, reasons) or "empty" in reasons
    if not reasons:
        assert all(there)


URL = "https://a.example/b?c=d"
DROPPED = [
    ("", "Hallo", {}, "empty", "source is empty"),
    ("Hello", " \u2028 ", {}, "empty", "target is empty"),
    ("x" * 101, "y" * 101, {}, "length", "source has 101 characters"),
    ("a b c d e f", "a " * 11, {}, "length", "target has 11 words"),
    ("short", "x" * 20, {}, "ratio", "5 against 20 characters"),
    ("The same text", "the same  text", {}, "copy", "both sides are the same text"),
    ("so " * 5, "x y z so so", {"max_phrase_repeats": 2}, "repetition", "source has 'so so so' 3"),
    ("x y z a b", "ab c " * 4, {"max_phrase_repeats": 2}, "repetition", "'ab c ab' 3 times"),
    ("12345 = 56789 (8) + ab", "x" * 20, {"min_letter_share": 0.5}, "letters", "12 % of source"),
    ("at 10:30", "um 10.31", {"same_numbers": True}, "numbers", "30 against 31"),
    ("no 7", "keine", {"same_numbers": True}, "numbers", "7 against none"),
    ("7 and 7", "7", {"same_numbers": True}, "numbers", "7 against none"),
    (
        f"see {URL}.",
        "auf jener Seite",
        {"same_addresses": True},
        "addresses",
        f"{URL} against none",
    ),
    (
        "me@a.example",
        "me@a.org",
        {"same_addresses": True},
        "addresses",
        "me@a.example against me@a",
    ),
    (
        "Das ist doch ein deutscher Satz, der lang genug ist, um erkannt zu werden.",
        "Das ist ein deutscher Satz, der auch lang genug ist, um erkannt zu werden.",
        {"identify_language": True, "max_words": 20},
        "language",
        "source is de (",
    ),
    (
        "Das ist ein kurzer deutscher Satz.",
        "Das ist ein deutscher Satz.",
        {"identify_language": True},
        "language",
        "source is not en (Lingua)",
    ),
]


@pytest.mark.parametrize(("source", "target", "config", "name", "reason"), DROPPED)
def test_pairs_that_a_filter_drops(
    source: str, target: str, config: dict[str, object], name: str, reason: str
) -> None:
    [(found, why)] = clean(source, target, **config)[1].items()
    assert found == name
    assert reason in why


KEPT = [
    ("x" * 100, "y" * 100, {}),
    ("w " * 10, "v " * 10, {}),
    ("No", "Aber nicht doch!", {}),  # short sides may have any ratio
    ("x" * 20, "y" * 40, {}),
    ("Barack Obama", "Barack Obama", {}),
    ("one two three", "one two three", {"drop_copies": False}),
    ("so " * 4, "so so so so", {"max_phrase_repeats": 2, "drop_copies": False}),
    ("1 + 1 = 2", "1 + 1 = 2", {"min_letter_share": 0.5, "drop_copies": False}),
    ("नमस्ते दुनिया, आप कैसे हैं?", "Hallo Welt, wie geht es?", {"min_letter_share": 0.7}),
    ("1,000.50 at 10:30", "10.30 um 1.000,50", {"same_numbers": True}),
    ("3 cats, 40 dogs", "٣ قطط و ٤٠ كلبا", {"same_numbers": True}),
    (f"see {URL}.", f"({URL}) hier", {"same_addresses": True}),
    ("Das ist es", "La vie en rose", {"identify_language": True}),  # may be names
    ("Tom knows what Mary wants.", "Tom weiß, was Mary will.", {"identify_language": True}),
]


@pytest.mark.parametrize(("source", "target", "config"), KEPT)
def test_pairs_that_every_filter_keeps(source: str, target: str, config: dict[str, object]) -> None:
    assert clean(source, target, **config) == (Pair(source.strip(), target.strip()), {})


CHINESE = "委员会建议缔约国批准《保护所有移徙工人权利国际公约》。"


def test_lengths_are_compared_with_their_usual_ratio() -> None:
    pairs = [Pair("x" * 60, "y" * length) for length in (18, *[20] * 9, 21, 25)]
    usual = usual_ratio([*pairs, Pair("x" * 200, "y"), Pair("", "y"), Pair("x", "yyy")])
    assert usual == pytest.approx(1 / 3)
    # Two or three pairs do not define what is usual.
    assert usual_ratio(pairs[:3]) == 1
    config = CleaningConfig(max_length_ratio=4.0)
    for source, target, reason in (
        (60, 20, ""),
        (60, 4, ""),
        (60, 3, "60 against 3 characters; usual is 1 to 0.33"),  # 3 characters stand for 9
        (60, 85, ""),
        (60, 86, "60 against 86 characters; usual is 1 to 0.33"),  # 86 characters stand for 258
        (19, 1, ""),
    ):
        pair, mirrored = ("x" * source, "y" * target), ("y" * target, "x" * source)
        found = filters.clean_pair(*pair, config, ("en", "zh"), usual=usual)[1]
        assert found.get(RATIO, "") == reason
        found = filters.clean_pair(*mirrored, config, ("zh", "en"), usual=1 / usual)[1]
        assert bool(found.get(RATIO)) == bool(reason)


def test_words_of_scripts_without_blanks() -> None:
    """Two characters count as a word, and phrases of three words have six characters."""
    assert clean("x" * 50, CHINESE) == (
        Pair("x" * 50, CHINESE),
        {"length": "target has 12 words"},
    )
    assert clean("東京大学", "東京大学")[1] == {}
    assert "copy" in clean("東京大学文学部", "東京大学文学部")[1]
    repeated = {"max_phrase_repeats": 2, "max_words": 50, "max_length_ratio": 9}
    assert clean("x" * 20, "国际公约国际法国际", **repeated)[1] == {}
    [(name, why)] = clean("x" * 20, "我们都爱北京。" * 3, **repeated)[1].items()
    assert name == "repetition"
    assert "3 times" in why


def test_every_filter_that_drops_a_pair_is_named() -> None:
    found = clean("1 2 3 " * 20, "x", max_phrase_repeats=2, min_letter_share=0.1, same_numbers=True)
    assert list(found[1]) == ["length", "repetition", "letters", "numbers", "ratio"]


def test_text_that_was_decoded_wrongly_is_repaired() -> None:
    pair, _ = clean("The &quot;M\u00c3\u00bcller\u201d", "“Müller” ﬁ", repair_unicode=True)
    assert pair == ('The "Müller”', "“Müller” ﬁ")


def test_lingua_knows_norwegian_by_the_code_of_fasttext() -> None:
    check = partial(filters.clean_pair, config=CleaningConfig(identify_language=True))
    german = "Das ist ein deutscher Satz."
    assert check(german, german + "!", languages=("de", "nb"))[1] == {
        "language": "target is not no (Lingua)"
    }


def test_a_language_that_cannot_be_identified_is_an_error() -> None:
    check = partial(filters.clean_pair, config=CleaningConfig(identify_language=True))
    text = "A text with more than fifty letters, which is long enough to be identified."
    assert check(text, text + "!", languages=("en_GB", "zh_Hans"))[1]["language"].startswith(
        "target is en"
    )
    with pytest.raises(
        UserError, match=r"corpus\.direction has tlh, which .*identify_language=false"
    ):
        check(text, text, languages=("tlh", "de"))


@pytest.mark.parametrize("package", ["ftfy", "lingua"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.base.system.find_spec", lambda name: None if name == package else name)
    for load in (filters._ftfy, languages._lingua_languages):
        load.cache_clear()
    with pytest.raises(UserError, match=f"needs the package {package}: make install-data"):
        clean("Das ist ein deutscher Satz.", "y", repair_unicode=True, identify_language=True)


def test_presets_set_every_filter_they_name_and_every_filter_has_a_meaning() -> None:
    assert list(MEANINGS) == [*FILTERS, RATIO, SCORE, *GLOBAL_FILTERS]
    presets = {path.stem for path in (CONFIG_FOLDER / "cleaning").glob("*.yaml")}
    assert presets == {"none", "standard", "strict"}
    found = {name: asdict(compose_config([f"cleaning={name}"]).corpus.cleaning) for name in presets}
    for key in ("max_characters", "max_words", "max_length_ratio"):
        assert found["none"][key] > found["standard"][key] > found["strict"][key]
