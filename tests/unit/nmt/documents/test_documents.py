import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from nmt.base.errors import UserError
from nmt.documents import is_document, open_document
from nmt.documents.pieces import Piece, placed, text_of
from tests.documents import translated

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
T = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"

MARKDOWN = """---
title: Kept
---
# The *red* house

A dog sees **two cats**. It
reads a [book](https://example.org/a "t"), `code x` and ![picture](p.png).

> One man
> sleeps.

| Dog | 3 |
|---|---|
| a `x\\|y` b | c |

```
kept
```
- [ ] The man sleeps\\*.
"""

HTML = """<!DOCTYPE html>
<html><head><title>Red &amp; house</title><style>p {color: red}</style></head>
<body><p class="x">A dog sees <b>two
  cats</b>.<br/>One <code>kept</code> word&nbsp;more<!-- kept --></p>
<p translate="no">Kept <i>this</i></p><ul><li>One<li>Two <img src="a.png"></ul>
<script>var kept = "<p>text</p>";</script></body></html>
"""

SRT = """1\r
00:00:01,000 --> 00:00:03,000\r
A dog sees the red\r
house and a man\r
\r
2\r
00:00:03,500 --> 00:00:05,000\r
<i>reads a book.</i>\r
\r
3\r
00:00:06,000 --> 00:00:07,000\r
- The man sleeps.\r
- The dog sleeps.\r
"""

VTT = """WEBVTT

NOTE kept

intro
00:01.000 --> 00:03.000 align:start
<v Anna>Two cats sleep.
"""

JSON = (
    '{"key": "A dog \\"sees\\" it.", "n": [3, "Zwei", null, true],\n "dict": {"a": "caf\\u00e9"}}\n'
)

PO = """# Comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#: a.c:1
#, c-format
msgid "A dog sees %d cats."
msgstr ""

msgid "done"
msgstr "kept"

msgid "%d man"
msgid_plural "%d men"
msgstr[0] ""
msgstr[1] ""
"""

XLIFF = """<?xml version='1.0' encoding='UTF-8'?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2"><file original="x"><body>
<trans-unit id="1"><source>A <g id="1">dog</g> sees<x id="2"/> cats.</source></trans-unit>
<trans-unit id="2"><source>Done</source><target state="final">kept</target></trans-unit>
<trans-unit id="3" translate="no"><source>Kept</source></trans-unit>
</body></file></xliff>
"""

XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<file id="f">
<unit id="1"><segment><source>A <pc id="1">dog</pc> sees <ph id="2"/>.</source></segment>
<segment state="final"><source>Done</source><target>kept</target></segment></unit></file></xliff>
"""


def archive(**files: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("mimetype", "kept", zipfile.ZIP_STORED)
        for name, text in files.items():
            written.writestr(name.replace("__", "/") + ".xml", text)
    return data.getvalue()


DOCX = archive(
    word__document=f'<w:document xmlns:w="{W}"><w:p><w:pPr/><w:r><w:t xml:space="preserve">A dog '
    '</w:t></w:r><w:proofErr/><w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">sees two</w:t>'
    '</w:r><w:hyperlink r="1"><w:r><w:t xml:space="preserve"> cats</w:t></w:r></w:hyperlink>'
    "<w:r><w:t>.</w:t><w:footnoteReference/></w:r></w:p><w:p><w:r><w:t>One</w:t><w:br/><w:t>Two"
    "</w:t></w:r></w:p></w:document>",
    word__styles="<kept>Styles</kept>",
)
XLSX = archive(
    xl__sharedStrings=f'<sst xmlns="{S}"><si><t>A dog</t></si><si><r><t>Two </t></r><r><rPr><b/>'
    "</rPr><t>cats</t></r></si><si><t>Name</t></si><si><t>3</t></si></sst>",
    xl__tables__table1=f'<table xmlns="{S}"><tableColumn name="Name"/></table>',
)
PPTX = archive(
    ppt__slides__slide1=f'<s xmlns:a="{A}"><a:p><a:r><a:rPr/><a:t>A dog</a:t></a:r><a:fld><a:t>3'
    "</a:t></a:fld><a:endParaRPr/></a:p></s>"
)
ODT = archive(
    content=f'<o xmlns:text="{T}"><text:h>Title</text:h><text:p>A <text:span>dog</text:span> sees'
    "<text:note><text:p>A note</text:p></text:note> two<text:s/>cats.</text:p></o>"
)
IDML = archive(
    Stories__Story_1="<i:Story xmlns:i='urn:x'><ParagraphStyleRange><CharacterStyleRange a='1'>"
    "<Content>A dog</Content><Br/><Content>Two </Content></CharacterStyleRange>"
    "<CharacterStyleRange a='2'><Content>cats</Content></CharacterStyleRange>"
    "</ParagraphStyleRange></i:Story>"
)

FILES: dict[str, str | bytes] = {
    "md": MARKDOWN,
    "html": HTML,
    "srt": SRT,
    "vtt": VTT,
    "json": JSON,
    "po": PO,
    "xlf": XLIFF,
    "xliff": XLIFF_2,
    "docx": DOCX,
    "xlsx": XLSX,
    "pptx": PPTX,
    "odt": ODT,
    "idml": IDML,
}


@pytest.fixture
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    content = FILES[request.param]
    file = tmp_path / f"a.{request.param}"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def parts(data: bytes) -> dict[str, bytes]:
    """Return the files of an archive, XML in its canonical form."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        contents = {name: file.read(name) for name in file.namelist()}
    return {
        name: etree.tostring(etree.fromstring(content), method="c14n")
        if name.endswith(".xml")
        else content
        for name, content in contents.items()
    }


@pytest.mark.parametrize("path", ["md", "html", "srt", "vtt", "json"], indirect=True)
def test_unchanged_text_keeps_every_byte(path: Path) -> None:
    assert translated(path, str, is_rewritten=False) == path.read_bytes()


@pytest.mark.parametrize("path", ["docx", "xlsx", "pptx", "odt", "idml"], indirect=True)
def test_unchanged_archives_have_the_same_contents(path: Path) -> None:
    assert parts(translated(path, str, is_rewritten=False)) == parts(path.read_bytes())


@pytest.mark.parametrize("path", FILES, indirect=True)
def test_rewritten_documents_have_the_same_units(path: Path) -> None:
    before = [text_of(unit) for unit in open_document(path, "en", "de").units]
    assert before
    path.write_bytes(translated(path, str))
    kind = path.suffix
    if kind in (".po", ".xlf", ".xliff"):  # all targets are filled in
        assert open_document(path, "en", "de").units == []
    else:
        again = [text_of(unit) for unit in open_document(path, "en", "de").units]
        assert [" ".join(text.split()) for text in again] == [" ".join(t.split()) for t in before]


def test_units_have_the_order_of_the_document(tmp_path: Path) -> None:
    slide = (
        '<s xmlns:a="{}"><a:p><a:r><a:t>one {}</a:t></a:r></a:p><a:p><a:r><a:t>two {}</a:t></a:r>'
    )
    slides = {f"ppt__slides__slide{n}": slide.format(A, n, n) + "</a:p></s>" for n in range(3)}
    path = tmp_path / "a.pptx"
    path.write_bytes(archive(**slides))
    found = [text_of(unit) for unit in open_document(path, "en", "de").units]
    assert found == [f"{word} {n}" for n in range(3) for word in ("one", "two")]


@pytest.mark.parametrize("path", ["md"], indirect=True)
def test_markdown(path: Path) -> None:
    text = translated(path, str.upper).decode()
    assert "# THE *RED* HOUSE\n\nA DOG SEES **TWO CATS**. IT READS A [BOOK](https" in text
    assert '/a "t"), `code x` AND ![PICTURE](p.png).\n\n> ONE MAN SLEEPS.\n' in text
    assert "\n| A `x\\|y` B | C |\n" in text
    assert "title: Kept" in text
    assert "```\nkept\n```\n- [ ] THE MAN SLEEPS\\*." in text


