import gzip
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from data_prep import xml_reader
from data_prep.clean import Pair
from data_prep.manifest import FactsCache
from data_prep.prepare import prepare
from data_prep.progress import Reporter
from data_prep.text_files import BadUnit
from data_prep.xml_reader import XmlReader
from nmt.base.errors import UserError
from nmt.data.corpus import PreparedCorpus
from tests.unit.data_prep.conftest import Toy

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
BODY = '<tmx version="1.4">\n<header srclang="en"/>\n<body>\n%s\n</body></tmx>'


def unit(*variants: tuple[str, str]) -> str:
    parts = [f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in variants]
    return f"<tu>{''.join(parts)}</tu>"


def units_of(
    tmp_path: Path, text: str | bytes, languages: Sequence[str] = ("en", "de"), name: str = "a.tmx"
) -> list[Pair | BadUnit]:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    cache = FactsCache(tmp_path / "facts")
    reader = XmlReader(path, (languages[0], languages[1]), cache, not name.endswith(".tmx"))
    return list(reader.pairs())


UNITS = [
    unit(("en-US", "A &lt; B &#x2028; 🎉"), ("de-DE", "A &lt; B")),
    unit(("DE", '<bpt i="1">{\\b</bpt>fett<ept i="1">}</ept> <ph/>und <hi>so</hi>'), ("EN", "b")),
    unit(("en", "only English"), ("fr", "non")),
    unit(("de-AT", "Jänner"), ("de", "Januar"), ("en_GB", "January"), ("en-US", "Jan")),
    '<tu><tuv lang="en"><seg>old</seg></tuv><!-- c --><tuv lang="de"><seg>a<?p?>lt</seg></tuv>'
    "</tu>",
]
PAIRS = [
    ("A < B \u2028 🎉", "A < B"),
    ("b", "fett und so"),
    ("only English", ""),
    ("January", "Jänner"),
    ("January", "Januar"),
    ("Jan", "Jänner"),
    ("Jan", "Januar"),
    ("old", "alt"),
]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_the_variants_of_each_unit_are_a_pair(tmp_path: Path, encoding: str) -> None:
    units = [one for one in UNITS if encoding != "iso-8859-1" or "🎉" not in one]
    text = (HEAD.replace("UTF-8", encoding) + BODY % "\n".join(units)).encode(encoding)
    assert units_of(tmp_path, text) == PAIRS[len(UNITS) - len(units) :]


def test_a_language_with_a_region_is_not_confused_with_another(tmp_path: Path) -> None:
    text = BODY % unit(("pt-BR", "ônibus"), ("pt-PT", "autocarro"), ("zh-Hans", "公"), ("en", "b"))
    assert units_of(tmp_path, text, ("pt_PT", "zh_Hans")) == [("autocarro", "公")]
    assert units_of(tmp_path, text, ("pt", "en")) == [("ônibus", "b"), ("autocarro", "b")]


DE = ("de", "b")


@pytest.mark.parametrize(
    ("bad", "kind", "line"),
    [
        (unit(("en", "a\x01"), DE), "a character that XML forbids", 5),
        (unit(("en", "\na&#1;"), DE), "a character that XML forbids", 6),
        (unit(("en", "&#xD800;"), DE), "a character that XML forbids", 5),
        (unit(("en", "a &nosuch; b"), DE), "an unknown entity", 5),
        (unit(("en", "a & b"), DE), "an ampersand that is not written as &amp;", 5),
        (unit(("en", "a < b"), DE), "not valid XML", 5),
        (unit(("en", "<x:b>a</x:b>"), DE), "not valid XML", 5),
        ('<tu>\n<tuv xml:lang="en">a</tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu>',
         "a tuv without seg", 6),
        ("<tu><tuv><seg>a</seg></tuv>" + unit(DE)[4:], "a tuv without xml:lang", 5),
        ("<tu><tuv xml:lang='en'><seg>a</seg>", "a unit without an end", 5),
    ],
)  # fmt: skip
def test_a_bad_unit_is_skipped_alone(tmp_path: Path, bad: str, kind: str, line: int) -> None:
    good = unit(("en", "good"), ("de", "gut"))
    found = units_of(tmp_path, BODY % f"{good}\n{bad}\n{good}")
    assert [found[0], found[2]] == [("good", "gut")] * 2
    assert isinstance(found[1], BadUnit)
    assert (found[1].kind, found[1].line) == (kind, line)
    assert found[1].text.startswith("<tu>")


def test_bytes_of_another_encoding_spoil_one_unit(tmp_path: Path) -> None:
    good = unit(("en", "good"), ("de", "gut"))
    bad, kind = unit(("en", "a"), ("de", "ä")), "bytes that are not in the encoding of the file"
    found = units_of(tmp_path, (BODY % f"{good}{bad}{good}").encode("latin-1"))
    assert [one.kind if isinstance(one, BadUnit) else one.source for one in found] == [
        "good", kind, "good",
    ]  # fmt: skip


