"""Read YAML from untrusted sources, as plain data."""

from pathlib import Path

import yaml

from nmt.base.errors import UserError
from nmt.base.files import check_readable

_MAX_BYTES = 64 * 1024
_MAX_DEPTH = 16  # PyYAML takes minutes to parse some thousand levels
_MAX_CHARACTERS = 2_000  # Python refuses to format an integer of more than 4,300 digits


def read_plain_yaml(path: Path) -> str:
    """Read a YAML file that is safe to construct.

    The text is checked as a stream of parser events, before any object is constructed. Raises
    UserError if it is too large, is not YAML, or has tags, anchors, interpolations or unset values.
    """
    check_readable(path)
    if path.stat().st_size > _MAX_BYTES:
        raise UserError(f"{path}: is larger than {_MAX_BYTES // 1024} KiB; no configuration is")
    try:
        text, depth = path.read_text(encoding="utf-8"), 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            value = getattr(event, "value", "")
            problems = {
                "is nested too deeply": depth > _MAX_DEPTH,
                "holds an anchor or an alias, & or *": getattr(event, "anchor", None) is not None,
                f"holds a tag, {getattr(event, 'tag', '')}": getattr(event, "tag", None),
                f"holds a value of more than {_MAX_CHARACTERS:,} characters": len(value)
                > _MAX_CHARACTERS,
                # OmegaConf resolves it, also from the environment.
                "holds an interpolation, ${…}": "${" in value,
                "holds an unset value, ???": value == "???",
            }
            if found := next((problem for problem, is_met in problems.items() if is_met), None):
                line = event.start_mark.line + 1
                raise UserError(f"{path}: line {line} {found}; only plain values are allowed")
    # PyYAML passes on ValueError and OverflowError for invalid characters and version numbers.
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise UserError(f"{path}: is not valid YAML: {error}") from None
    return text
