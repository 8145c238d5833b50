from dataclasses import replace
from pathlib import Path

import pytest

from nmt.translation.documents import Document
from nmt.translation.request import Translation
from nmt.translation.sentences import sentence_spans

DATA = Path(__file__).parents[4].parent / "shared" / "data"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Mr. Smith went to St. Louis.|He met J. R. R. Tolkien, e.g. in Oct. 1930.|Why?|So."),
        ("en", 'He said: "Go!"|"No."|It was 3.5 p.m. in the U.S. capital.|See No. 5.'),
        ("en", "It grew... slowly.|Apple Inc. bought it.|The U.S.|But who?!|(Nobody.)|The end"),
        ("de", "Am 3. Oktober kam Dr. Maier, z. B. mit Karl V. nach Bonn.|Er war 30.|Sie nicht."),
        ("de_AT", "Das war 1990.|Die „Mauer“ fiel.|Er fragte: „Wer?“|Usw. bzw. etc.|Und so."),
        ("de", "Der 2. Weltkrieg endete im Jahr 70 n. Chr. nicht."),
        ("fr", "M. De Bock est là !|« Quoi ? » dit-il.|Il part le 3 mai.|Mme Royer aussi, etc."),
        ("fr", "« Je veux mourir. »|Mais cela compte.|C'est de l'art.|Tu sais, p. ex. le vol."),
        ("xx", "One.|Two."),
        ("en", "He paid.|$5 is enough.|{Name} rides.|🎉 Hello.|**Note** this."),
        ("en", "<b>One.</b>|<b>Mr. Two.</b>|<i>Three</i>"),
        ("en", "a. and b. and www.example.com/a.b or v1.2.3 stay.|Next"),
    ],
)
def test_sentence_spans(language: str, text: str) -> None:
    running = text.replace("|", " ")
    found = [running[begin:end] for begin, end in sentence_spans(running, language)]
    assert "|".join(found) == text


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("zh", "昨天我买了书。|今天呢？|好！|2021年见。|他说：“走吧。”我走了。|「好。」|「不。」"),
        ("zh_Hant", "你好!|我很好?|我用 iPhone 3.5。|iPhone很好……真的．|版本３．５。|[完]"),
        ("ja", "「はい。」と言った。|行きましょう！|（本当？）"),
        ("zh", "你找到了吗？|“好的。”"),
        ("hi", "मैं घर जाता हूँ।|वह आता है॥|क्या?| हाँ।"),
        ("ar", "هل أنت هنا؟|نعم.| لا!"),
        ("ur", "یہ کتاب ہے۔|وہ آیا۔"),
        ("am", "ሰላም ነው።|እሺ፧|አዎ"),
        ("my", "ကျွန်တော် သွားမယ်။|သူ လာမယ်။"),
        ("km", "ខ្ញុំទៅផ្ទះ។|គាត់មក៕|បាទ"),
        ("bo", "ང་འགྲོ་གི་ཡིན།|ཁོ་ཡོང་གི་རེད།"),
        ("ka", "გამარჯობა.| როგორ ხარ?| კარგად."),
        ("hy", "Բարեւ։|Ինչպես ես։"),
        ("sat", "ᱚᱞ ᱪᱤᱠᱤ᱾|ᱥᱟᱱᱛᱟᱲᱤ᱿"),
        ("ko", "안녕하세요.| 잘 지내요?| 네!"),
        ("he", "שלום לך.| מה שלומך?| טוב."),
    ],
)
def test_sentence_ends_of_other_scripts(language: str, text: str) -> None:
    """Only Latin marks need a blank after them."""
    running = text.replace("|", "")
    found = [running[begin:end] for begin, end in sentence_spans(running, language)]
    assert found == [part.strip() for part in text.split("|")]


