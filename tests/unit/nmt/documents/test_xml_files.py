"""Office files and XLIFF as people have them: what is translated, and what stays."""

import copy
import io
import zipfile
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from nmt.documents import open_document
from nmt.documents.pieces import placed, text_of
from tests.documents import translated


def field(code: str, result: str) -> str:
    mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'.format
    code = f"<w:r><w:instrText>{code}</w:instrText></w:r>"
    return mark("begin") + code + mark("separate") + result + mark("end")


def run(text: str, format: str = "") -> str:
    return f'<w:r><w:rPr>{format}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


DOCX = (
    '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:p><w:pPr/>'
    + run("See ")
    + field('HYPERLINK "kept"', run("the web ", "<w:u/>") + field("PAGEREF", run("kept")))
    + run(" on page ", "<w:b/>")
    + field("PAGE", run("kept"))
    + run(" of ")
    + '<w:bookmarkStart w:id="0" w:name="kept"/><w:commentRangeStart w:id="7"/>'
    + run("long text")
    + '<w:commentRangeEnd w:id="7"/><w:r><w:commentReference w:id="7"/></w:r>'
    + '<w:bookmarkEnd w:id="0"/><w:bookmarkStart w:id="1"/><w:bookmarkEnd w:id="1"/>'
    + f'<w:ins w:id="9">{run(" new words")}</w:ins>'
    + '<w:del w:id="10"><w:r><w:delText>kept</w:delText></w:r></w:del>'
    + f'<w:moveTo w:id="11">{run(" moved 😀 → here")}</w:moveTo>'
    + run(".")
    + "</w:p><w:tbl><w:tc><w:p><w:r><w:pict><w:txbxContent><w:p>"
    + run("Inner box")
    + "</w:p></w:txbxContent></w:pict></w:r>"
    + run("Outer")
    + "</w:p></w:tc></w:tbl></w:document>"
)
ODS = """<o xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"><t:tracked-changes><t:p>kept</t:p>
</t:tracked-changes><table:table-cell office:value-type="string"><t:p>One <t:bookmark-start
 t:name="kept"/>dog<t:bookmark-end t:name="kept"/></t:p></table:table-cell><table:table-cell
 table:formula="kept" office:value-type="string"><t:p>kept</t:p></table:table-cell>
<table:table-cell office:value-type="date"><t:p>kept</t:p></table:table-cell></o>"""
IDML = """<s><ParagraphStyleRange><CharacterStyleRange a="1"><Content><?ACE 7?>One dog<?ACE 8?> and
</Content><Br/></CharacterStyleRange><CharacterStyleRange a="2"><Content>Two</Content>
</CharacterStyleRange></ParagraphStyleRange></s>"""
XLSX = """<comments xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><authors><author>
kept</author></authors><comment><text><r><rPr><b/></rPr><t>One dog</t></r></text></comment>
</comments>"""
XLIFF = """<xliff version="1.2"><file><body><trans-unit id="1"><source>Click <bpt id="1">kept</bpt>
here now<ept id="1">kept</ept> or <bx id="2" rid="5"/>there<ex id="3" rid="5"/>, <x id="9"/>dogs.
</source></trans-unit><trans-unit id="2"><source>kept</source><seg-source><mrk mtype="seg" mid="1">
One
<g id="1">dog</g>.</mrk> <mrk mtype="seg" mid="2">Two.</mrk></seg-source></trans-unit>
<trans-unit id="3"><source>Use <mrk mtype="protected" translate="no">kept</mrk> now</source>
<target state="new">old</target></trans-unit></body></file></xliff>"""
XLIFF_2 = """<xliff version="2.0" srcLang="en"><file><unit><segment><source>One <sc id="1"/>bold
dog<ec startRef="1"/>, <sm id="2"/>text here<em startRef="2"/> <ph id="3"/> end.</source></segment>
<ignorable><source>kept</source></ignorable></unit></file></xliff>"""

# Kind, file in the archive, contents, and elements around text, which may be divided or joined.
FILES = {
    "docx": ("word/document.xml", DOCX, "r rPr t u b ins moveTo"),
    "ods": ("content.xml", ODS, ""),
    "idml": ("Stories/Story_1.xml", IDML, "CharacterStyleRange Content"),
    "xlsx": ("xl/comments/comment1.xml", XLSX, ""),
    "xlf": ("", XLIFF, ""),
    "xliff": ("", XLIFF_2, ""),
}


def written(folder: Path, kind: str) -> Path:
    path = folder / f"a.{kind}"
    name, content, _ = FILES[kind]
    if name:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, content)
    else:
        path.write_text(content)
    return path


def parsed(kind: str, data: bytes) -> Any:
    if name := FILES[kind][0]:
        data = zipfile.ZipFile(io.BytesIO(data)).read(name)
    return etree.fromstring(data)


def tags(tree: Any, kind: str) -> list[str]:
    """Return the elements that stay, with instructions."""
    names = (
        etree.QName(one).localname if isinstance(one.tag, str) else str(one) for one in tree.iter()
    )
    return [name for name in names if name not in FILES[kind][2].split()]


@pytest.mark.parametrize("kind", FILES)
def test_elements_and_text_keep_their_places(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, kind)
    before = parsed(kind, path.read_bytes())
    after = parsed(kind, translated(path, str.upper))
    for unit in before.iter("trans-unit", "segment"):
        source, *others = (unit.find(name) for name in ("source", "seg-source", "target"))
        source = others[0] if others[0] is not None else source
        if others[1] is None:
            etree.SubElement(unit, "target")
        unit.find("target")[:] = list(copy.deepcopy(source))
        unit.find("target").text = source.text
    assert tags(after, kind) == tags(before, kind)
    text, expected = ("".join("".join(one.itertext()).split()) for one in (after, before))
    assert text.lower() == expected.lower()
    assert text.count("kept") == expected.count("kept")


@pytest.mark.parametrize("kind", FILES)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))), st.integers(1, 10))
def test_no_alignment_loses_or_doubles_an_element(
    kind: str, links: list[tuple[int, int]], num_words: int
) -> None:
    with TemporaryDirectory() as folder:
        path = written(Path(folder), kind)
        document = open_document(path, "en", "de")
        translations = []
        for unit in document.units:
            length = len(text_of(unit).split())
            some = [(i, j) for i, j in links if i < length and j < num_words]
            translations.append(placed(unit, " ".join(["Wort."] * num_words), some))
        result = parsed(kind, document.translated(translations))
    texts = result.iter("{*}t", "Content")
    assert all(one.tag.endswith("Content") or one.getparent().tag.endswith("}r") for one in texts)
    before = parsed(kind, translated_identically(kind))
    assert Counter(tags(result, kind)) == Counter(tags(before, kind))


def translated_identically(kind: str) -> bytes:
    with TemporaryDirectory() as folder:
        return translated(written(Path(folder), kind), str, is_rewritten=False)
