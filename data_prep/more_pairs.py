"""Further training pairs beside a corpus's own, such as back-translations."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data_prep.clean import Pair
from data_prep.manifest import FactsCache
from data_prep.protocol import TRAIN, zip_pairs
from nmt.config import CorpusConfig
from nmt.errors import UserError
from nmt.files import check_aligned, iterate_lines


class MorePairs:
    """`train.<language>` of both languages in the folder that `corpus.more_path` names.

    Raises:
        UserError: the folder lacks one of them, they differ in length, or they are empty.
    """

    def __init__(self, config: CorpusConfig, facts: FactsCache) -> None:
        folder = Path(config.more_path)
        self._paths = [
            folder / f"{TRAIN}.{language}"
            for language in (config.source_language, config.target_language)
        ]
        for path in self._paths:
            if not path.is_file():
                raise UserError(
                    f"{path}: no such file; corpus.more_path={folder} with"
                    f" corpus.direction={config.direction} needs it, one sentence a line"
                )
        self._facts = [facts.facts(path) for path in self._paths]
        lengths = [each.num_lines for each in self._facts]
        check_aligned(dict(zip(self._paths, lengths, strict=True)))
        if not lengths[0]:
            raise UserError(
                f"{self._paths[0]} and {self._paths[1]} are empty; leave corpus.more_path= out, or"
                " put pairs there"
            )

    def num_pairs(self) -> int:
        """Lines of either file."""
        return self._facts[0].num_lines

    def identity(self) -> list[dict[str, Any]]:
        """Size and hash of source and target."""
        return [asdict(each) for each in self._facts]

    def pairs(self) -> Iterator[Pair]:
        """Lines of both files, side by side."""
        return zip_pairs(*map(iterate_lines, self._paths))
