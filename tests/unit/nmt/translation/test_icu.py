import pytest

from nmt.translation.icu import Message
from nmt.translation.request import Translation

_DOGS = "{n, plural, offset:1 =0 {no dogs} one {# dog} other {# dogs}}"


def _upper(text: str) -> Translation:
    """Translate: everything outside of braces becomes upper case."""
    parts = text.replace("{", "\0{").replace("}", "}\0").split("\0")
    upper = "".join(part if part.startswith("{") else part.upper() for part in parts)
    return Translation(upper, -1.0, notes=(text,))


def _translated(text: str) -> str:
    message = Message.parse(text)
    [best] = message.joined([[_upper(one)] for one in message.texts])
    return best.text


@pytest.mark.parametrize(
    ("text", "texts", "translation"),
    [
        ("no message", ["no message"], "NO MESSAGE"),
        (
            f"see {_DOGS} bark",
            ["no dogs", "{#} dog", "{#} dogs", "see {_0} bark"],
            "SEE {n, plural, offset:1 =0 {NO DOGS} one {# DOG} other {# DOGS}} BARK",
        ),
        (
            "{g, select, male {his {n, plural, one { # cat } other {}}} other {their #}}",
            ["{#} cat", "his {_1}", "their #", "{_0}"],
            "{g, select, male {HIS {n, plural, one { # CAT } other {}}} other {THEIR #}}",
        ),
        ("{a, select, x {b '}' c}}", ["b '}' c", "{_0}"], "{a, select, x {B '}' C}}"),
        ("{_0} {a, select, x {b}}", ["b", "{_0} {__0}"], "{_0} {a, select, x {B}}"),
        ("{n, number} {n, plural, one {a}", ["{n, number} {n, plural, one {a}"], None),
        ("{n, plural, one {a} b}", ["{n, plural, one {a} b}"], None),
        ("{n, plural, }", ["{n, plural, }"], None),
    ],
)
def test_texts_of_messages(text: str, texts: list[str], translation: str | None) -> None:
    assert Message.parse(text).texts == texts
    assert translation is None or _translated(text) == translation


def test_each_translation_of_a_message_has_its_arguments_and_all_notes() -> None:
    message = Message.parse("{g, select, other {a}} dog")
    first, second = message.joined([[_upper("a")], [_upper("{_0} dog"), _upper("dog {_0}")]])
    assert first.text == "{g, select, other {A}} DOG"
    assert second.text == "DOG {g, select, other {A}}"
    assert first.notes == ("a", "{_0} dog")
    assert first.alignment is None


@pytest.mark.parametrize(
    ("text", "num_arguments"),
    [("{a, select, x {", 32), ("{a, select, x {b} ", 1), ("{a, select, {b}} ", 0)],
)
def test_many_braces_take_linear_time(text: str, num_arguments: int) -> None:
    message = Message.parse(text * 20_000 + "}" * 40_000)
    assert len(message.arguments) == num_arguments
