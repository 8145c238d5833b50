"""YAML that is data alone: nothing in it can run, refer, or grow when it is read."""

from pathlib import Path

import yaml

from nmt.errors import UserError
from nmt.files import check_readable

_MAX_BYTES = 64 * 1024
_MAX_DEPTH = 16
# Also below the 4,300 digits beyond which Python refuses to print a number.
_MAX_CHARACTERS = 2_000


def read_plain_yaml(path: Path) -> str:
    """The text of a YAML file that may come from a stranger; it is safe to construct.

    The file is looked through as a stream of events, before any value is made of it.

    Raises:
        UserError: the file is missing, is not YAML or not UTF-8, is larger or more deeply nested
            than a configuration can be, or has a tag, an anchor, an interpolation or an unset
            value.
    """
    check_readable(path)
    if path.stat().st_size > _MAX_BYTES:
        raise UserError(f"{path}: is larger than {_MAX_BYTES // 1024} KiB; no configuration is")
    try:
        text = path.read_text(encoding="utf-8")
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            fault = "is nested too deeply" if depth > _MAX_DEPTH else _fault(event)
            if fault:
                raise UserError(f"{path}: line {event.start_mark.line + 1} {fault}")
    # PyYAML lets through what Python says to a character or a version number that cannot be.
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise UserError(f"{path}: is not valid YAML: {error}") from None
    return text


def _fault(event: yaml.Event) -> str:
    """What keeps an event from being plain data; empty when nothing does."""
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        return "holds an anchor or an alias, & or *; write the value itself"
    if getattr(event, "tag", None):
        return f"holds a tag, {event.tag}; a configuration has none"
    if isinstance(event, yaml.ScalarEvent):
        if len(event.value) > _MAX_CHARACTERS:
            return f"holds a value of more than {_MAX_CHARACTERS:,} characters"
        # A stored configuration must not read the environment of whoever loads it.
        if "${" in event.value:
            return "holds an interpolation, ${…}; write the value itself"
        if event.value == "???":
            return "holds an unset value, ???; write the value itself"
    return ""
