"""Configuration group `corpus`: the sentence pairs."""

from dataclasses import dataclass, field
from enum import StrEnum

from nmt.config.fields import (
    MAX_SEED,
    bounded,
    check_fields,
    declared,
    is_language_code,
    require,
    require_folder_name,
)

CorpusSource = StrEnum("CorpusSource", "phrasebook folder hub bible")

_MAX_PAIRS = 10_000_000_000
_MAX_GENERATED = 10_000_000
_PHRASEBOOK = ("source", CorpusSource.phrasebook)
_HUB = ("source", CorpusSource.hub)
_WITH_PATH = ("source", CorpusSource.folder, CorpusSource.hub)


@dataclass(frozen=True)
class CleaningConfig:
    """Rules that reject a training pair; see `data_prep.clean`."""

    max_characters: int = bounded(2000, 1, 1_000_000)
    """Maximum number of characters per side."""
    max_words: int = bounded(200, 1, 1_000_000)
    """Maximum number of whitespace-separated words per side."""
    max_length_ratio: float = bounded(4.0, 1, 1_000)
    """Maximum ratio of the longer side to the shorter, in characters, if it has 20 or more."""
    drop_copies: bool = True
    """Reject pairs whose two sides are the same text of three words or more."""
    drop_duplicates: bool = True
    """Keep only the first of equal pairs."""

    def __post_init__(self) -> None:
        check_fields(self, "corpus.cleaning.")


@dataclass(frozen=True)
class CorpusConfig:
    """The sentence pairs."""

    name: str = "phrasebook"
    """Name of the corpus; its folder is `outputs/corpora/<name>-<fingerprint>`."""
    source: CorpusSource = CorpusSource.phrasebook
    """The generated phrasebook, a local folder, the Hugging Face hub, or the Bible."""
    direction: str = "en-de"
    """Source and target language codes, joined by a hyphen."""
    path: str = declared("", free=True, used_with=_WITH_PATH)
    """`folder`: folder with `<split>.<language>` files. `hub`: parquet files instead of the hub."""
    hub_dataset: str = declared("", used_with=_HUB)
    """`hub`: name of the data set, for example `wmt/wmt14`."""
    hub_subset: str = declared("", used_with=_HUB)
    """`hub`: subset (configuration) of the data set, for example `de-en`; may be empty."""
    hub_revision: str = declared("", used_with=_HUB)
    """`hub`: commit of the data set; empty means the newest."""
    hub_column: str = declared("translation.{language}", used_with=_HUB)
    """`hub`: location of a language's text in a row: a column, or `column.key`."""
    hub_splits: dict[str, str] = declared({}, used_with=_HUB)
    """`hub`: split names there by split: `train`, `valid`; every other one is a test set."""
    num_train: int = bounded(60_000, 1, _MAX_GENERATED, used_with=_PHRASEBOOK)
    """`phrasebook`: number of training pairs."""
    num_valid: int = bounded(1_000, 1, _MAX_GENERATED, used_with=_PHRASEBOOK)
    """`phrasebook`: number of validation pairs."""
    num_test: int = bounded(2_000, 0, _MAX_GENERATED, used_with=_PHRASEBOOK)
    """`phrasebook`: number of test pairs, in addition to held-out combinations and riddles."""
    seed: int = bounded(1, 0, MAX_SEED, used_with=_PHRASEBOOK)
    """`phrasebook`: seed of the generated text."""
    max_train_pairs: int = bounded(0, 0, _MAX_PAIRS)
    """Maximum number of training pairs, the first ones of the source; 0 uses all."""
    more_path: str = declared("", free=True)
    """Folder of additional training pairs, such as back-translations; empty means none."""
    copies: int = bounded(1, 1, 1_000)
    """Number of times that each training pair occurs in an epoch; those of more_path occur once."""
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    """Rules that reject a training pair."""

    def __post_init__(self) -> None:
        check_fields(self, "corpus.")
        codes = self.direction.split("-")
        require(
            len(codes) == 2 and all(map(is_language_code, codes)) and codes[0] != codes[1],
            f"corpus.direction={self.direction} is not two different language codes joined by a"
            " hyphen, such as en-de",
        )
        require_folder_name("corpus.name", self.name)
        for split in self.hub_splits:
            require_folder_name("corpus.hub_splits", split)
        require(
            self.source is not CorpusSource.folder or bool(self.path),
            "corpus.path is empty: name the folder with the <split>.<language> files",
        )

    @property
    def source_language(self) -> str:
        """Code of the language translated from."""
        return self.direction.split("-")[0]

    @property
    def target_language(self) -> str:
        """Code of the language translated into."""
        return self.direction.split("-")[1]
