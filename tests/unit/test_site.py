"""The pages that `make docs` writes."""

import json
import os
import re
import shutil
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from nmt.config import Config, checked_dataclass, leaf_fields, option
from tests.namespaces import ROOT

pytest.importorskip("mkdocs", reason="make install-docs")
pytest.importorskip("mkdocstrings", reason="make install-docs")
pytest.importorskip("fastapi", reason="make install-docs")

from docs import generate, hooks

Colour = StrEnum("Colour", "red blue")


@checked_dataclass
class Part:
    """A part."""

    size: float = option(1.5, gt=0, le=10)
    """Size in metres."""
    names: dict[str, int] = option({})


@checked_dataclass
class Group:
    """The things [of a kind]."""

    file: str
    """File `<name>_x` for <name>."""
    colour: Colour | None = None
    size: float = option(1.5, gt=0, le=10)
    """Size in metres."""
    count: int = option(2, ge=1, le=2_000, free=True, used_with=("colour", Colour.red))
    parts: dict[str, Part] = option({})


def test_a_group_lists_its_keys_with_types_bounds_defaults_and_presets() -> None:
    assert generate.group_page("g", Group, {"a": "# A.\nx: 1\n"}).split("\n\n") == [
        "# g",
        "The things \\[of a kind\\].",
        "### g.file",
        "*text; required*",
        "File `<name>_x` for &lt;name&gt;.",
        "### g.colour",
        "*`red` or `blue`; empty by default*",
        "",
        "### g.size",
        "*number; above 0, at most 10; default `1.5`*",
        "Size in metres.",
        "### g.count",
        "*integer; 1 to 2,000; default `2`; only with `g.colour=red`; does not change the result*",
        "",
        "### g.parts",
        "*table of names; each value: keys of its own; empty by default*",
        "",
        "`g.parts.NAME` also has these keys of this page: size.",
        "### g.parts.NAME.names",
        "*table of names; each value: integer; empty by default*",
        "",
        "## Presets",
        "Files of `conf/g/`, chosen with `g=NAME`.",
        "### g=a",
        "```yaml\n# A.\nx: 1\n```",
        "",
    ]


def test_the_list_of_groups_has_their_contents_and_presets() -> None:
    page = generate.configuration_page({"g": Group}, {"g": {"a": "", "b": ""}, "sweep": {"c": ""}})
    assert page.splitlines()[-2:] == [
        "| [cluster](cluster.md) | Where the runs of `--multirun` are executed. |  |",
        "| [g](g.md) | The things \\[of a kind\\]. | `a` `b` |",
    ]


def test_the_page_of_a_command_has_its_usage_and_links_to_the_groups() -> None:
    usage = "Do it.\n\nnmt do file=<x>\n\nSee docs/guides/do.md.\n"
    [title, summary, code, prose, keys, *rest] = generate.command_page(
        "do", usage, Group, ()
    ).split("\n\n")
    assert [title, summary, keys] == ["# nmt do", "Do it.", "## Keys"]
    assert code == "```text\nnmt do file=<x>\n```"
    assert prose == "See [guides/do](../../guides/do.md)."
    assert rest[0] == "### file"
    page = generate.command_page("train", "Train.", Config, ("model", "run"))
    assert "[model](../configuration/model.md), [run](../configuration/run.md)." in page


def test_targets_of_make_are_listed_with_their_variables() -> None:
    makefile = "a: b  ## Do one\nb-c: d  ## Do two, or three     X= or Y=1|2\n"
    [*_, one, two] = generate.commands_page(makefile).splitlines()
    assert one == "| `make a` | Do one |  |"
    assert two == "| `make b-c` | Do two, or three | `X= or Y=1\\|2` |"


def test_the_http_api_has_its_parameters_and_errors() -> None:
    error = {"400": {"description": "A parameter is wrong."}}
    body = {
        "properties": {
            "q": {"description": "Text."},
            "n": {"description": "Number.", "default": 0},
        },
        "required": ["q"],
    }
    post = {
        "description": "Do it.",
        "requestBody": {"content": {"application/json": {"schema": body}}},
        "responses": {"200": {"description": "Done."}, **error},
    }
    get = {"description": "Do it.", "responses": error}
    paths = {"/do": {"get": get, "post": post}, "/ask": {"get": {**get, "description": "Ask."}}}
    page = generate.http_page({"info": {"description": "An API."}, "paths": paths}).split("\n\n")
    assert page[2:] == [
        "## /do",
        "`GET` or `POST`. Do it.",
        "- `q` (required): Text.\n- `n` (default `0`): Number.",
        "## /ask",
        "`GET`. Ask.",
        "## Errors",
        "An error is a JSON object with the key `error`; its status is:",
        "- 400: A parameter is wrong.",
        "",
    ]


