from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.translation.glossary import Glossary, frequent_words
from nmt.translation.request import Request, TermOutcome, Translation
from nmt.translation.term_files import Term, read_terms
from nmt.translation.torch_engine import TorchEngine
from nmt.translation.translator import Translator
from tests.support import tiny_trained_model

TBX = """<tbx xmlns="urn:iso:std:iso:30042:ed-2" type="TBX-Basic"><text><body><conceptEntry id="1">
<langSec xml:lang="en"><termSec><term type="main">house</term></termSec></langSec>
<langSec xml:lang="de-AT"><termSec><term>Haus</term></termSec><termSec><term>Bau</term></termSec>
</langSec></conceptEntry></body></text></tbx>"""


def terms_of(path: Path, text: str) -> list[Term]:
    path.write_text(text, encoding="utf-8")
    return read_terms(path, "en", "de")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "red house\trotes Haus\nACME\n"),
        ("a.tsv", "de\tpos\ten\ttranslate\nrotes Haus\tnoun\tred house\tyes\nx\t\tACME\tno\n"),
        ("a.csv", '"red house","rotes Haus"\r\nACME,,,exact\r\n'),
        ("a.tsv", "German\ten_US\nrotes Haus\tred house\n\tACME\n"),
        ("a.csv", "source;target;case\nred house;rotes Haus;\nACME;ACME;exact\n"),
    ],
)
def test_tables(tmp_path: Path, name: str, text: str) -> None:
    assert terms_of(tmp_path / name, text) == [
        Term("red house", ("rotes Haus",), pos="noun" if "noun" in text else ""),
        Term("ACME", ("ACME",), is_exact=True),
    ]


