"""Sentence pairs drawn from the phrasebook, with what each test sentence shows."""

import hashlib
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from data_prep.clean import Pair
from data_prep.manifest import fingerprint
from data_prep.protocol import TRAIN, VALID, Annotation
from nmt.config import CorpusConfig
from nmt.errors import UserError


class PhrasebookSource:
    """Generated everyday sentences, drawn by seed; see `data_prep.phrasebook`."""

    def __init__(self, config: CorpusConfig, say: Callable[[str], None]) -> None:
        self._config = config
        self._say = say
        if {config.source_language, config.target_language} not in ({"en", "de"}, {"en", "fr"}):
            raise UserError(
                f"corpus.direction={config.direction}: the phrasebook knows en-de, de-en, en-fr and"
                " fr-en"
            )

    def identity(self) -> dict[str, Any]:
        """What is drawn, and a hash of the grammar's code and tables."""
        config = self._config
        folder = Path(__file__).parent / "phrasebook"
        files = sorted(path for path in folder.rglob("*") if path.suffix in {".py", ".tsv"})
        digests = {
            path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        }
        return {
            "source": "phrasebook",
            "grammar": fingerprint(digests),
            "num_pairs": [config.num_train, config.num_valid, config.num_test],
            "seed": config.seed,
        }

    @cached_property
    def _splits(self) -> dict[str, list[Any]]:
        # Here, not above: reading the tables is only worth it when pairs are drawn.
        from data_prep.phrasebook.generate import generate  # noqa: PLC0415

        config = self._config
        self._say(f"drawing {config.num_train:,} training pairs from the phrasebook")
        languages = (config.source_language, config.target_language)
        drawn: dict[str, list[Any]] = dict(
            generate(languages, config.num_train, config.num_valid, config.num_test, config.seed)
        )
        return drawn

    def splits(self) -> list[str]:
        """`train`, `valid`, then those of `held_out`, `riddle` and `test` that have any pairs."""
        drawn = {split for split, pairs in self._splits.items() if pairs}
        return [TRAIN, VALID, *sorted(drawn - {TRAIN, VALID})]

    def num_pairs(self, split: str) -> int:
        """Pairs drawn."""
        return len(self._splits[split])

    def pairs(self, split: str) -> Iterator[Pair]:
        """Both texts of each drawn pair."""
        config = self._config
        for pair in self._splits[split]:
            yield Pair(pair.texts[config.source_language], pair.texts[config.target_language])

    def more_references(self, split: str) -> list[list[str]]:
        """The grammar gives one translation."""
        del split
        return []

    def annotations(self, split: str) -> list[Annotation]:
        """What each sentence shows; the markers are those of the target language."""
        target = self._config.target_language
        return [
            Annotation(
                phenomena=list(pair.phenomena),
                must_contain=list(pair.must_contain.get(target, ())),
                must_not_contain=list(pair.must_not_contain.get(target, ())),
                group=pair.group,
            )
            for pair in self._splits[split]
        ]