@pytest.mark.parametrize(
    ("folder", "language"), [("mixed-en-de", "en"), ("mixed-en-de", "de"), ("mixed-en-fr", "fr")]
)
def test_sentence_spans_of_news(folder: str, language: str) -> None:
    path = DATA / folder / f"newstest2014.{language}"
    if not path.is_file():
        pytest.skip(f"no {path}")
    lines = [line.strip() for line in path.read_text(encoding="utf-8").split("\n")[:1000]]
    ends, offset = set(), -1
    for line in lines:
        offset += len(line) + 1
        ends.add(offset)
    found = {end for _, end in sentence_spans(" ".join(lines), language)}
    marked = {end for end, line in zip(sorted(ends), lines, strict=True) if line.endswith(".")}
    assert len(marked & found) > 0.99 * len(marked)
    assert len(found & ends) > 0.98 * len(found)


def upper(sentence: str) -> list[Translation]:
    return [Translation(sentence.upper(), -1.0)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "One. Two  here.\n\n  Three? ",
        "- A point. It goes on.\n1. First. And\n(a) letters\n",
        "\n\n",
        "Title\n=====\n\nText.\r\n",
    ],
)
def test_split_and_join_preserve_white_space_and_list_markers(text: str) -> None:
    document = Document.split(text, "en")
    [found] = document.join([upper(sentence) for sentence in document.sentences])
    assert found.text == text.upper().replace("(A)", "(a)")
    assert found.score == -len(document.sentences)
    assert not any("\n" in sentence for sentence in document.sentences)


@pytest.mark.timeout(20)
def test_runs_of_marks_and_abbreviations_take_linear_time() -> None:
    dots = "." * 100_000
    for text, spans in {
        f"{dots}x": [(0, 100_001)],
        f"A{dots}": [(0, 100_001)],
        f"A?!{dots}» B": [(0, 100_004), (100_005, 100_006)],
        ". " * 100_000: [(0, 199_999)],
        "A Mr. " + "J. " * 50_000 + "X": [(0, 150_007)],
    }.items():
        assert sentence_spans(text, "en") == spans


@pytest.mark.parametrize(
    ("text", "language", "blank", "joined"),
    [
        ("一。二。\n三。", "zh", " ", "一。 二。\n三。"),
        ("一。 二。　三。", "zh", "", "一。二。三。"),
        ("One.  Two.\n- Three. Four.", "en", " ", "One.  Two.\n- Three. Four."),
        ("One.  Two.\n- Three. Four.", "en", "", "One.Two.\n- Three.Four."),
    ],
)
def test_sentences_are_joined_as_the_target_language_wants(
    text: str, language: str, blank: str, joined: str
) -> None:
    document = Document.split(text, language)
    [found] = document.join([[Translation(one, 0.0)] for one in document.sentences], blank)
    assert found.text == joined


def test_list_markers_are_not_part_of_sentences() -> None:
    assert Document.split("1. First. And so on.\n- Last", "de").sentences == [
        "First.",
        "And so on.",
        "Last",
    ]


def test_links_count_the_words_of_the_document() -> None:
    document = Document.split("- One two. Three", "en")
    first = Translation("a b c", -1.0, [(0, 0), (1, 2)], utility=3.0, notes=("cut",))
    last = Translation("d", -1.0, [(0, 0)], utility=5.0)
    [found] = document.join([[first, last], [last]])
    assert found == Translation(
        "- a b c d", -2.0, [(0, 0), (1, 1), (2, 3), (3, 4)], utility=4.0, notes=("cut",)
    )
    [found] = document.join([[first], [replace(last, alignment=None)]])
    assert found.alignment is None


def test_links_of_sentences_without_a_blank_between_them() -> None:
    document = Document.split("一。二。", "zh")
    parts = [[Translation("a b", -1.0, [(0, 1)])], [Translation("c d", -1.0, [(0, 0)])]]
    assert document.join(parts)[0].alignment == [(0, 1), (0, 2)]
    assert document.join(parts, "")[0].alignment == [(0, 1), (0, 1)]