def test_tbx(tmp_path: Path) -> None:
    assert terms_of(tmp_path / "a.tbx", TBX) == [Term("house", ("Haus", "Bau"))]
    status = '<termNote type="administrativeStatus">{}</termNote><term>'
    old, new = map(status.format, ("deprecatedTerm-admn-sts", "preferredTerm-admn-sts"))
    heim = "<termSec><term>Heim</term></termSec>"
    text = TBX.replace("<term>Haus", f"{old}Haus").replace("<term>Bau", f"{new}Bau")
    text = text.replace("house</term>", "house</term><partOfSpeech>noun</partOfSpeech>")
    text = text.replace('xml:lang="de-AT">', f'xml:lang="de-AT">{heim}')
    assert terms_of(tmp_path / "a.tbx", text) == [Term("house", ("Bau", "Heim"), pos="noun")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "\n", "a.tsv: has no terms in en and de"),
        ("a.tsv", "a\tb\n\tc\n", "a.tsv: line 2: has no source term"),
        ("a.tsv", "a\tb\tnoun\tbig\n", r"line 1: column 4 \(case\) has 'big', not any or exact"),
        ("a.tsv", "a\tb\t\t\t\tc\n", "line 1: column 6 has no name; name all columns"),
        ("a.csv", "source,target\na,b,c\n", "line 2: column 3 has no name"),
        ("a.tsv", "ACME\n", "a.tsv: has one column; .* source in the first line"),
        ("a.csv", "house|Haus\n\nA b|c\n", "a.csv: has one column"),
        ("a.tsv", "a\t\t\t\tyes\n", "line 1: translate=yes needs a target"),
        ("a.tsv", "fr\tes\na\tb\n", "line 1: names the languages es and fr, not en and de"),
        ("a.csv", "English,fr-CA\na,b\n", "line 1: names the languages en and fr"),
        ("a.csv", "en,de,de-AT\na,b,c\n", "line 1: names the column target twice"),
        ("a.csv", 'a,b\n\nc,"d\ne\n', "a.csv: line 3: unexpected end of data; correct its quotes"),
        ("a.csv", '"a\nb",c\n\n,d\n', "a.csv: line 4: has no source term"),
        ("a.tbx", "<tbx", "a.tbx: is no valid TBX file"),
    ],
)
def test_invalid_glossaries(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        terms_of(tmp_path / name, text)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    for raw, message in {
        "a\tb".encode("utf-16"): "is UTF-16; convert the file first",
        "a\tb\nc\tä".encode("latin1"): "line 2, byte 3: 0xe4 is not valid UTF-8",
        b"PK\x03\x04": "a document of an office program",
    }.items():
        path.write_bytes(raw)
        with pytest.raises(UserError, match=message):
            read_terms(path, "en", "de")


def test_a_first_line_of_terms_and_a_list_of_names(tmp_path: Path) -> None:
    german = Term("German", ("Deutsch",))
    assert terms_of(tmp_path / "a.tsv", "German\tDeutsch\n") == [german]
    names = terms_of(tmp_path / "a.tsv", "source\nACME\n")
    assert names == [Term("ACME", ("ACME",), is_exact=True)]


@pytest.fixture
def glossary() -> Glossary:
    terms = [
        Term("red house", ("rotes Haus",)),
        Term("house", ("Haus",)),
        Term("Go", ("Go",), is_exact=True),
    ]
    return Glossary("en", "de", terms, ["Häuser", "roten", "Hauses", "Katze"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Two red houses, one house.", ["red house", "house"]),
        ("HOUSES!", ["house"]),
        ("A redhouse.", []),
        ("We write Go, and go.", ["Go"]),
        ("We go.", []),
        ("", []),
    ],
)
def test_terms_are_found_by_lemma(glossary: Glossary, text: str, found: list[str]) -> None:
    assert [term.source for term in glossary.found_in(text)] == found


def test_the_part_of_speech_tells_the_case() -> None:
    nouns = [Term("arm", ("Arm",), pos="noun"), Term("Apple", ("Apple",), pos="proper noun")]
    glossary = Glossary("en", "de", nouns, ["arm", "Armes", "armes", "Arms"])
    assert glossary.forms(nouns[0]) == ["Arm", "Armes", "Arms"]
    assert [term.source for term in glossary.found_in("We bought an apple from Apple.")] == [
        "Apple"
    ]
    verb = Term("leben", ("live",), pos="verb")
    assert Glossary("de", "en", [verb]).found_in("Das Leben.") == []
    assert Glossary("de", "en", [verb]).found_in("Leben sie und leben wir?") == [verb]
    assert Glossary("de", "en", [Term("leben", ("live",))]).found_in("Das Leben.") != []


def test_forms_are_those_of_the_training_text(glossary: Glossary) -> None:
    red_house, house, go = glossary.terms
    assert glossary.forms(house) == ["Haus", "Häuser", "Hauses"]
    assert "roten Hauses" in glossary.forms(red_house)
    assert "Roten Hauses" in glossary.forms(red_house)  # at the start of a sentence
    assert glossary.forms(go) == ["Go"]


def test_terms_are_annotated_in_the_source(glossary: Glossary) -> None:
    request = Request("Two red houses, one house.")
    required = glossary.applied(request)
    assert required.annotated == ""
    assert [forms[0] for forms in required.terms] == ["rotes Haus", "Haus"]
    annotating = replace(glossary, is_annotated=True)
    assert annotating.applied(request) == replace(
        required,
        annotated="Two<term> red houses<as> rotes Haus</term>, one<term> house<as> Haus</term>.",
    )
    assert replace(glossary, is_annotated=True).applied(Request("A cat.")) == Request(
        "A cat.", terms=[]
    )


def test_a_source_that_is_too_long_with_its_terms_has_required_terms(
    tokenizer_path: Path,
) -> None:
    model = tiny_trained_model(tokenizer_path, max_source_length=40, max_length=60)
    glossary = Glossary("en", "de", [Term("kalo", ("mi ra",))], is_annotated=True)
    engine = TorchEngine(model, model.config.decoding)
    engine.can_require = False
    translator = Translator(model, engine=engine).with_glossary(glossary)
    short, long = "Kalo.", "Kalo" + " ra" * 20
    [[found], [other]] = translator.translate([short, long])
    annotated = glossary.applied(Request(short)).annotated
    assert Translator(model).translate([annotated]) == [[found]]
    assert "mi ra" in other.text
    assert "mi ra" not in found.text


def test_outcomes_are_counted(glossary: Glossary) -> None:
    outcomes: list[TermOutcome] = []
    for translation in ("Das Haus.", "Die Häuser.", "Hausboot"):
        [reported] = glossary.reported("A house", [Translation(translation, 0.0)])
        outcomes += reported.terms or ()
    assert outcomes == [
        ("house", "Haus", "kept"),
        ("house", "Häuser", "inflected"),
        ("house", "Haus", "missed"),
    ]
    assert str(glossary.counts) == "terms: 1 as in the glossary, 1 inflected, 1 missed"


def test_symbols_and_exact_terms() -> None:
    terms = [
        Term("C++", ("C++",)),
        Term(".NET", (".NET",)),
        Term("C", ("C",)),
        Term("mail", ("Post",)),
        Term("mail", ("Mail",), is_exact=True),
        Term("red cat", ("Rotkatze",)),
        Term("cat on mats", ("Mattenkatze",)),
        *(Term(one, (one,)) for one in ("+++", "->", "U.S.", "北京")),
    ]
    glossary = Glossary("en", "de", terms)

    def found(text: str) -> list[str]:
        return [term.targets[0] for term in glossary.found_in(text)]

    assert found("The net has a C# client.") == []
    assert found("a +++ b ++++ x->y U.S. team 在北京市") == ["+++", "->", "U.S.", "北京"]
    assert found("red. Cat on mats") == ["Mattenkatze"]
    outcomes = glossary.outcomes("+++ and C++", "das+++und C++")
    assert [one.outcome for one in outcomes] == ["kept", "kept"]
    assert found("C++, C and .NET!") == ["C++", "C", ".NET"]
    assert found("Mails, mail") == ["Post", "Mail"]
    assert found("A red cat on mats.") == ["Rotkatze"]


def test_languages_without_blanks_or_lemmas(tmp_path: Path) -> None:
    exact = Term("IT", ("ไอที",), is_exact=True)
    names = [Term("Istanbul", ("อิสตันบูล",)), exact]
    texts = ["İstanbul", "istanbul", "it", "IT"]
    found = [Glossary("zh", "th", names).found_in(text) for text in texts]
    assert found == [[], names[:1], [], [exact]]
    glossary = Glossary("zh", "th", [Term("北京", ("ปักกิ่ง",)), Term("北京大学", ("ม",))])
    assert [term.source for term in glossary.found_in("我在北京大学。")] == ["北京大学"]
    assert len(glossary.found_in("北京大学在北京。")) == 2
    assert list(glossary.outcomes("北京", "อยู่ปักกิ่งนะ")) == [("北京", "ปักกิ่ง", "kept")]
    assert Glossary("ay", "de", [Term("uta", ("Haus",))]).found_in("Uta!") != []


def test_frequent_words() -> None:
    assert frequent_words(Counter({"ein": 2, "Haus": 3, "Ein": 1})) == ["Haus", "ein"]
