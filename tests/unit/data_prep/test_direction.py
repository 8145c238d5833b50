"""Sentences are of the Universal Declaration of Human Rights, or written for these tests."""

from dataclasses import replace
from pathlib import Path

import pytest

from data_prep.direction import check_direction
from data_prep.dry_run import read_samples
from data_prep.progress import Reporter
from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.config import TokenizerConfig
from tests.unit.data_prep.conftest import Toy

TEXT = {
    "en": "All human beings are born free and equal in dignity and rights. They are endowed with"
    " reason and conscience and should act towards one another in a spirit of brotherhood.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft"
    " und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués"
    " de raison et de conscience et doivent agir les uns envers les autres.",
    "no": "Alle mennesker er født frie og med samme menneskeverd og menneskerettigheter. De er"
    " utstyrt med fornuft og samvittighet og bør handle mot hverandre i brorskapets ånd.",
    "nn": "Alle menneske er fødde til fridom og med same menneskeverd og menneskerettar. Dei har"
    " fått fornuft og samvit og skal leve med kvarandre som brør.",
    "da": "Alle mennesker er født frie og lige i værdighed og rettigheder. De er udstyret med"
    " fornuft og samvittighed, og de bør handle mod hverandre i en broderskabets ånd.",
    "hr": "Sva ljudska bića rađaju se slobodna i jednaka u dostojanstvu i pravima. Ona su obdarena"
    " razumom i sviješću te trebaju jedna prema drugima postupati u duhu bratstva.",
    "bs": "Sva ljudska bića rađaju se slobodna i jednaka u dostojanstvu i pravima. Ona su obdarena"
    " razumom i sviješću i treba da jedno prema drugome postupaju u duhu bratstva.",
    "id": "Semua orang dilahirkan merdeka dan mempunyai martabat dan hak-hak yang sama. Mereka"
    " dikaruniai akal dan hati nurani dan hendaknya bergaul satu sama lain.",
    "ms": "Semua manusia dilahirkan bebas dan samarata dari segi kemuliaan dan hak-hak. Mereka"
    " mempunyai pemikiran dan perasaan hati dan hendaklah bertindak di antara satu sama lain.",
    "pt": "Todos os seres humanos nascem livres e iguais em dignidade e em direitos. Dotados de"
    " razão e de consciência, devem agir uns para com os outros.",
    "gl": "Todas as persoas nacen libres e iguais en dignidade e dereitos e, dotadas como están de"
    " razón e conciencia, débense comportar fraternalmente unhas coas outras.",
    "zh": "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
    "ja": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "th": "มนุษย์ทั้งปวงเกิดมามีอิสระและเสมอภาคกันในศักดิ์ศรีและสิทธิ",
    "sr": "Сва људска бића рађају се слободна и једнака у достојанству и правима. Она су обдарена"
    " разумом и свешћу и треба једни према другима да поступају у духу братства.",
    "shn": "ၵူၼ်းၵူႈၵေႃႉၼႆႉ ပဵၼ်ၵူၼ်းလွတ်ႈလႅဝ်း မီးသုၼ်ႇလႆႈလႅၼ်းမိူၼ်ၵၼ်",
}
USER_INTERFACE = {
    "en": ["Open", "Save as", "Settings", "Cancel", "E-Mail", "Login", "Delete folder", "Help"],
    "de": ["Öffnen", "Speichern", "Optionen", "Abbruch", "E-Mail", "Login", "Ordner löschen", "Hi"],
}


def check(source: str, target: str, direction: str) -> bool:
    sides = ([TEXT[language]] * 30 for language in (source, target))
    return check_direction(tuple(sides), direction, "corpus.name=x")


@pytest.mark.parametrize(
    ("source", "target", "direction"),
    [
        *[(code, other, f"{code}-{other}")
          for code, other in (("en", "de"), ("no", "da"), ("da", "no"), ("nn", "no"), ("hr", "bs"),
                              ("id", "ms"), ("ms", "id"), ("pt", "gl"), ("gl", "pt"), ("en", "zh"),
                              ("ja", "zh"), ("th", "ja"), ("sr", "en"), ("en", "shn"))],
        ("en", "hr", "en-bs"),
        ("hr", "en", "sr_Latn-en"),
        ("hr", "en", "sr-en"),
        ("nn", "en", "nb-en"),
        ("da", "en", "no-en"),
        ("ms", "en", "id-en"),
        ("en", "zh", "en-yue"),
        ("en", "zh", "eng_Latn-zho_Hans"),
        ("en", "de", "en_GB-German"),
        ("de", "en", "words-tags"),
    ],
)  # fmt: skip
def test_the_right_languages_and_similar_ones_pass(source, target, direction) -> None:
    assert check(source, target, direction)


