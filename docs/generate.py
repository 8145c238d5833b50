"""Markdown of the generated reference: commands with their keys, groups of keys, presets.

`make docs` generates these pages from the dataclasses of the configuration, the modules of the
commands, the Makefile and the files of `conf/`. They are not stored.
"""

import html
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from nmt.cli.application import CONFIG_FOLDER
from nmt.cli.main import COMMANDS, imported
from nmt.config import Config, extra
from nmt.config.serving import ServingLimits
from nmt.server.app import make_app

ROOT = Path(__file__).resolve().parents[1]
_TYPES = {bool: "true or false", int: "integer", float: "number", str: "text"}
_ONLY_PRESETS = {
    "experiment": "Presets for all groups together.",
    "cleaning": "Presets for the keys corpus.cleaning.*, the filters of training pairs.",
    "sweep": "Grids and searches for `--multirun`.",
    "cluster": "Where the runs of `--multirun` are executed.",
}
_TARGET = re.compile(r"^([a-z-]+):.*?## (.*?) *([A-Z_]+=.*)?$", re.M)
_BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}

PYTHON = """# Python API

Import `nmt` in a script or a notebook; outside of the checkout, after `pip install -e CHECKOUT`.

::: nmt
    options:
      members: [load, Model, Translation]
      show_root_toc_entry: false

::: nmt.run_folder.Run
    options:
      members: [config, environment, status, metrics, result, evaluations, texts, corpus, model]
"""


def pages() -> dict[str, str]:
    """Return the Markdown of all generated pages by path."""
    made = {"reference/commands/index.md": commands_page((ROOT / "Makefile").read_text("utf-8"))}
    for name in COMMANDS:
        command: Any = imported(name)
        usage = str(sys.modules[command.__module__].__doc__)
        page = command_page(name, usage, command.kind, command.groups)
        made[f"reference/commands/{name}.md"] = page
    presets = {folder.name: _presets(folder) for folder in CONFIG_FOLDER.iterdir()}
    kinds = get_type_hints(Config)
    for name in {*kinds, *(name for name in presets if presets[name])}:
        page = group_page(name, kinds.get(name), presets.get(name, {}))
        made[f"reference/configuration/{name}.md"] = page
    made["reference/configuration/index.md"] = configuration_page(kinds, presets)
    made["reference/python.md"] = PYTHON
    made["reference/http.md"] = http_page(make_app([], ServingLimits()).openapi())
    return made