@pytest.mark.parametrize("path", ["html"], indirect=True)
def test_html(path: Path) -> None:
    text = translated(path, str.upper).decode()
    assert "<title>RED &amp; HOUSE</title>" in text
    assert (
        '<p class="x">A DOG SEES <b>TWO CATS</b>.<br/>ONE <code>kept</code> WORD&nbsp;MORE' in text
    )
    assert "<!-- kept --></p>" in text
    assert "<li>ONE<li>TWO <img" in text
    assert '<p translate="no">Kept <i>this</i></p>' in text
    assert '"<p>text</p>"' in text


@pytest.mark.parametrize("path", ["srt"], indirect=True)
def test_subtitles(path: Path) -> None:
    units = [text_of(unit) for unit in open_document(path, "en", "de").units]
    assert units == [
        "A dog sees the red house and a man reads a book.",
        "- The man sleeps.",
        "- The dog sleeps.",
    ]
    text = translated(path, lambda text: text.upper() + " WITH MANY MORE WORDS THAN BEFORE")
    cues = text.decode().split("\r\n\r\n")
    assert [cue.split("\r\n")[:2] for cue in cues] == [
        cue.split("\r\n")[:2] for cue in SRT.split("\r\n\r\n")
    ]
    assert all(len(cue.rstrip().split("\r\n")) <= 4 for cue in cues)
    assert "<i>READS A BOOK.</i>" in text.decode()


@pytest.mark.parametrize("path", ["srt"], indirect=True)
def test_a_cue_that_got_no_word_takes_a_share(path: Path) -> None:
    document = open_document(path, "en", "zh")
    first, *others = document.units
    data = document.translated([placed(first, "一只狗看见房子", [(9, 0)]), *others]).decode()
    assert all(cue.split("\r\n")[2] for cue in data.split("\r\n\r\n"))


@pytest.mark.parametrize("path", ["docx"], indirect=True)
def test_docx(path: Path) -> None:
    files = parts(translated(path, str.upper))
    assert files["word/styles.xml"] == b"<kept>Styles</kept>"
    assert files["mimetype"] == b"kept"
    root = etree.fromstring(files["word/document.xml"])
    first, second = root.iter(f"{{{W}}}p")
    runs = {
        "".join(run.itertext()): run.find(f"{{{W}}}rPr") is not None
        for run in first.iter(f"{{{W}}}r")
    }
    assert runs == {"A DOG": False, " SEES TWO ": True, "CATS": False, ".": False}
    assert [one.tag for one in first.iter(f"{{{W}}}footnoteReference")] != []
    assert "".join(first.find(f"{{{W}}}hyperlink").itertext()) == "CATS"
    assert [etree.QName(one).localname for one in second.find(f"{{{W}}}r")] == ["t", "br", "t"]


@pytest.mark.parametrize("path", ["xlsx"], indirect=True)
def test_headers_of_tables_in_workbooks_stay(path: Path) -> None:
    text = parts(translated(path, str.upper))["xl/sharedStrings.xml"].decode()
    assert "<t>A DOG</t>" in text
    assert "<t>Name</t>" in text
    assert "<t>TWO</t>" in text


@pytest.mark.parametrize("path", ["po"], indirect=True)
def test_po_fills_what_is_missing(path: Path) -> None:
    text = translated(path, str.upper).decode()
    assert 'msgstr "A DOG SEES %D CATS."' in text
    assert 'msgstr "kept"' in text
    assert 'msgstr[0] "%D MAN"' in text
    assert 'msgstr[1] "%D MEN"' in text


