"""Sentence pairs from PO files of gettext: `msgid` is the source and `msgstr` the target.

The header may name the language of `msgstr`; if it is the source of the corpus, the sides are
exchanged. The forms of a plural are pairs of their own. Fuzzy and obsolete entries are left out.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from data_prep.clean import Pair
from data_prep.manifest import FactsCache
from data_prep.names import side_of
from data_prep.readers import Reader
from data_prep.text_files import BadUnit, iterate_units

_LINE = re.compile(r'\s*(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)?\s*"((?:[^"\\]|\\.)*)"\s*')
_ESCAPE = re.compile(r"\\(.)")
_LANGUAGE = re.compile(r"^Language:\s*(\S+)", re.MULTILINE)

Entry = dict[str, str]
"""The texts of an entry by keyword."""


class PoReader(Reader):
    """The entries of a PO file in the direction of the corpus."""

    def __init__(self, path: Path, languages: tuple[str, str], cache: FactsCache) -> None:
        super().__init__([path], cache)
        self._path, self._languages = path, languages

    def _read(self) -> Iterator[Pair | BadUnit]:
        is_reversed = False
        for entry in self._entries():
            if isinstance(entry, BadUnit):
                yield entry
            elif not entry.get("msgid"):
                named = _LANGUAGE.search(entry.get("msgstr", ""))
                side = side_of(named[1], self._languages) if named else None
                is_reversed = side is not None and side[0] == 0
            else:
                plural = entry.get("msgid_plural", "")
                for keyword, text in entry.items():
                    if keyword.startswith("msgstr"):
                        is_singular = keyword in ("msgstr", "msgstr[0]") or not plural
                        pair = Pair(entry["msgid"] if is_singular else plural, text)
                        yield Pair(*reversed(pair)) if is_reversed else pair

    def _entries(self) -> Iterator[Entry | BadUnit]:
        entry: Entry = {}
        keyword, is_fuzzy, problem = "", False, None
        for number, line in enumerate(iterate_units(self._path), start=1):
            match = None if isinstance(line, BadUnit) else _LINE.fullmatch(line)
            is_new = match is None or match[1] in ("msgctxt", "msgid")
            if is_new and (keyword.startswith("msgstr") or problem):
                if problem or not is_fuzzy:
                    yield problem or entry
                entry, keyword, is_fuzzy, problem = {}, "", False, None
            if isinstance(line, BadUnit):
                problem = line
            elif match and (match[1] or keyword):
                keyword = match[1] or keyword
                entry[keyword] = entry.get(keyword, "") + _ESCAPE.sub(_unescaped, match[2])
            elif line.startswith("#"):
                is_fuzzy = is_fuzzy or (line.startswith("#,") and "fuzzy" in line)
            elif line.strip():
                problem = BadUnit("not a line of a PO file", number, line)
        if problem or (entry and not is_fuzzy):
            yield problem or entry


def _unescaped(escape: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(escape[1], escape[1])
