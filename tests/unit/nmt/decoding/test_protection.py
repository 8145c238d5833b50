from collections.abc import Callable, Sequence

import pytest

from nmt.decoding.alignment import Aligner, Links
from nmt.decoding.formats import Item
from nmt.decoding.markup import Mark, put_back
from nmt.decoding.pipeline import Pipeline
from nmt.decoding.protection import ProtectingTranslator, spans
from nmt.decoding.task import Wish
from nmt.decoding.translator import Translation
from nmt.trained_model import TrainedModel


class Fake:
    """Translates by a function, and aligns word by word in order."""

    def __init__(self, change: Callable[[str], str]) -> None:
        self.change = change
        self.lines: list[list[int] | None] = []

    def translate(
        self,
        texts: Sequence[str],
        progress: Callable[[int], None] | None = None,
        lines: Sequence[int] | None = None,
        wishes: Sequence[Wish] | None = None,
    ) -> list[list[Translation]]:
        self.lines.append(lines and list(lines))
        return [[Translation(self.change(text), -1.0, [])] for text in texts]


class InOrder(Aligner):
    def links(self, sources: Sequence[str], translations: Sequence[str]) -> list[Links | None]:
        return [
            [(place, place) for place in range(min(len(s.split()), len(t.split())))]
            for s, t in zip(sources, translations, strict=True)
        ]


@pytest.fixture
def in_order(trained_model: TrainedModel) -> InOrder:
    return InOrder(trained_model)


def test_what_is_translated_again_keeps_its_line(in_order: InOrder) -> None:
    fake = Fake(lower)
    texts = ["no spans", "say {name} now", "nothing", "a <b>dog</b>. no"]
    ProtectingTranslator(fake, in_order).translate(texts, lines=[5, 6, 7, 9])
    assert fake.lines[0] == [5, 6, 7, 9]
    assert [6] in fake.lines
    assert fake.lines[-1] == [9]


def test_sentences_of_a_document_have_its_line() -> None:
    fake = Fake(str)
    documents = [Item("One. Two!"), Item(""), Item("Three.\nFour.")]
    answers = Pipeline(fake, language="en").answers(documents, first_line=41)
    assert [answer.translations[0].text for answer in answers] == [d.source for d in documents]
    assert fake.lines == [[41, 41, 43, 43]]


def test_what_is_protected() -> None:
    text = (
        'A <a href="b c">d</a><br/> 1 < 2 > 0; see https://e.org/f?g=1, (www.h.de) or i.j@k.org.'
        " {l} ${m} {{n o}} %s %(p)d %2$s 100% __Q__ {not this} 5 %d"
    )
    assert spans(text) == [
        *('<a href="b c">', "</a>", "<br/>", "https://e.org/f?g=1", "www.h.de", "i.j@k.org"),
        *("{l}", "${m}", "{{n o}}", "%s", "%(p)d", "%2$s", "__Q__", "%d"),
    ]


def test_a_word_is_tried_once_for_an_address() -> None:
    """One that were tried from each of its letters would take minutes."""
    assert spans(f"{'a' * 200_000} b@c.de ({'d' * 200_000}@e.org)") == [
        "b@c.de",
        f"{'d' * 200_000}@e.org",
    ]


def lower(text: str) -> str:
    """A model that loses all marks and capitals of what it has not learnt, but copies names."""
    words = text.split()
    return " ".join(
        word if word.istitle() else "".join(filter(str.isalpha, word.lower())) or "x"
        for word in words
    )


@pytest.mark.parametrize(
    ("text", "expected", "tally"),
    [
        ("no spans", "no spans", (0, 0, 0, 0)),
        ("say {name} now", "say {name} now", (1, 0, 1, 0)),
        ("say {name} Tom", "say {name} Tom", (1, 0, 1, 0)),
        ("a <b>big dog</b> and {x}", "a <b>big dog</b> and {x}", (1, 0, 1, 2)),
        ("a <b>dog</b>. no", "a <b>dog</b> no", (1, 0, 0, 2)),
        ("one<br/> two", "one <br/> two", (1, 0, 0, 1)),
        ("{x} <b>", "{x} <b>", (1, 2, 0, 0)),
        ("{a} {b} {c} {d} {e} {f} {g} w", "{a} {b} {c} {d} {e} {f} {g} w", (1, 0, 0, 7)),
    ],
)
def test_ways_to_keep_spans(
    text: str, expected: str, tally: tuple[int, int, int, int], in_order: InOrder
) -> None:
    translator = ProtectingTranslator(Fake(lower), in_order)
    [[translation]] = translator.translate([text])
    assert translation.text == expected
    counted = translator.tally
    assert (counted.lines, counted.kept, counted.stood_in, counted.put_back) == tally
    assert counted.untranslated == 0


def test_a_model_that_keeps_spans_is_left_alone(in_order: InOrder) -> None:
    translator = ProtectingTranslator(Fake(str.upper), in_order)
    assert translator.translate(["say %s", "go {X}"])[1][0].text == "GO {X}"
    assert translator.tally.kept == 1  # %S is not %s
    assert translator.tally.told().startswith("2 protected spans in 2 lines: 1 kept by the model")


@pytest.mark.parametrize("lost", ["", "all the same", "{made} {up}"])
def test_every_span_survives_whatever_the_model_says(lost: str, in_order: InOrder) -> None:
    texts = ["a {x} b <i>c</i> d@e.fr", "%s", "<b></b> {x}{x} word"]
    translator = ProtectingTranslator(Fake(lambda _: lost), in_order)
    for text, [translation] in zip(texts, translator.translate(texts), strict=True):
        assert sorted(spans(translation.text)) == sorted(spans(text))


def test_marks_go_where_words_went() -> None:
    source, translation = "a big dog runs", "rennt ein Hund, gross"
    links = [(0, 1), (1, 3), (2, 2), (3, 0)]
    marks = [Mark("<b>", 2, True), Mark("</b>", 9, True)]
    assert put_back(source, translation, marks, links) == "rennt ein <b>Hund, gross</b>"
    marks = [Mark("<b>", 6, True), Mark("</b>", 9, True)]
    assert put_back(source, translation, marks, links) == "rennt ein <b>Hund</b>, gross"
    assert put_back(source, translation, [Mark("{x}", 10, False)], links) == (
        "{x} rennt ein Hund, gross"
    )
    assert put_back(source, translation, [Mark("{x}", 10, False)], None) == (
        "rennt ein Hund, gross {x}"
    )
