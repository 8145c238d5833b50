"""Text in XML: paragraphs to units and back."""

import copy
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lxml import etree

from nmt.documents.pieces import Piece, Styles, Unit, common, to_unit, without_repeated

Element = Any  # of lxml, which has no types

XML_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


def parse_xml(data: bytes) -> Element:
    """Parse XML without entities, files or addresses that it names."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
    return etree.fromstring(data, parser).getroottree()


def to_xml(tree: Element) -> bytes:
    """Write XML in UTF-8, with the declaration that it had."""
    # lxml gives False for a declaration without `standalone`, which is the same as `no`.
    is_alone = tree.docinfo.standalone or None
    data: bytes = etree.tostring(tree, encoding="UTF-8", xml_declaration=True, standalone=is_alone)
    return data


# Elements at the beginning and at the end of something between them, and what tells which.
_PAIRS = {
    **{"bpt": "ept", "bx": "ex", "sc": "ec", "sm": "em"},
    **{"commentRangeStart": "commentRangeEnd", "bookmarkStart": "bookmarkEnd"},
    **{"bookmark-start": "bookmark-end", "annotation": "annotation-end"},
    "reference-mark-start": "reference-mark-end",
}
_BEGIN_OF = {end: begin for begin, end in _PAIRS.items()}
_KEYS = ("rid", "startRef", "id", "name")


@dataclass(frozen=True)
class XmlFormat:
    """How a kind of XML writes text; names are tags without their namespace.

    Attributes:
        inline: elements within a sentence that contain text; everything else is an object.
        leaf: the element that contains all text; empty if text stands between inline elements.
        run: the inline element that leaves are in; it contains no other.
        properties: elements at the start or the end of another that describe its format.
        blanks: objects that are white space, and which.
        dropped: elements without meaning for the text.
        is_unique: whether an inline element cannot occur twice.
    """

    inline: frozenset[str]
    leaf: str = ""
    run: str = "r"
    properties: frozenset[str] = frozenset()
    blanks: dict[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    is_unique: bool = False

    def read(self, paragraph: Element) -> Unit:
        """Return the text of a paragraph with its formats and objects."""
        return to_unit(self._pieces(paragraph, ()))

    def _pieces(self, parent: Element, styles: Styles) -> Iterator[Piece]:
        if parent.text and not self.leaf:
            yield Piece(parent.text, styles)
        for elements, pair in _groups(parent):
            child, name = elements[-1], _name(elements[-1])
            if pair is not None:
                styles = styles[:-1] if pair in styles else (*styles, pair)
            elif name == self.leaf:
                yield Piece(child.text or "", styles)
                for inner in child:  # such as instructions that are characters in InDesign
                    alone = etree.Element(child.tag)
                    alone.append(copy.copy(inner))
                    alone[0].tail = None
                    yield from (Piece("", styles, [alone]), Piece(inner.tail or "", styles))
            elif name in self.inline and child.get("translate") != "no" and len(elements) == 1:
                yield from self._pieces(child, (*styles, Style.of(child, self)))
            elif name not in self.properties and name not in self.dropped:
                yield Piece(self.blanks.get(name, ""), styles, elements)
            if child.tail and not self.leaf:
                yield Piece(child.tail, styles)

    def write(self, paragraph: Element, unit: Sequence[Piece]) -> None:
        """Replace the contents of a paragraph, except for its properties."""
        properties = self.properties_of(paragraph)
        last = [child for child in properties if _name(child).startswith("end")]
        del paragraph[:]
        paragraph.text = None
        paragraph.extend([child for child in properties if child not in last])
        opened: list[tuple[Style | _Pair, Element]] = []
        unit = without_repeated(unit, lambda one: self.is_unique or isinstance(one, _Pair))
        for piece in [*self._with_runs(unit), Piece("", (), [])]:
            styles: tuple[Style | _Pair, ...] = piece.styles  # type: ignore[assignment]
            shared = len(common(tuple(style for style, _ in opened), styles))
            while len(opened) > shared:
                style, parent = opened.pop()
                _extend(parent, style.end if isinstance(style, _Pair) else [])
            parent = opened[-1][1] if opened else paragraph
            for style in styles[shared:]:
                _extend(parent, style.begin if isinstance(style, _Pair) else [style.empty(self)])
                parent = parent if isinstance(style, _Pair) else parent[-1]
                opened.append((style, parent))
            self._append(parent, piece)
        paragraph.extend(last)

    def _with_runs(self, unit: Sequence[Piece]) -> Iterator[Piece]:
        """Yield pieces that are in at most one run; texts are in one, if any of them is."""
        lengths: Counter[Hashable] = Counter()
        for piece in unit:
            lengths.update(dict.fromkeys(filter(self._is_run, piece.styles), len(piece.text)))
        usual = tuple(one for one, _ in lengths.most_common(1))
        for piece in unit:
            own = tuple(filter(self._is_run, piece.styles))[-1:]
            others = tuple(one for one in piece.styles if not self._is_run(one))
            is_text = piece.item is None or isinstance(piece.item, str)
            yield replace(piece, styles=(*others, *(own or usual if is_text else own)))

    def _is_run(self, style: Hashable) -> bool:
        return isinstance(style, Style) and _name(style.element) == self.run

    def properties_of(self, element: Element) -> list[Element]:
        """Return the elements that describe the format of an element."""
        return [child for child in element if _name(child) in self.properties]

    def _append(self, parent: Element, piece: Piece) -> None:
        text = piece.text if piece.item is None else piece.item
        if not isinstance(text, str):
            _extend(parent, text)
        elif self.leaf:
            leaf = etree.SubElement(parent, etree.QName(etree.QName(parent).namespace, self.leaf))
            leaf.text = text
            if text != text.strip():
                leaf.set(XML_SPACE, "preserve")
        elif len(parent):
            parent[-1].tail = (parent[-1].tail or "") + text
        else:
            parent.text = (parent.text or "") + text


def _extend(parent: Element, elements: Sequence[Element]) -> None:
    for element in elements:
        element.tail = None
        parent.append(element)


@dataclass(frozen=True, eq=False)
class _Pair:
    """Elements that begin something, and those that end it."""

    begin: list[Element]
    end: list[Element]


def _groups(parent: Element) -> list[tuple[list[Element], _Pair | None]]:
    """Return the children of an element; those of a field are one group, or a pair of groups.

    A pair is given twice, for its begin and its end. It encloses text, and crosses no other.
    """
    groups = _with_fields(parent)
    pairs: dict[int, _Pair] = {}
    opened: dict[Hashable, int] = {}  # index of the begin by its key
    for index, (elements, kind, key) in enumerate(groups):
        begin = opened.pop(key, None) if kind == "end" else None
        if kind == "begin":
            opened[key] = index
        elif begin is not None:
            opened = {one: i for one, i in opened.items() if i < begin}
            inner = [one for some, *_ in groups[begin + 1 : index] for one in some]
            texts = [groups[begin][0][-1].tail, *("".join(one.itertext()) for one in inner)]
            if any(map(str.isalnum, "".join(text or "" for text in texts))):
                pairs[begin] = pairs[index] = _Pair(groups[begin][0], elements)
    return [(elements, pairs.get(index)) for index, (elements, *_) in enumerate(groups)]


def _with_fields(parent: Element) -> list[tuple[list[Element], str, Hashable]]:
    """Return groups of children, whether they begin or end something, and what.

    A field of Word is one group, unless it is a link, whose text is to be translated.
    """
    groups: list[tuple[list[Element], str, Hashable]] = []
    fields: list[tuple[int, int]] = []  # first group of an open field, and that after its code
    for child in parent:
        name = _name(child)
        kind = "begin" if name in _PAIRS else "end" if name in _BEGIN_OF else ""
        values = {etree.QName(one).localname: value for one, value in child.attrib.items()}
        key = next((values[one] for one in _KEYS if one in values), "")
        groups.append(([child], kind, (_BEGIN_OF.get(name, name), key)))
        mark = child.find("{*}fldChar") if name == "r" else None
        kind = "" if mark is None else mark.get(mark.tag.replace("}fldChar", "}fldCharType"))
        if kind == "begin":
            fields.append((len(groups) - 1, 0))
        elif kind == "separate" and fields:
            fields[-1] = (fields[-1][0], len(groups))
        elif kind == "end" and fields:
            first, middle = fields.pop()
            code, result = groups[first:middle], groups[middle:-1]
            elements = [one for some, *_ in code for one in some]
            if middle and "HYPERLINK" in "".join("".join(one.itertext()) for one in elements):
                groups[first:] = [(elements, "begin", first), *result, ([child], "end", first)]
            else:
                groups[first:] = [([one for some, *_ in groups[first:] for one in some], "", "")]
    return groups


@dataclass(frozen=True)
class Style:
    """An inline element; two are equal if their properties are.

    Attributes:
        element: the element.
        key: what its text looks like: its properties, or the element itself if it has none.
    """

    element: Element = field(compare=False)
    key: Any

    @classmethod
    def of(cls, element: Element, form: XmlFormat) -> "Style":
        """Return the style of an element of a document."""
        properties = form.properties_of(element) if _name(element) == form.run else []
        key = b"".join(etree.tostring(child, with_tail=False) for child in properties)
        return cls(element, key or id(element))

    def empty(self, form: XmlFormat) -> Element:
        """Return a copy of the element that has only its properties."""
        one = etree.Element(self.element.tag, self.element.attrib, self.element.nsmap)
        one.extend([copy.deepcopy(child) for child in form.properties_of(self.element)])
        return one


def _name(element: Element) -> str:
    """Return the tag without its namespace; empty for comments and instructions."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""
