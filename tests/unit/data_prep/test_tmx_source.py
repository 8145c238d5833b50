import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from data_prep.manifest import FactsCache
from data_prep.prepare import prepare
from data_prep.progress import Reporter
from data_prep.tmx_source import TmxSource
from nmt.base.errors import UserError
from nmt.data.corpus import PreparedCorpus
from tests.unit.data_prep.conftest import Toy

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
BODY = '<tmx version="1.4">\n<header srclang="en"/>\n<body>\n%s\n</body></tmx>'


def unit(*variants: tuple[str, str]) -> str:
    parts = [f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in variants]
    return f"<tu>{''.join(parts)}</tu>"


def pairs_of(tmp_path: Path, text: str | bytes, languages: Sequence[str] = ("en", "de")):
    path = tmp_path / "memory.tmx"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    source = TmxSource(path, (languages[0], languages[1]), FactsCache(tmp_path / "facts"))
    return list(source.pairs("train"))


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
    ("January", "Januar"),
    ("old", "alt"),
]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_the_variants_of_each_unit_are_a_pair(tmp_path: Path, encoding: str) -> None:
    units = [one for one in UNITS if encoding != "iso-8859-1" or "🎉" not in one]
    text = (HEAD.replace("UTF-8", encoding) + BODY % "\n".join(units)).encode(encoding)
    assert pairs_of(tmp_path, text) == PAIRS[len(PAIRS) - len(units) :]


def test_a_language_with_a_region_is_not_confused_with_another(tmp_path: Path) -> None:
    text = BODY % unit(("pt-BR", "ônibus"), ("pt-PT", "autocarro"), ("zh-Hans", "公"), ("en", "b"))
    assert pairs_of(tmp_path, text, ("pt_PT", "zh_Hans")) == [("autocarro", "公")]
    assert pairs_of(tmp_path, text, ("pt", "en")) == [("ônibus", "b")]


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
        (BODY % "", "no translation unit has text with a language code"),
        (HEAD + (BODY % UNITS[0])[:-30], "is not valid XML: .*line"),
        ("no XML", "is not valid XML: .*line 1"),
        ("", "is not valid XML"),
        (BODY % "<tu><tuv><seg>a</seg></tuv></tu>", "line 4: a tuv has no xml:lang"),
        (BODY % '<tu><tuv xml:lang="en"/></tu>', "line 4: a tuv has no seg"),
        (BODY % unit(("en", "<x:b>a</x:b>"), ("de", "b")), "prefix x on b is not defined"),
        (
            f"<!DOCTYPE tmx [{BOMB}]>" + BODY % unit(("en", "&a1;")),
            "line 4: the entity &a1; is not",
        ),
        (
            f"<!DOCTYPE tmx [{BOMB}]>" + BODY % unit(("&a9;", "a")),
            "is not valid XML: Maximum entity amplification",
        ),
        (
            '<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + BODY % unit(("en", "&x;")),
            "line 4: the entity &x; is not supported",
        ),
    ],
)
def test_a_file_that_is_no_translation_memory(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        pairs_of(tmp_path, text)


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
