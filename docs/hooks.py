"""Events of mkdocs: add the generated pages and the documents outside of docs/, adapt links.

`make docs` builds the pages; mkdocs.yml names this file.
"""

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from docs.generate import ROOT, pages

_DOCS = ROOT / "docs"
# Documents that stand elsewhere in the repository, and the paths of their pages.
_ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "data_prep/phrasebook/README.md": "phrasebook.md",
    "outputs/README.md": "outputs.md",
}
_LISTED = ("guides", "reference", "decisions")  # folders with a list of their pages
# Weights of pages in the search, by the beginnings of their paths.
_WEIGHTS = {"guides/": 3, "reference/": 2, "decisions/": 0.3, "experiments/": 0.3, "code/": 0}
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^()\s#]+)")
_BLOCK = re.compile(r"(^```.*?^```$)", re.M | re.S)


def on_files(files: Files, config: Any) -> Files:
    """Add pages, and make the navigation from the patterns of mkdocs.yml."""
    for name, page in _ELSEWHERE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    for page, text in pages().items():
        files.append(File.generated(config, page, content=text))
    for file in [file for file in files if file.src_uri.endswith(".svg")]:
        text = Path(str(file.abs_src_path)).read_text("utf-8")
        files.append(File.generated(config, file.src_uri, content=picture(text, file.src_uri)))
    documents = [file for file in files if file.is_documentation_page()]
    for folder in _LISTED:
        texts = {file.src_uri: file.content_string for file in documents}
        index = File.generated(config, f"{folder}/index.md", content=list_page(folder, texts))
        files.append(index)
        documents.append(index)
    sources = {Path(str(file.abs_src_path)) for file in documents if file.abs_src_path}
    for path in sorted(linked_code(sources)):
        content = code_page(path)
        files.append(File.generated(config, code_name(path), content=content))
    config.nav = expanded(config.nav, sorted(file.src_uri for file in documents))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Weight a page in the search, and make its links lead to the pages of what they name."""
    [weight] = [w for name, w in _WEIGHTS.items() if page.url.startswith(name)] or [1]
    page.meta["search"] = {"boost": weight, "exclude": not weight}
    source = page.file.abs_src_path
    return with_links(markdown, Path(source), page.file.src_uri) if source else markdown


def expanded(entries: list[Any], names: list[str]) -> list[Any]:
    """Replace patterns in a navigation by the pages that match them and are not yet in it."""
    left = list(names)

    def take(entry: Any) -> list[Any]:
        if isinstance(entry, dict):
            [(title, inner)] = entry.items()
            found = [each for one in inner for each in take(one)]
            return [{title: found}] if found else []
        found = [name for name in left if fnmatch(name, entry)]
        left[:] = [name for name in left if name not in found]
        return found

    return [each for entry in entries for each in take(entry)]


def targets(markdown: str, source: Path) -> dict[str, Path]:
    """Return the paths that the links of a document name, by the text of the links."""
    found = {link for part in _BLOCK.split(markdown)[::2] for link in _LINK.findall(part)}
    return {link: Path(os.path.normpath(source.parent / link)) for link in found}


def list_page(folder: str, texts: Mapping[str, str]) -> str:
    """Return a page with links to the pages of a folder, from the texts of all pages by path.

    Of a folder inside, only the page `index.md` is listed.
    """
    titles = {
        name.removeprefix(f"{folder}/"): text.partition("# ")[2].splitlines()[0]
        for name, text in sorted(texts.items())
        if fnmatch(name, f"{folder}/*") and (name.count("/") == 1 or name.endswith("/index.md"))
    }
    lines = [f"- [{title}]({name})" for name, title in titles.items()]
    return "\n".join([f"# {folder.capitalize()}", "", *lines, ""])


def linked_code(documents: set[Path]) -> set[Path]:
    """Return the files of the repository that documents link to and that are no documents."""
    return {
        path
        for document in documents
        for path in targets(document.read_text("utf-8"), document).values()
        if path.is_file() and path not in documents and _DOCS not in path.parents
    }


def code_name(path: Path) -> str:
    """Return the path of the page of a file of code."""
    return f"code/{path.relative_to(ROOT)}.md"


def code_page(path: Path) -> str:
    """Return the page of a file of code."""
    language = path.suffix[1:] or "text"
    return f"# {path.relative_to(ROOT)}\n\n````{language}\n{path.read_text('utf-8')}\n````\n"


def picture(svg: str, name: str) -> str:
    """Return a picture of docs/ whose links to files of code lead to their pages."""
    folder = (_DOCS / name).parent

    def replaced(match: re.Match[str]) -> str:
        page = code_name(Path(os.path.normpath(folder / match[1]))).removesuffix(".md") + ".html"
        return f'href="{os.path.relpath(page, Path(name).parent)}"'

    return re.sub(r'href="(\.\./[^"]+)"', replaced, svg)


def with_links(markdown: str, source: Path, name: str) -> str:
    """Replace links of a document, which stands at `source`, by links between pages.

    Args:
        markdown: text of the document.
        source: its path in the repository.
        name: path of its page.
    """
    found = targets(markdown, source)

    def replaced(match: re.Match[str]) -> str:
        path = found[match[1]]
        if path.is_dir():
            names = (path / "README.md", path.with_suffix(".md"))
            path = next((name for name in names if name.exists()), path / "index.md")
        if not path.is_relative_to(ROOT):
            return match[1]
        inside = str(path.relative_to(ROOT))
        page = _ELSEWHERE.get(inside, inside.removeprefix("docs/"))
        if page == inside:
            page = code_name(path)
        return os.path.relpath(page, Path(name).parent)

    parts = _BLOCK.split(markdown)
    parts[::2] = [_LINK.sub(replaced, part) for part in parts[::2]]
    return "".join(parts)