def _presets(folder: Path) -> dict[str, str]:
    """Return the text of the presets in a folder by name."""
    return {path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.yaml"))}


def commands_page(makefile: str) -> str:
    """Return the list of the commands, and of the targets of the Makefile with their variables."""
    lines = ["# Commands", "", "`nmt COMMAND key=value …` or `python -m nmt COMMAND key=value …`:"]
    lines += ["", "| command | |", "|---|---|"]
    lines += [f"| [`nmt {name}`]({name}.md) | {line} |" for name, line in COMMANDS.items()]
    lines += ["", "## Targets of make", "", "| target | | variables |", "|---|---|---|"]
    for name, summary, variables in _TARGET.findall(makefile.replace("|", "\\|")):
        given = f"`{variables}`" if variables else ""
        lines.append(f"| `make {name}` | {summary} | {given} |")
    return "\n".join([*lines, ""])


def configuration_page(kinds: Mapping[str, Any], presets: Mapping[str, Any]) -> str:
    """Return the list of the groups, from their dataclasses and presets by name."""
    lines = ["# Configuration", "", "| group | content | presets |", "|---|---|---|"]
    for name in [*_ONLY_PRESETS, *kinds]:
        names = " ".join(f"`{preset}`" for preset in presets.get(name, ()))
        lines.append(f"| [{name}]({name}.md) | {_content(name, kinds.get(name))} | {names} |")
    return "\n".join([*lines, ""])


def _content(name: str, kind: type[Any] | None) -> str:
    return _prose(_ONLY_PRESETS[name] if kind is None else str(kind.__doc__).splitlines()[0])


def command_page(name: str, usage: str, kind: type[Any], groups: Sequence[str]) -> str:
    """Return the page of a command.

    Args:
        name: such as `translate`.
        usage: the text above the keys in `--help`.
        kind: the checked dataclass of the keys.
        groups: the groups of `Config` that the command uses; empty means all that `kind` has.
    """
    own: list[str] = []
    linked: list[str] = []
    for key, field in kind.__pydantic_fields__.items():
        if extra(field, "group") or is_dataclass(field.annotation):
            linked.append(key)
        else:
            own.append(key_entry(key, field))
    parts = [f"# nmt {name}", *_paragraphs(usage)]
    parts += ["## Keys"] if own or linked else []
    if shown := [group for group in linked if not groups or group in groups]:
        links = ", ".join(f"[{group}](../configuration/{group}.md)" for group in shown)
        parts.append(f"The keys of these groups{' and those below' * bool(own)}: {links}.")
        parts.append("[Configuration](../configuration/index.md) lists their presets.")
    return "\n\n".join([*parts, *own, ""])


def _paragraphs(usage: str) -> Iterator[str]:
    """Convert the docstring of a command to Markdown; its lines of commands become code."""
    for paragraph in usage.strip().split("\n\n"):
        is_code = paragraph.startswith(("nmt ", "torchrun "))
        yield f"```text\n{paragraph}\n```" if is_code else _prose(paragraph)


def http_page(schema: Mapping[str, Any]) -> str:
    """Return the page of the HTTP API.

    Args:
        schema: its description in the format of OpenAPI.
    """
    parts = ["# HTTP API", f"{schema['info']['description']} `nmt serve` also answers"]
    parts[1] += " `/openapi.json` with this description, and `/metrics` with counts for Prometheus."
    statuses: dict[str, str] = {}
    for path, methods in schema["paths"].items():
        *_, operation = methods.values()
        names = " or ".join(f"`{method.upper()}`" for method in methods)
        parts += [f"## {path}", f"{names}. {_prose(operation['description'])}"]
        [*contents] = operation.get("requestBody", {}).get("content", {}).values()
        if contents:  # the same parameters as JSON and as a form
            body = contents[-1]["schema"]
            lines = [
                _parameter(name, value, name in body.get("required", []))
                for name, value in body["properties"].items()
            ]
            parts.append("\n".join(lines))
        answers = operation["responses"].items()
        statuses |= {code: answer["description"] for code, answer in answers if code != "200"}
    parts += ["## Errors", "An error is a JSON object with the key `error`; its status is:"]
    parts.append("\n".join(f"- {code}: {_prose(text)}" for code, text in statuses.items()))
    return "\n\n".join([*parts, ""])


def _parameter(name: str, value: Mapping[str, Any], is_required: bool) -> str:
    default = json.dumps(value.get("default", ""), ensure_ascii=False).strip('"')
    facts = "required" if is_required else f"default `{default}`" if default else "optional"
    return f"- `{name}` ({facts}): {_prose(' '.join(value['description'].split()))}"


def group_page(name: str, kind: type[Any] | None, presets: Mapping[str, str]) -> str:
    """Return the page of a group: its keys, if `kind` is its dataclass, and its presets."""
    parts = [f"# {name}", _content(name, kind)]
    if kind is not None:
        parts += _entries(kind, f"{name}.")
    if presets:
        given = f"`{name}=NAME`" if name != "tracking" else "`tracking=NAME` or `tracking=[A,B]`"
        parts += ["## Presets", f"Files of `conf/{name}/`, chosen with {given}."]
    for preset, text in presets.items():
        parts.append(f"### {name}={preset}\n\n```yaml\n{text.strip()}\n```")
    return "\n\n".join([*parts, ""])


def _entries(kind: Any, prefix: str) -> Iterator[str]:
    """Yield the entries of the keys of a dataclass, of its groups, and of its tables of groups."""
    for name, field in kind.__pydantic_fields__.items():
        hint: Any = field.annotation
        if is_dataclass(hint):
            yield from _entries(hint, f"{prefix}{name}.")
            continue
        yield key_entry(prefix + name, field)
        inner: Any = (get_args(hint) or [None])[-1]
        if is_dataclass(inner):
            part = f"{prefix}{name}.NAME" if get_origin(hint) is dict else f"{prefix}{name}[N]"
            yield from _entries_of_table(kind, inner, part)


def _entries_of_table(kind: Any, inner: Any, prefix: str) -> Iterator[str]:
    """Yield the entries of a table's keys; those that `kind` has as well are only named."""
    fields, entries = kind.__pydantic_fields__, inner.__pydantic_fields__
    shared = [name for name in entries if repr(entries[name]) == repr(fields.get(name))]
    if shared:
        yield f"`{prefix}` also has these keys of this page: {', '.join(map(_escaped, shared))}."
    for name in entries:
        if name not in shared:
            yield key_entry(f"{prefix}.{name}", entries[name])


def key_entry(key: str, field: FieldInfo) -> str:
    """Return the heading, type, bounds, default and documentation of a key."""
    facts = [type_name(field.annotation), bounds(field)]
    if field.is_required():
        facts.append("required")
    else:
        default = to_jsonable_python(field.get_default(call_default_factory=True))
        is_empty = default in ("", None, [], {})
        shown = default if isinstance(default, str) else json.dumps(default)
        facts.append("empty by default" if is_empty else f"default `{shown}`")
    if used_with := extra(field, "used_with"):
        other, *values = used_with
        path = key.rpartition(".")[0]
        choices = " or ".join(map(str, to_jsonable_python(values))).replace("True", "true")
        facts.append(f"only with `{f'{path}.' * bool(path)}{other}={choices}`")
    if extra(field, "free"):
        facts.append("does not change the result")
    line = "; ".join(filter(None, facts))
    return f"### {_escaped(key)}\n\n*{line}*\n\n{_prose(field.description or '')}"


def type_name(hint: Any) -> str:
    """Return the words for a type of values."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return type_name(arguments[0])
    if origin in (list, dict):
        start = "list; each entry" if origin is list else "table of names; each value"
        return f"{start}: {type_name(arguments[-1])}"
    if isinstance(hint, UnionType):
        return " or ".join(type_name(each) for each in arguments if each is not NoneType)
    if issubclass(hint, Enum):
        return " or ".join(f"`{name}`" for name in hint.__members__)
    return "keys of its own" if is_dataclass(hint) else _TYPES[hint]


def bounds(field: FieldInfo) -> str:
    """Return the bounds of a number in words; empty if there are none."""
    found = {
        name: f"{getattr(each, name):,.10g}"
        for each in field.metadata
        for name in _BOUNDS
        if hasattr(each, name)
    }
    if {"ge", "le"} <= set(found):
        return f"{found['ge']} to {found['le']}"
    return ", ".join(f"{_BOUNDS[name]} {value}" for name, value in found.items())


def _prose(text: str) -> str:
    """Escape text for Markdown, except for its code between backquotes."""
    parts = text.split("`")
    return "`".join(part if i % 2 else _escaped(part) for i, part in enumerate(parts))


def _escaped(text: str) -> str:
    """Escape text for Markdown; a document that it names becomes a link from a command's page."""
    escaped = re.sub(r"([*_\[\]{}])", r"\\\1", html.escape(text, quote=False))
    return re.sub(r"\bdocs/([\w/-]+)\.md\b", r"[\1](../../\1.md)", escaped)
