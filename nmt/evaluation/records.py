"""Files that an evaluation or an export has written."""

from typing_extensions import TypedDict


class WrittenFiles(TypedDict):
    """`scores.json`, `export.json`: the files that the evaluation or the export has written."""

    files: list[str]