@pytest.mark.parametrize("path", ["xlf", "xliff"], indirect=True)
def test_xliff_fills_what_is_missing(path: Path) -> None:
    text = translated(path, str.upper).decode()
    assert text.count("kept</target>") == 1
    assert text.count("<target") == 2
    tag, state = (
        ("g", "needs-review-translation") if path.suffix == ".xlf" else ("pc", "translated")
    )
    assert f'A <{tag} id="1">DOG</{tag}> SEES' in text
    assert f'state="{state}"' in text
    assert "dog" in text  # the source


def test_an_inline_element_of_xliff_occurs_once(tmp_path: Path) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(XLIFF.replace('<g id="1">dog</g> sees', '<g id="1">big dog</g> sees'))
    document = open_document(path, "en", "de")
    unit = document.units[0]
    words = [(0, 0), (1, 1), (3, 2), (2, 3), (4, 4)]  # "sees" stands between "big" and "dog"
    text = document.translated([placed(unit, "E g sieht Hund K.", words)]).decode()
    target = text.partition("<target")[2].partition("</target>")[0]
    assert target.count("<g ") == 1
    assert '<g id="1">Hund</g>' in target


def test_entries_of_po_that_have_a_translation_stay_as_they_are_wrapped(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    kept = 'msgid ""\n"one "\n"two"\nmsgstr "' + "long " * 40 + '"\n'
    path.write_text(
        PO + "\n" + kept + '\nmsgid "A cat."\nmsgstr ""\n\n#~ msgid "old"\n#~ msgstr "alt"'
    )
    text = translated(path, str.upper).decode()
    assert kept in text
    assert text.endswith('msgstr "A CAT."\n\n#~ msgid "old"\n#~ msgstr "alt"')
    assert text.startswith(PO.partition("#: a.c")[0])
    assert '\n#: a.c:1\n#, c-format\nmsgid "A dog sees %d cats."\nmsgstr "A DOG SEES' in text


@pytest.mark.parametrize("before", ["", "# Of the file.\n", "# One.\n#\n\n#: a.c:1\n"])
def test_po_needs_no_header(tmp_path: Path, before: str) -> None:
    path = tmp_path / "a.po"
    entries = 'msgctxt "one"\nmsgid "A dog."\nmsgstr ""\n\n\nmsgid "kept"\nmsgstr "bleibt"\n'
    path.write_text(before + entries)
    expected = entries.replace('msgstr ""', 'msgstr "A DOG."')
    assert translated(path, str.upper).decode() == before + expected


def test_an_open_comment_of_html_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<p>A <b>dog</b> <!-- kept </p>")
    assert translated(path, str.upper).endswith(b"<!-- kept </p>")


@pytest.mark.parametrize("path", ["xlsx"], indirect=True)
def test_a_translation_that_is_too_long_for_a_cell_is_left_out(path: Path) -> None:
    text = translated(path, lambda text: f"{text.upper()} " * (20_000 if "cats" in text else 1))
    shared = parts(text)["xl/sharedStrings.xml"].decode()
    assert "A DOG" in shared
    assert "CATS" not in shared


@pytest.mark.parametrize("path", ["json"], indirect=True)
def test_json_keeps_keys_and_layout(path: Path) -> None:
    text = translated(path, str.upper).decode()
    assert json.loads(text)["key"] == 'A DOG "SEES" IT.'
    assert text == JSON.replace('A dog \\"sees\\" it.', 'A DOG \\"SEES\\" IT.').replace(
        "Zwei", "ZWEI"
    ).replace("caf\\u00e9", "CAF\\u00c9")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", b"no archive"),
        ("a.odt", archive(content="<open>")),
        ("a.xlf", b"<xliff"),
        ("b.xlf", b"<other/>"),
        ("a.json", b'{"a": '),
        ("a.po", b"hello"),
    ],
)
def test_invalid_documents(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{name}: is no valid {name[2:]} file"):
        open_document(tmp_path / name, "en", "de")


def test_kinds() -> None:
    assert is_document(Path("a.DOCX"))
    assert not is_document(Path("news.en"))
    for name, advice in (("a.pdf", "docx"), ("a.CSV", "tsv")):
        with pytest.raises(UserError, match=f"{name}: .* files cannot be translated: .*{advice}"):
            is_document(Path(name))


WORDS = st.text(st.sampled_from("ab. ,"), max_size=8)
PIECES = st.one_of(
    st.builds(Piece, WORDS, st.sampled_from([(), ("b",), ("b", "i"), ("u",)])),
    st.builds(Piece, st.sampled_from(["", "", " "]), st.just(()), st.integers(1, 99)),
)


@given(
    st.lists(PIECES, max_size=8),
    WORDS,
    st.none() | st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8))),
)
def test_placed_keeps_text_objects_and_formats(
    unit: list[Piece], translation: str, links: list[tuple[int, int]] | None
) -> None:
    source = text_of(unit)
    if links is not None:
        num_source, num_target = len(source.split()), len(translation.split())
        links = [(i, j) for i, j in links if i < num_source and j < num_target]
    result = placed(unit, translation, links)
    assert text_of(result).split() == translation.split() or any(one.item for one in result)
    assert "".join(text_of(result).split()) == "".join(translation.split())
    assert [one.item for one in result if one.item] == [one.item for one in unit if one.item]


