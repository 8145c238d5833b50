"""Check that an HTML page is well-formed and self-contained."""

import re
from html.parser import HTMLParser

_VOID = {"meta", "br", "hr", "img", "link", "input", "wbr"}


class _Checker(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.styles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} has {name}="
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "data", "action", "srcset"):
                self.links.append(value or "")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> without a start tag"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.styles if self.open[-1:] == ["style"] else self.texts).append(data)


def check_page(page: str, num_scripts: int = 0) -> str:
    """Check a page and return its text, that of its scripts included."""
    checker = _Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert page.startswith("<!doctype html>")
    assert checker.tags.count("script") == num_scripts
    assert not {"link", "iframe", "img", "object", "embed", "base"} & set(checker.tags)
    assert len(set(checker.ids)) == len(checker.ids)
    # Links refer to elements of the page, or to other pages.
    other = re.compile(r"([\w./%-]*/)?(report|runs)\.html")
    links = [link for link in checker.links if not other.fullmatch(link)]
    assert {link.removeprefix("#") for link in links} <= set(checker.ids)
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"url\(|@import", "".join(checker.styles))
    return "".join(checker.texts)
