from collections.abc import Callable, Sequence
from dataclasses import astuple

import pytest

from nmt.base.errors import UserError
from nmt.trained_model import TrainedModel
from nmt.translation.alignment import Aligner
from nmt.translation.pipeline import Pipeline
from nmt.translation.protection import (
    Mark,
    Protection,
    insert_marks,
    protected_spans,
    without_spans,
)
from nmt.translation.request import Links, Request, Translation


class FakeTranslator:
    """Translates with a function."""

    blank = " "
    glossary = None

    def __init__(self, change: Callable[[str], str]) -> None:
        self.change = change

    def translate(
        self, requests: Sequence[Request | str], progress: Callable[[int], None] | None = None
    ) -> list[list[Translation]]:
        texts = [one if isinstance(one, str) else one.source for one in requests]
        return [[Translation(self.change(text), -1.0, notes=(text,))] for text in texts]

    def check(self, request: Request) -> None:
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


def protecting(change: Callable[[str], str], aligner: Aligner) -> Pipeline:
    return Pipeline(FakeTranslator(change), protection=Protection(aligner))


def counts(pipeline: Pipeline) -> tuple[int, int, int]:
    assert pipeline.protection
    return astuple(pipeline.protection.counts)


def test_a_document_has_the_notes_on_its_sentences() -> None:
    documents = [Request("One. Two!"), Request(""), Request("Three.\nFour.")]
    found = Pipeline(FakeTranslator(str), "en").translate(documents)
    assert [best.text for best, *_ in found] == [request.source for request in documents]
    assert [best.notes for best, *_ in found] == [("One.", "Two!"), ("",), ("Three.", "Four.")]


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
    ("text", "expected", "outcomes"),
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
    text: str, expected: str, outcomes: tuple[int, int], aligner: MonotonicAligner
) -> None:
    pipeline = protecting(lose_marks, aligner)
    [[translation]] = pipeline.translate([Request(text)])
    assert translation.text == expected
    assert counts(pipeline) == (*outcomes, 0)


@pytest.mark.parametrize(
    "text", ["(<b>w</b>)", "“<a href='x'><b>Hi</b></a>”", "l'{n}est", "点{n}继"]
)
def test_no_space_is_added_beside_brackets_and_in_scripts_without_spaces(
    text: str, aligner: MonotonicAligner
) -> None:
    given: list[str] = []
    pipeline = protecting(lambda one: given.append(one) or "x", aligner)
    pipeline.translate([Request(text)])
    assert " " not in given[-1].removeprefix(text)


def test_constraints_of_text_with_spans_are_refused(aligner: MonotonicAligner) -> None:
    pipeline = protecting(str, aligner)
    pipeline.check(Request("no spans", prefix="a"))
    with pytest.raises(UserError, match="do not apply to text with protected spans"):
        pipeline.check(Request("say {name}", prefix="a"))


def test_samples_that_are_equal_are_kept(
    aligner: MonotonicAligner, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [Translation(text, -1.0) for text in ("a b", "a b", "c d")]
    monkeypatch.setattr(FakeTranslator, "translate", lambda _, texts, *__: [samples for _ in texts])
    [found] = protecting(lose_marks, aligner).translate([Request("{x} word")])
    assert [one.text for one in found] == ["{x} a b", "{x} a b", "{x} c d"]


def test_translations_with_all_spans_are_kept(aligner: MonotonicAligner) -> None:
    pipeline = protecting(str.upper, aligner)
    assert pipeline.translate([Request("say %s"), Request("go {X}")])[1][0].text == "GO {X}"
    assert counts(pipeline) == (1, 1, 0)  # %S is not %s
    summary = (
        "protected spans: 1 kept by the model, 1 inserted by alignment, 0 in untranslated lines"
    )
    assert str(pipeline.protection.counts) == summary


@pytest.mark.parametrize("output", ["", "all the same", "{made} {up}"])
def test_every_span_survives_any_output_of_the_model(
    output: str, aligner: MonotonicAligner
) -> None:
    texts = ["a {x} b <i>c</i> d@e.fr", "%s", "<b></b> {x}{x} word"]
    found = protecting(lambda _: output, aligner).translate(list(map(Request, texts)))
    for text, [translation] in zip(texts, found, strict=True):
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


@pytest.mark.parametrize(
    "text",
    [
        "<b> ka " * 16_000,
        "<b> ka " * 8_000 + "</i> lo " * 8_000,
        "<b> ka " * 8_000 + "</b> lo " * 8_000,
        "{a} ka <i>lo</i> " * 8_000,
    ],
    ids=["unclosed", "others closed", "nested", "many"],
)
def test_many_spans_return_to_their_places(text: str) -> None:
    """Before, 16,000 unclosed tags took 50 s."""
    bare, marks = without_spans(text)
    links = [(i, i) for i in range(len(bare.split()))]
    found = insert_marks(bare, bare, marks, links)
    assert protected_spans(found) == protected_spans(text)
    assert found.replace(" ", "") == text.replace(" ", "")