def test_placed_follows_the_alignment() -> None:
    unit = [Piece("I have "), Piece("seen", ("b",)), Piece("", (), "note"), Piece(" him.")]
    result = placed(unit, "Ich habe ihn gesehen.", [(0, 0), (1, 1), (3, 2), (2, 3)])
    assert result == [
        Piece("Ich habe ihn "),
        Piece("gesehen", ("b",)),
        Piece("", (), "note"),
        Piece("."),
    ]


def test_elements_of_words_that_are_lost_take_other_words() -> None:
    unit = [Piece("See "), Piece("this", ("a",)), Piece(" and "), Piece("that", ("b",))]
    assert placed(unit, "Siehe dies", [(0, 0), (1, 1), (3, 1)]) == [
        Piece("Siehe", ("b",)),
        Piece(" "),
        Piece("dies", ("a",)),
    ]
    assert placed(unit, "Dies", [(1, 0), (3, 0)]) == [Piece("Dies", ("b", "a"))]


def test_objects_have_the_blanks_that_they_had() -> None:
    unit = [Piece("Press "), Piece("", (), "x"), Piece(", "), Piece("", (), "y"), Piece(" now.")]
    result = placed(unit, "Jetzt drücke ihn.", [(0, 1), (1, 2), (2, 0)])
    assert "".join(one.item or one.text for one in result) == "Jetzt drücke x y ihn."


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.docx", archive(word__styles="<kept/>"), "has no file with text"),
        ("a.srt", b"no times\n", "no line of times"),
        ("a.po", b'msgid "The cat\nmsgstr ""\n', "line 1: a quote is missing"),
        ("a.md", b"caf\xe9", "is not UTF-8"),
        (
            "a.xlf",
            XLIFF.replace("original", 'target-language="fr" original').encode(),
            "is fr, but",
        ),
    ],
)
def test_documents_that_would_be_damaged(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        open_document(tmp_path / name, "en", "de")


def test_markdown_of_other_systems(tmp_path: Path) -> None:
    text = (
        '\ufeff---\r\ntitle: kept\r\n---\r\n[^1]: A note.\n[ref]: http://x.y "kept"\n\n'
        "![](a.png) $x_1$ [^1] a word\n"
    )
    (tmp_path / "a.md").write_bytes(text.encode())
    assert translated(tmp_path / "a.md", str.upper).decode() == text.replace(
        "A note", "A NOTE"
    ).replace("a word", "A WORD")


def test_three_lines_of_two_speakers(tmp_path: Path) -> None:
    head = "1\n00:00:01,000 --> 00:00:03,000\n"
    (tmp_path / "a.srt").write_text(f"{head}- The dog.\n- The cat\nsleeps.\n")
    data = translated(tmp_path / "a.srt", str.upper).decode()
    assert data == f"{head}- THE DOG.\n- THE CAT SLEEPS.\n"
