"""Find the splits of a folder of text.

A split is two files of aligned lines, `<split>.<language>`, or one file of pairs, such as
`<split>.tsv`. `data_prep.names` lists the names of languages and splits. The training text may be
in parts, `train.<part>.<language>`, which are read in the order of their names. Without `train`, it
is all text whose name is not that of a validation or test set. The other splits are test sets.
Files of other languages are ignored.
"""

from collections.abc import Callable, Collection
from pathlib import Path

from data_prep import names
from data_prep.protocol import TRAIN, VALID
from data_prep.text_files import is_archive, plain_name
from nmt.base.errors import UserError
from nmt.base.files import is_plain_name
from nmt.config import CorpusConfig

XLIFF_ENDINGS = (".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff")
JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
_PAIR_ENDINGS = {".tmx", ".po", ".tsv", ".csv", *XLIFF_ENDINGS, *JSON_ENDINGS}
_SCORES = "score"
_NUM_NAMES = 10


class Folder:
    """The text of a folder.

    Args:
        folder: the folder.
        config: the languages.
        key: the settings that name the folder, for error messages.

    Attributes:
        files: the files of each text, by the common part of their names: source and target, and
            perhaps scores, or one file of pairs. The path of a missing side is the expected one.
    """

    def __init__(self, folder: Path, config: CorpusConfig, key: str) -> None:
        self._folder, self._key = folder, key
        self._languages = config.languages
        entries = sorted(folder.iterdir()) if folder.is_dir() else []
        self._entries = [path for path in entries if not path.name.startswith(".")]
        texts = [path for path in self._entries if path.is_file()]
        self.files = self._aligned(texts)
        is_empty = not self.files
        for path in texts:
            base, role = Path(plain_name(path)).stem, names.role(path.name)
            is_text = role or (is_empty and not plain_name(path).endswith(".json"))
            if _is_of_pairs(path) and is_text:
                self.files[path.name if base in self.files else base] = [path]

    def _aligned(self, texts: list[Path]) -> dict[str, list[Path]]:
        ranked: dict[str, tuple[list[tuple[int, Path]], ...]] = {}
        for path in texts:
            if name := self._split_name(path):
                ranked.setdefault(name.base, ([], []))[name.side].append((name.rank, path))
        files = {}
        for base, sides in ranked.items():
            files[base] = [self._folder / f"{base}.{code}" for code in self._languages]
            for side, found in enumerate(sides):
                best = [path for rank, path in found if rank == min(found)[0]]
                if len(best) > 1:
                    raise UserError(f"{best[0]} and {best[1]} both exist; remove one of them")
                files[base][side : side + 1] = best or [files[base][side]]
            files[base] += [path for path in texts if plain_name(path) == f"{base}.{_SCORES}"]
        return files

    def _split_name(self, path: Path) -> names.FileName | None:
        return None if _is_of_pairs(path) else names.split_name(plain_name(path), self._languages)

    def splits(self, report: Callable[[str], None]) -> dict[str, dict[str, list[Path]]]:
        """Return the files of each text of each split; report names that are not the plain ones.

        Raises:
            UserError: the folder has no training text, or a test set has an unprintable name.
        """
        files = self.files
        complete = sorted(base for base, paths in files.items() if all(map(Path.exists, paths)))
        roles = {base: names.role(base) for base in files}
        # Half of `train` or `valid` is an error; half of another split is not used.
        train = sorted(base for base in roles if roles[base] == TRAIN) or [
            base for base in complete if not roles[base] or len(complete) == 1
        ]
        if not train:
            raise self._no_text()
        others = [base for base in complete if base not in train]
        valid = sorted((base for base in others if roles[base] == VALID), key=names.valid_order)
        valid = [VALID] if VALID in roles and VALID not in train else valid[:1]
        tests = [base for base in others if base not in valid]
        for base in tests:
            if not is_plain_name(base):
                raise UserError(
                    f"{self._folder}: the split {base!r} has a name with control characters or"
                    " bytes that are not UTF-8; rename its files"
                )
        splits = (
            {TRAIN: train} | ({VALID: valid} if valid else {}) | {test: [test] for test in tests}
        )
        unused = self._unused([*train, *valid, *tests])
        if (
            unused
            or valid not in ([], [VALID])
            or not all(base.startswith(TRAIN) for base in train)
        ):
            used = ", ".join(f"{split} = {' + '.join(bases)}" for split, bases in splits.items())
            more = f"; not used: {', '.join(unused)}" if unused else ""
            report(f"{self._folder}: {used}{more}")
        return {
            split: {base: self.files[base] for base in bases} for split, bases in splits.items()
        }

    def _unused(self, used: Collection[str]) -> list[str]:
        """Return the names of what looks like text or like a split, but is not read."""
        read = {path for base in used for path in self.files[base]}
        unused = [
            path.name
            for path in self._entries
            if path not in read
            and not (path.is_file() and _is_beside(plain_name(path), used))
            and (self._split_name(path) or names.role(path.name) or is_archive(path))
        ]
        return [*unused[:_NUM_NAMES], "…"] if len(unused) > _NUM_NAMES else unused

    def _no_text(self) -> UserError:
        entries = ", ".join(path.name for path in self._entries[:_NUM_NAMES])
        wanted = " and ".join(f"{TRAIN}.{code}" for code in self._languages)
        return UserError(
            f"{self._folder}: has no text for {self._key}; name the files {wanted}, and unpack"
            f" archives (it has {entries or 'no files'})"
        )


def _is_of_pairs(path: Path) -> bool:
    return Path(plain_name(path)).suffix.lower() in _PAIR_ENDINGS


def _is_beside(name: str, used: Collection[str]) -> bool:
    """Return whether a file is another language, or references, of one of the splits `used`."""
    return any(name.startswith(f"{base}.") or name.endswith(f".{base}") for base in used)
