"""Text in XML: paragraphs to units and back."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from nmt.documents.pieces import Piece, Unit, common, to_unit

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


@dataclass(frozen=True)
class XmlFormat:
    """How a kind of XML writes text; names are tags without their namespace.

    Attributes:
        leaf: the element that contains all text; empty if text stands between inline elements.
        inline: elements within a sentence that contain text; everything else is an object.
        properties: elements at the start or the end of another that describe its format.
        blanks: objects that are white space, and which.
        dropped: elements without meaning for the text.
    """

    inline: frozenset[str]
    leaf: str = ""
    properties: frozenset[str] = frozenset()
    blanks: dict[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()

    def read(self, paragraph: Element) -> Unit:
        """Return the text of a paragraph with its formats and objects."""
        return to_unit(self._pieces(paragraph, ()))

    def _pieces(self, parent: Element, styles: "tuple[Style, ...]") -> Iterator[Piece]:
        if parent.text and not self.leaf:
            yield Piece(parent.text, styles)
        for child in parent:
            name = _name(child)
            if name == self.leaf:
                yield Piece(child.text or "", styles)
            elif name in self.inline:
                yield from self._pieces(child, (*styles, Style.of(child, self)))
            elif name not in self.properties and name not in self.dropped:
                yield Piece(self.blanks.get(name, ""), styles, child)
            if child.tail and not self.leaf:
                yield Piece(child.tail, styles)

    def write(self, paragraph: Element, unit: Sequence[Piece]) -> None:
        """Replace the contents of a paragraph, except for its properties."""
        properties = self.properties_of(paragraph)
        last = [child for child in properties if _name(child).startswith("end")]
        for child in list(paragraph):
            paragraph.remove(child)
        paragraph.text = None
        paragraph.extend([child for child in properties if child not in last])
        opened: list[tuple[Style, Element]] = []
        for piece in unit:
            styles: tuple[Style, ...] = piece.styles  # type: ignore[assignment]
            del opened[len(common(tuple(style for style, _ in opened), styles)) :]
            for style in styles[len(opened) :]:
                element = style.empty(self)
                (opened[-1][1] if opened else paragraph).append(element)
                opened.append((style, element))
            self._append(opened[-1][1] if opened else paragraph, piece)
        paragraph.extend(last)

    def properties_of(self, element: Element) -> list[Element]:
        """Return the elements that describe the format of an element."""
        return [child for child in element if _name(child) in self.properties]

    def _append(self, parent: Element, piece: Piece) -> None:
        text = piece.text if piece.item is None else piece.item
        if not isinstance(text, str):
            text.tail = None
            parent.append(text)
        elif self.leaf:
            namespace = parent.tag.rpartition("}")[0]
            leaf = etree.SubElement(parent, f"{namespace}}}{self.leaf}" if namespace else self.leaf)
            leaf.text = text
            if text != text.strip():
                leaf.set(XML_SPACE, "preserve")
        elif len(parent):
            parent[-1].tail = (parent[-1].tail or "") + text
        else:
            parent.text = (parent.text or "") + text


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
        if not form.leaf or _name(element) != "r":
            return cls(element, id(element))
        properties = [
            etree.tostring(child, with_tail=False) for child in form.properties_of(element)
        ]
        return cls(element, b"".join(properties))

    def empty(self, form: XmlFormat) -> Element:
        """Return a copy of the element that has only its properties."""
        one = etree.Element(self.element.tag, self.element.attrib, self.element.nsmap)
        one.extend([copy.deepcopy(child) for child in form.properties_of(self.element)])
        return one


def _name(element: Element) -> str:
    """Return the tag without its namespace; empty for comments and instructions."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""