def test_every_key_and_command_has_an_entry() -> None:
    pages = generate.pages()
    for key in leaf_fields(Config):
        group, title = key.partition(".")[0], key.replace("_", "\\_")
        assert f"### {title}\n" in pages[f"reference/configuration/{group}.md"]
    assert "### conf" not in pages
    assert "### glossary\n" in pages["reference/commands/translate.md"]
    assert "### model=base\n" in pages["reference/configuration/model.md"]


def test_patterns_of_the_navigation_name_each_page_once() -> None:
    names = ["a.md", "b/c.md", "b/d.md", "e.md"]
    entries = ["e.md", {"B": ["b/d.md", "b/*"]}, {"Empty": ["x/*"]}, "*"]
    assert hooks.expanded(entries, names) == ["e.md", {"B": ["b/d.md", "b/c.md"]}, "a.md"]


def test_links_into_the_repository_lead_to_pages() -> None:
    text = (
        "[a](../nmt/base/log.py) [b](decisions/) [c](../README.md#start) [d](https://x.org/y.md)\n"
        "```\n[e](../nmt/base/log.py)\n```\n[f](#own) ![g](pictures/riddle.png)"
    )
    assert hooks.with_links(text, ROOT / "docs/some.md", "some.md") == (
        "[a](code/nmt/base/log.py.md) [b](decisions/index.md) [c](index.md#start)"
        " [d](https://x.org/y.md)\n```\n[e](../nmt/base/log.py)\n```\n[f](#own)"
        " ![g](pictures/riddle.png)"
    )
    inner = hooks.with_links("[a](../files.md)", ROOT / "docs/guides/b.md", "guides/b.md")
    assert inner == "[a](../files.md)"
    outside = hooks.with_links(
        "[a](docs/x/y.md) [b](docs/experiments/)", ROOT / "CONTRIBUTING.md", "contributing.md"
    )
    assert outside == "[a](x/y.md) [b](experiments.md)"


def test_a_folder_has_a_list_of_its_pages() -> None:
    texts = {"a/x/y.md": "# Y\n", "a/x/index.md": "# X\n", "a/c.md": "# C d\n"}
    texts |= {"a/b.md": "---\nx: y\n---\n# B\n\n# E\n", "c.md": "# F\n"}
    links = "- [B](b.md)\n- [C d](c.md)\n- [X](x/index.md)\n"
    assert hooks.list_page("a", texts) == f"# A\n\n{links}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built without a dead link or anchor."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (built.returncode, built.stderr) == (0, "")
    return folder


@pytest.mark.slow
def test_pages_need_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    loaded = r"""(?:<script[^>]* src|<link[^>]* href|<img[^>]* src)=["']?(?:https?:)?//[^"'>\s]+"""
    found = [match for page in pages for match in re.findall(loaded, page.read_text("utf-8"))]
    assert found == []


@pytest.mark.slow
def test_links_of_pictures_lead_to_pages(site: Path) -> None:
    links = re.findall(r'href="([^"]+)"', (site / "pictures/architecture.svg").read_text("utf-8"))
    assert links
    assert [link for link in links if not (site / "pictures" / link).exists()] == []


def entries(site: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((site / "search/search_index.json").read_text())[
        "docs"
    ]
    return found


@pytest.mark.slow
def test_the_search_knows_keys_and_python_but_no_code(site: Path) -> None:
    locations = {entry["location"] for entry in entries(site)}
    assert "reference/configuration/training.html#traininglabel_smoothing" in locations
    assert "reference/python.html#nmt.load" in locations
    assert not any(location.startswith("code/") for location in locations)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs the program chromium")
def test_the_search_works_in_pages_opened_from_files(site: Path) -> None:
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += ["--virtual-time-budget=10000", f"{(site / 'index.html').as_uri()}?q=glossary"]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    results = re.findall(r'<a href="([^"?]*)[^>]*class="md-search-result__link"', page)
    assert any(link.endswith("reference/commands/translate.html") for link in results)