@pytest.mark.parametrize(
    ("source", "target", "direction", "message"),
    [
        ("de", "en", "en-de", "source and target are swapped"),
        ("da", "no", "no-da", "source and target are swapped"),
        ("zh", "en", "en-zh", "source and target are swapped"),
        ("zh", "ja", "ja-zh", "source and target are swapped"),
        ("shn", "en", "en-shn", "source and target are swapped"),
        ("en", "en", "en-de", "both sides are in the source language"),
        ("de", "de", "en-de", "both sides are in the target language"),
        ("en", "en", "en-th", "both sides are in the source language"),
        ("en", "fr", "en-de", r"the target text is in French \(fr\)"),
        ("en", "ja", "en-zh", r"the target text is in Japanese \(ja\)"),
        ("no", "de", "en-de", r"the source text is in Norwegian \(no\)"),
        ("sr", "en", "ru-en", r"the source text is in Serbian \(sr\)"),
    ],
)
def test_certainly_wrong_languages_stop(source, target, direction, message: str) -> None:
    with pytest.raises(UserError, match=rf"x: {message}, but corpus\.direction={direction}"):
        check(source, target, direction)


def test_short_strings_are_identified_together() -> None:
    sides = USER_INTERFACE["en"] * 20, USER_INTERFACE["de"] * 20
    assert check_direction(sides, "en-de", "corpus.name=x")
    with pytest.raises(UserError, match="swapped"):
        check_direction(sides, "de-en", "corpus.name=x")
    assert not check_direction((["OK"] * 5, ["OK"] * 5), "en-de", "corpus.name=x")


@pytest.mark.parametrize(
    ("source", "target", "direction", "message"),
    [
        ("zh", "en", "en-zh", "source and target are swapped"),
        ("sr", "en", "en-ru", "source and target are swapped"),
        ("en", "th", "th-en", "source and target are swapped"),
        ("en", "fr", "en-zh", "both sides are in the source language"),
        ("en", "zh", "en-zh", ""),
        ("hr", "en", "sr-en", ""),  # Serbian is also written in Latin letters
        ("hr", "en", "sr_Cyrl-en", "both sides are in the target language"),
        ("de", "en", "en-de", ""),
    ],
)
def test_of_little_text_only_the_scripts_are_compared(source, target, direction, message) -> None:
    sides = [TEXT[source][:60]] * 2, [TEXT[target][:60]] * 2
    if message:
        with pytest.raises(UserError, match=f"x: {message}"):
            check_direction(sides, direction, "corpus.name=x")
    else:
        assert not check_direction(sides, direction, "corpus.name=x")


def test_too_little_text_is_reported(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    for code in ("en", "de"):
        write_lines(toy.raw / f"train.{code}", toy.lines(f"train.{code}")[:10])
    line = "corpus.name=toy: too little text to identify its languages; only scripts are compared"
    read_samples(toy.config, toy.outputs, Reporter(quiet=True))
    assert line in capsys.readouterr().err
    toy.prepare(TokenizerConfig(vocabulary_size=290))
    assert capsys.readouterr().err.count(line) == 1


def test_swapped_text_is_not_prepared(toy: Toy, tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (toy.raw / f"{split}.en").rename(tmp_path / "en")
        (toy.raw / f"{split}.de").rename(toy.raw / f"{split}.en")
        (tmp_path / "en").rename(toy.raw / f"{split}.de")
    for _ in range(2):
        with pytest.raises(UserError, match=r"corpus\.name=toy: source and target are swapped"):
            toy.prepare()
    assert toy.prepare(check_languages=False).is_dir()


def test_each_source_and_split_is_checked(toy: Toy, tmp_path: Path) -> None:
    for code in ("en", "de"):
        write_lines(
            tmp_path / "more" / f"train.{code}", [f"{TEXT['en']} {n} {code}" for n in range(30)]
        )
    sources = {"more": {"path": str(tmp_path / "more")}}
    config = replace(toy.config, sources=sources)
    with pytest.raises(UserError, match=r"corpus\.sources\.more: both sides are in the source"):
        replace(toy, config=config).prepare()
    for code in ("en", "de"):
        write_lines(toy.raw / f"news.{code}", [TEXT["fr"]] * 30)
    with pytest.raises(UserError, match=r"corpus\.name=toy, split news: the source text is in Fre"):
        toy.prepare()


@pytest.mark.parametrize(
    ("sides", "warning"),
    [
        ([["A dog.", "One"] * 9, ["A dog.", "Eins"] * 9], "50 % of the pairs have two equal sides"),
        ([["A d@@ og."] * 9, ["Ein Hund."] * 9], "100 % of the pairs have @@"),
        ([["A dog.", "3"] * 9, ["Ein Hund.", "3"] * 9], ""),
    ],
)
def test_odd_text_is_warned_of(
    sides: list[list[str]], warning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_direction(sides, "en-de", "mine")
    assert warning in capsys.readouterr().err
    assert warning or not capsys.readouterr().err
