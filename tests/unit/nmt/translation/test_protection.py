from collections.abc import Callable, Sequence
from dataclasses import astuple

import pytest

from nmt.base.errors import UserError
from nmt.trained_model import TrainedModel
from nmt.translation.alignment import Aligner, Links
from nmt.translation.formats import Item
from nmt.translation.pipeline import Pipeline
from nmt.translation.protection import (
    Mark,
    ProtectingTranslator,
    insert_marks,
    protected_spans,
)
from nmt.translation.translator import Constraints, Translation


class FakeTranslator:
    """Translates with a function and records line numbers."""

    def __init__(self, change: Callable[[str], str]) -> None:
        self.change = change
        self.lines: list[list[int] | None] = []

    def translate(
        self,
        texts: Sequence[str],
        progress: Callable[[int], None] | None = None,
        lines: Sequence[int] | None = None,
        constraints: Sequence[Constraints] | None = None,
    ) -> list[list[Translation]]:
        self.lines.append(lines and list(lines))
        return [[Translation(self.change(text), -1.0, [])] for text in texts]

    def check(self, constraints: Constraints) -> None:
        pass


class MonotonicAligner(Aligner):
    """Aligns the n-th words."""

    def links(self, sources: Sequence[str], translations: Sequence[str]) -> list[Links | None]:
        return [
            [(index, index) for index in range(min(len(s.split()), len(t.split())))]
            for s, t in zip(sources, translations, strict=True)
        ]


@pytest.fixture
def aligner(trained_model: TrainedModel) -> MonotonicAligner:
    return MonotonicAligner(trained_model)


def test_second_translation_has_the_line_numbers_of_its_texts(aligner: MonotonicAligner) -> None:
    fake = FakeTranslator(lose_marks)
    texts = ["no spans", "say {name} now", "nothing", "a <b>dog</b>. no"]
    ProtectingTranslator(fake, aligner).translate(texts, lines=[5, 6, 7, 9])
    assert fake.lines == [[5, 6, 7, 9], [6, 9]]


def test_sentences_of_a_document_have_its_line_number() -> None:
    fake = FakeTranslator(str)
    documents = [Item("One. Two!"), Item(""), Item("Three.\nFour.")]
    answers = Pipeline(fake, language="en").answers(documents, first_line=41)
    assert [answer.translations[0].text for answer in answers] == [d.source for d in documents]
    assert fake.lines == [[41, 41, 42, 43, 43]]


def test_protected_spans() -> None:
    text = (
        'A <a href="b c">d</a><br/> 1 < 2 > 0; see https://e.org/f?g=1, (www.h.de) or i.j@k.org.'
        " {l} ${m} {{n o}} %s %(p)d %2$s 100% __Q__ {not this} 5 %d"
    )
    assert protected_spans(text) == [
        *('<a href="b c">', "</a>", "<br/>", "https://e.org/f?g=1", "www.h.de", "i.j@k.org"),
        *("{l}", "${m}", "{{n o}}", "%s", "%(p)d", "%2$s", "__Q__", "%d"),
    ]


def test_long_words_take_linear_time() -> None:
    assert protected_spans(f"{'a' * 200_000} b@c.de ({'d' * 200_000}@e.org)") == [
        "b@c.de",
        f"{'d' * 200_000}@e.org",
    ]


def lose_marks(text: str) -> str:
    """Drop everything but letters, in lower case."""
    return " ".join("".join(filter(str.isalpha, word.lower())) or "x" for word in text.split())


