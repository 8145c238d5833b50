"""Sentence pairs from a TMX file (Translation Memory eXchange 1.4b), plain or compressed.

A translation unit (`tu`) has a variant (`tuv`) for each language. The segment (`seg`) of a variant
is read without formatting codes: the text of `bpt`, `ept`, `it`, `ph` and `ut` is left out, and
that of `hi` is kept. The file is read as a stream; nothing outside the file is loaded.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from lxml import etree

from data_prep.clean import Pair
from data_prep.manifest import FactsCache
from data_prep.protocol import TRAIN, Source
from data_prep.text_files import open_bytes
from nmt.base.errors import UserError, first_line, one_line

TMX_VERSION = 1
"""Part of the fingerprint: raise it whenever other text is read."""

_CODES = {"bpt", "ept", "it", "ph", "ut"}
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class TmxSource(Source):
    """The translation units of a TMX file as training pairs.

    A unit that lacks a language becomes a pair with an empty side. Cleaning drops and counts it.

    Args:
        path: the file.
        languages: codes of source and target. `de` also matches `de-AT` if the unit has no variant
            with exactly the code `de`.
        facts: cache of sizes and hashes.
    """

    def __init__(self, path: Path, languages: tuple[str, str], facts: FactsCache) -> None:
        self._path = path
        self._languages = languages
        self._cache = facts
        self._facts = facts.facts(path)

    def splits(self) -> list[str]:
        """`train` only."""
        return [TRAIN]

    def identity(self) -> dict[str, Any]:
        """Size and hash of the file."""
        return {"source": "tmx", "version": TMX_VERSION, "file": asdict(self._facts)}

    def num_pairs(self, split: str) -> None:
        """Unknown before the file is read."""
        assert split == TRAIN

    def pairs(self, split: str) -> Iterator[Pair]:
        """One pair for each translation unit.

        Raises:
            UserError: the file is damaged, is not valid TMX or has entities, no unit has both
                languages, or the file changes meanwhile.
        """
        assert split == TRAIN
        found: Counter[str] = Counter()
        num_pairs = 0
        with open_bytes(self._path) as stream:
            for variants in _units(self._path, stream):
                found.update(variants.keys())
                source, target = (_choose(variants, code) for code in self._languages)
                num_pairs += bool(source and target)
                yield Pair(source, target)
        if not num_pairs:
            known = ", ".join(f"{code} ({count:,})" for code, count in found.most_common(20))
            if not known:
                raise UserError(f"{self._path}: no translation unit has text with a language code")
            raise UserError(
                f"{self._path}: no translation unit has text in {' and '.join(self._languages)};"
                f" the languages of the file are {one_line(known)}; set corpus.direction to two"
                " languages of one unit"
            )
        self._cache.check(self._path, self._facts)


def _units(path: Path, stream: IO[bytes]) -> Iterator[dict[str, str]]:
    """Yield the text of each language of each translation unit."""
    try:
        units = etree.iterparse(
            stream,
            events=("end",),
            tag="{*}tu",
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
            remove_comments=True,
            remove_pis=True,
        )
        for _, unit in units:
            yield _variants(path, unit)
            # Without this, the tree of all units would take several times the size of the file.
            unit.clear()
            while unit.getprevious() is not None:
                del unit.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise UserError(f"{path}: is not valid XML: {first_line(error)}") from None


def _variants(path: Path, unit: Any) -> dict[str, str]:
    texts: dict[str, str] = {}
    for variant in unit.iterchildren("{*}tuv"):
        segment = variant.find("{*}seg")
        code = variant.get(_LANGUAGE) or variant.get("lang")  # `lang` until TMX 1.1
        if segment is None or not code:
            problem = "no seg" if segment is None else "no xml:lang"
            raise UserError(f"{path}: line {variant.sourceline}: a tuv has {problem}")
        texts.setdefault(code, "".join(_text(path, segment)))
    return texts


def _text(path: Path, element: Any) -> Iterator[str]:
    """Yield the text of an element in parts, without formatting codes."""
    yield element.text or ""
    for child in element:
        if child.tag is etree.Entity:
            raise UserError(
                f"{path}: line {element.sourceline}: the entity {child.text} is not supported;"
                " replace it by its characters"
            )
        if str(child.tag).rpartition("}")[2] not in _CODES:  # `QName` fails for unbound prefixes
            yield from _text(path, child)
        yield child.tail or ""


def _choose(variants: dict[str, str], code: str) -> str:
    """Return the text in a language, else in its first variety, such as `en-US`, else ""."""
    codes = {name.lower().replace("_", "-"): text for name, text in variants.items()}
    wanted = code.lower().replace("_", "-")
    similar = (text for name, text in codes.items() if name.startswith(f"{wanted}-"))
    return codes.get(wanted) or next(similar, "")