def test_names_of_characters_comments_and_namespaces(tmp_path: Path) -> None:
    text = BODY % f"<!-- {unit(('en', 'old'), DE)} -->{unit(('en', 'a&nbsp;b &amp; c'), DE)}"
    assert units_of(tmp_path, text) == [("a\u00a0b & c", "b")]
    prefixed = re.sub(r"(</?)(tu|tuv|seg|body|header)\b", r"\1t:\2", text)
    prefixed = prefixed.replace("<tmx ", '<t:tmx xmlns:t="urn:t" ').replace("</tmx", "</t:tmx")
    assert units_of(tmp_path, prefixed) == [("a\u00a0b & c", "b")]


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ("First<ph>&lt;br/&gt;</ph>second", "First second"),
        ("One.<ph/>Two <ph/>three<ph/>!", "One. Two three!"),
        ("<ph/>Press <bpt i='1'>b</bpt>Sta<ept i='1'>b</ept>rt<ph/>", "Press Start"),
        ("Note <ph>fn<sub>A footnote.</sub></ph>here", "Note here"),
        ("See <hi>the <hi>manual</hi></hi>", "See the manual"),
    ],
)
def test_codes_between_words_leave_a_blank(tmp_path: Path, segment: str, text: str) -> None:
    assert units_of(tmp_path, BODY % unit(("en", segment), DE)) == [(text, "b")]


def test_units_across_blocks_have_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = [unit(("en", f"e{n}"), ("de", f"d{n}")) for n in range(50)]
    units[40] = units[40].replace("e40", "&e40;")
    for size in (1, 7, 64):
        monkeypatch.setattr(xml_reader, "_BLOCK", size)
        found = units_of(tmp_path, BODY % "\n".join(units))
        assert found[39] == ("e39", "d39")
        assert isinstance(found[40], BadUnit)
        assert found[40].line == 44
        assert len(found) == 50
    monkeypatch.setattr(xml_reader, "MAX_LINE_BYTES", 1000)
    with pytest.raises(UserError, match=r"line 54: a unit is longer than 0 MB"):
        units_of(tmp_path, BODY % "\n".join([*units, unit(("en", "x" * 2000), DE)]))


BOMB = '<!ENTITY a0 "aaaaaaaaaa">' + "".join(
    f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            BODY % unit(("en", "a"), ("fr", "b")),
            r"has text in en and de; the languages of the file are en \(1",
        ),
        (BODY % "", "no translation unit has text in en and de; is it the right file"),
        ("no XML", "no translation unit has text"),
        ("", "no translation unit has text"),
        (
            f"<!DOCTYPE tmx [{BOMB}]>" + BODY % unit(("en", "&a9;"), DE),
            "no translation unit has text in en and de; line 4: an unknown entity",
        ),
        (
            '<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
            + BODY % unit(("en", "&x;"), DE),
            "line 4: an unknown entity",
        ),
        ('<?xml version="1.0" encoding="klingon"?>' + BODY, "has the unknown encoding klingon"),
    ],
)
def test_a_file_that_is_no_translation_memory(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        units_of(tmp_path, text)


XLIFF_1 = """<xliff version="1.2"><file source-language="en-US" target-language="de-DE"><body>
<trans-unit id="1"><source>One<x id="1"/>line</source><target>Eine<x id="1"/>Zeile</target>
<alt-trans><source>old</source><target>alt</target></alt-trans></trans-unit>
<trans-unit id="2"><source>not yet</source></trans-unit>
<trans-unit id="3"><source>bad & ugly</source><target>b</target></trans-unit>
</body></file><file source-language="de" target-language="en"><body>
<trans-unit id="1"><source>zwei <g id="1">Wörter</g></source><target>two words</target></trans-unit>
</body></file></xliff>"""

XLIFF_2 = """<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="1">
<segment><source>One <pc id="1">word</pc></source><target>Ein <ph id="2"/>Wort</target></segment>
<ignorable><source> </source></ignorable>
<segment state="initial"><source>Two</source><target>Zwei</target></segment>
</unit></file></xliff>"""


def test_xliff_is_read_in_the_direction_of_the_corpus(tmp_path: Path) -> None:
    pairs = [("One line", "Eine Zeile"), ("not yet", ""), ("two words", "zwei Wörter")]
    found = units_of(tmp_path, XLIFF_1, name="a.xlf")
    assert [one for one in found if not isinstance(one, BadUnit)] == pairs
    assert [one.line for one in found if isinstance(one, BadUnit)] == [5]
    back = units_of(tmp_path, XLIFF_1, ("de", "en"), name="a.xlf")
    assert [one for one in back if not isinstance(one, BadUnit)] == [(b, a) for a, b in pairs]
    assert units_of(tmp_path, XLIFF_2, name="a.xlf") == [("One word", "Ein Wort"), ("Two", "Zwei")]
    with pytest.raises(UserError, match=r"languages of the file are en-US \(2\), de-DE"):
        units_of(tmp_path, XLIFF_1, ("en", "fr"), name="a.xlf")


def test_a_compressed_memory_is_prepared(toy: Toy, tmp_path: Path, opened) -> None:
    pairs = opened(toy.config).pairs("train")
    text = BODY % "\n".join(unit(("en", source), ("de", target)) for source, target in pairs)
    path = tmp_path / "Memory.TMX.gz"
    path.write_bytes(gzip.compress(text.encode()))
    config = replace(toy.config, path=str(path))
    folder = prepare(config, toy.tokenizer, tmp_path / "out", Reporter(quiet=True))
    corpus = PreparedCorpus(folder)
    assert corpus.test_splits == ["test"]
    assert 0 < len(corpus.train()) <= 200