@pytest.mark.parametrize(
    ("text", "expected", "counts"),
    [
        ("no spans", "no spans", (0, 0)),
        ("say {name} now", "say {name} now", (0, 1)),
        ("a <b>big dog</b> and {x}", "a <b>big dog</b> and {x}", (0, 3)),
        ("a <b>dog</b>. no", "a <b>dog</b> no", (0, 2)),
        ("one<br/> two", "one <br/> two", (0, 1)),
        ("one<br/>two three", "one <br/> two three", (0, 1)),
        ("<p>a b</p><p>c d</p>", "<p>a b</p> <p>c d</p>", (0, 4)),
        ("the <b>w</b>ord", "the <b>word</b>", (0, 2)),
        ("the wo<b><i>rd</i></b>", "the <b><i>word</i></b>", (0, 4)),
        ("A.<br/>B c", "a <br/> b c", (0, 1)),
        ("{x} <b>", "{x} <b>", (2, 0)),
        ("{a} {b} {c} {d} {e} {f} {g} w", "{a} {b} {c} {d} {e} {f} {g} w", (0, 7)),
    ],
)
def test_spans_are_inserted(
    text: str, expected: str, counts: tuple[int, int], aligner: MonotonicAligner
) -> None:
    translator = ProtectingTranslator(FakeTranslator(lose_marks), aligner)
    [[translation]] = translator.translate([text])
    assert translation.text == expected
    assert astuple(translator.counts) == (*counts, 0)


@pytest.mark.parametrize(
    "text", ["(<b>w</b>)", "“<a href='x'><b>Hi</b></a>”", "l'{n}est", "点{n}继"]
)
def test_no_space_is_added_beside_brackets_and_in_scripts_without_spaces(
    text: str, aligner: MonotonicAligner
) -> None:
    given: list[str] = []
    fake = FakeTranslator(lambda one: given.append(one) or "x")  # type: ignore[func-returns-value]
    ProtectingTranslator(fake, aligner).translate([text])
    assert " " not in given[-1].removeprefix(text)


def test_constraints_of_text_with_spans_are_refused(aligner: MonotonicAligner) -> None:
    pipeline = Pipeline(ProtectingTranslator(FakeTranslator(str), aligner))
    constraints = Constraints(prefix="a")
    pipeline.check(Item("no spans", constraints=constraints))
    with pytest.raises(UserError, match="do not apply to text with protected spans"):
        pipeline.check(Item("say {name}", constraints=constraints))


def test_samples_that_are_equal_are_kept(
    aligner: MonotonicAligner, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeTranslator(lose_marks)
    samples = [Translation(text, -1.0, []) for text in ("a b", "a b", "c d")]
    monkeypatch.setattr(fake, "translate", lambda texts, *_: [samples for _ in texts])
    [found] = ProtectingTranslator(fake, aligner).translate(["{x} word"])
    assert [one.text for one in found] == ["{x} a b", "{x} a b", "{x} c d"]


def test_translations_with_all_spans_are_kept(aligner: MonotonicAligner) -> None:
    translator = ProtectingTranslator(FakeTranslator(str.upper), aligner)
    assert translator.translate(["say %s", "go {X}"])[1][0].text == "GO {X}"
    assert translator.counts.kept == 1  # %S is not %s
    summary = (
        "protected spans: 1 kept by the model, 1 inserted by alignment, 0 in untranslated lines"
    )
    assert str(translator.counts) == summary


@pytest.mark.parametrize("output", ["", "all the same", "{made} {up}"])
def test_every_span_survives_any_output_of_the_model(
    output: str, aligner: MonotonicAligner
) -> None:
    texts = ["a {x} b <i>c</i> d@e.fr", "%s", "<b></b> {x}{x} word"]
    translator = ProtectingTranslator(FakeTranslator(lambda _: output), aligner)
    for text, [translation] in zip(texts, translator.translate(texts), strict=True):
        assert sorted(protected_spans(translation.text)) == sorted(protected_spans(text))


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([Mark("<b>", 2), Mark("</b>", 9)], "rennt ein <b>Hund, gross</b>"),
        ([Mark("<b>", 6), Mark("</b>", 9)], "rennt ein <b>Hund</b>, gross"),
        ([Mark("{x}", 10)], "{x} rennt ein Hund, gross"),
    ],
)
def test_marks_follow_the_alignment(marks: list[Mark], expected: str) -> None:
    source, translation = "a big dog runs", "rennt ein Hund, gross"
    links = [(0, 1), (1, 3), (2, 2), (3, 0)]
    assert insert_marks(source, translation, marks, links) == expected
    without_links = insert_marks(source, translation, marks, None)
    assert without_links == f"{translation}{'' if marks[0].text == '<b>' else ' '}" + "".join(
        mark.text for mark in marks
    )
