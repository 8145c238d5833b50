"""README, guides and reference: links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OTHERS = ["outputs/README.md", "data_prep/phrasebook/README.md"]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *(ROOT / o for o in OTHERS)])
names = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))

BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)


def prose(document: Path) -> str:
    """The text without blocks of code and without code in lines."""
    return re.sub(r"`[^`]+`", "`", BLOCK.sub("", document.read_text(encoding="utf-8")))


def anchors(document: Path) -> set[str]:
    """The anchors of the headings, as in GitHub and in the pages of `make docs`."""
    text = BLOCK.sub("", document.read_text(encoding="utf-8"))
    titles = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def dead_links(document: Path) -> list[str]:
    """The links of a document to files or headings that do not exist."""
    dead = []
    for link in LINK.findall(prose(document)):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead


@names
def test_links_lead_to_files_and_headings_that_exist(document: Path) -> None:
    assert dead_links(document) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text("# A `b_c`: d, *e*\n\n```sh\n# no heading\n```\n")
    good = "[a](other.md) [b](other.md#a-b_c-d-e) [c](#own) `[d](e)` [f](https://example.org)"
    document = tmp_path / "document.md"
    document.write_text(f"# Own\n{good}\n[g](no.md) [h](other.md#no-heading) [i](#other)\n")
    assert dead_links(document) == ["no.md", "other.md#no-heading", "#other"]


def test_code_names_documents_that_exist() -> None:
    folders = ("nmt", "data_prep", "benchmarks", "conf", "deploy", "docs")
    kinds = {".py", ".yaml", ".html", ".jinja", ".toml", ".service"}
    paths = [ROOT / "Makefile", *(path for name in folders for path in (ROOT / name).rglob("*"))]
    named = [
        (str(path.relative_to(ROOT)), name)
        for path in paths
        if path.suffix in kinds or path.name in ("Makefile", "Dockerfile")
        for name in re.findall(r"\bdocs/[\w/.-]+\.md\b", path.read_text(encoding="utf-8"))
    ]
    assert len(named) > 3
    assert [each for each in named if not (ROOT / each[1]).exists()] == []
