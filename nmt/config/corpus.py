"""Configuration group `corpus`: the sentence pairs."""

from dataclasses import field, replace
from enum import StrEnum

from nmt.base.errors import UserError
from nmt.base.languages import has_word_blanks
from nmt.config.cleaning import CleaningConfig
from nmt.config.fields import (
    MAX_SEED,
    SYMBOL_RULE,
    FolderName,
    are_languages,
    checked_dataclass,
    is_symbol,
    leaf_fields,
    option,
    require,
)
from nmt.config.files import from_mapping, to_plain

CorpusSource = StrEnum("CorpusSource", "phrasebook folder hub opus")

_MAX_PAIRS = 10_000_000_000
_MAX_GENERATED = 10_000_000
_MAX_WEIGHT = 1_000_000
_CORPUS_FILTERS = {
    "drop_duplicates",
    "drop_near_duplicates",
    "drop_duplicate_sides",
    "drop_test_sentences",
}
_PHRASEBOOK = ("source", CorpusSource.phrasebook)
_HUB = ("source", CorpusSource.hub)
_WITH_PATH = ("source", CorpusSource.folder, CorpusSource.hub)


@checked_dataclass
class OriginConfig:
    """Where sentence pairs come from."""

    source: CorpusSource = CorpusSource.folder
    """The generated phrasebook, local files, the Hugging Face hub, or OPUS."""
    path: str = option("", free=True, used_with=_WITH_PATH)
    """`folder`: folder with `<split>.<language>` files, the common beginning of two such files, or
    a file of pairs (TMX, XLIFF, PO, TSV, CSV, JSON), also compressed. `hub`: folder of parquet
    files instead of the hub."""
    columns: list[str] = option([], max_length=3, used_with=("source", CorpusSource.folder))
    """`folder`: source, target and perhaps score in a table or in JSON, by the number of the column
    (from 1) or by its name. Names of languages name the columns of a table without a header."""
    licence: str = option("", free=True)
    """Licence of the text, for the README of the model."""
    hub_dataset: str = option("", used_with=_HUB)
    """`hub`: name of the data set, for example `wmt/wmt14`."""
    hub_subset: str = option("", used_with=_HUB)
    """`hub`: subset (configuration) of the data set, for example `de-en`; may be empty."""
    hub_revision: str = option("", used_with=_HUB)
    """`hub`: commit of the data set; empty means the newest."""
    hub_column: str = option("translation.{language}", used_with=_HUB)
    """`hub`: column or `column.key` with the text of a language; {language} stands for its code."""
    hub_score: str = option("", used_with=_HUB)
    """`hub`: column with the score of each pair, for `cleaning.min_score`; may be empty."""
    hub_splits: dict[FolderName, str] = option({}, used_with=_HUB)
    """`hub`: for `train`, `valid`, and test sets of any name, the split of the data set to use."""
    opus: str = option("", used_with=("source", CorpusSource.opus))
    """`opus`: name and release of the corpus, for example `Europarl/v8`."""

    def __post_init__(self) -> None:
        require(
            len(self.columns) != 1,
            f"corpus.columns={self.columns} has one column; name those of source and target",
        )


@checked_dataclass
class SourceConfig(OriginConfig):
    """A further source of training pairs."""

    tag: str = ""
    """Text put before each source sentence, such as `<BT>`; it is one piece of the vocabulary."""
    cleaning: dict[str, bool | int | float] = option({})
    """Values that replace those of `corpus.cleaning` for these pairs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            not self.tag or is_symbol(self.tag),
            f"corpus.sources: tag={self.tag!r} must be {SYMBOL_RULE}",
        )


@checked_dataclass
class MixingStage:
    """Shares of the sources in consecutive epochs."""

    epochs: int = option(0, ge=0, le=1_000_000)
    """Number of epochs; without effect in the last stage, which has no end."""
    weights: dict[FolderName, float] = option({})
    """Share of each source among the pairs of an epoch, in any unit; sources not named have 0."""


@checked_dataclass
class MixingConfig:
    """How often pairs of each source occur in an epoch.

    The corpus's own text is the source `corpus.name`; the others are the keys of `corpus.sources`.
    """

    repeats: dict[FolderName, float] = option({})
    """How often each pair of a source occurs in an epoch: 1 by default; with 0.5, an epoch uses one
    half of the pairs, and the next epoch the other."""
    weights: dict[FolderName, float] = option({})
    """Share of each source among the pairs of an epoch, in any unit; sources not named have 0."""
    temperature: float = option(1.0, ge=1, le=1_000)
    """Shares are proportional to (number of pairs)^(1 / temperature); high values equalise them."""
    stages: list[MixingStage] = option([], max_length=1000)
    """Shares that change in the course of the training; the last stage has no end."""

    def __post_init__(self) -> None:
        given = [
            f"corpus.mixing.{name}"
            for name, field in leaf_fields(MixingConfig).items()
            if getattr(self, name) != field.default
        ]
        require(len(given) < 2, f"{' and '.join(given)} exclude each other; keep one of them")
        numbers = [number for table in self._tables for number in table.values()]
        require(
            all(0 <= number <= _MAX_WEIGHT for number in numbers),
            f"corpus.mixing: weights and repeats must be between 0 and {_MAX_WEIGHT:,}",
        )
        require(
            (not self.weights or any(self.weights.values()))
            and all(any(stage.weights.values()) for stage in self.stages),
            "corpus.mixing: at least one weight must be above 0, in each stage if there are stages",
        )
        require(
            all(stage.epochs for stage in self.stages[:-1]),
            "corpus.mixing.stages: only the last stage may have epochs=0 (all following epochs)",
        )

    @property
    def names(self) -> set[str]:
        """Names of the sources that are mentioned."""
        return {name for table in self._tables for name in table}

    def weight_of(self, name: str) -> float:
        """Return the weight of a source, the largest one of all stages, or its repeats."""
        default = 1.0 if self.repeats else 0.0
        return max((table.get(name, default) for table in self._tables if table), default=1.0)

    @property
    def _tables(self) -> list[dict[str, float]]:
        return [self.repeats, self.weights, *(stage.weights for stage in self.stages)]


@checked_dataclass
class CorpusConfig(OriginConfig):
    """The sentence pairs."""

    name: FolderName = "phrasebook"
    """Name of the corpus; its folder is `<outputs>/corpora/<name>-<fingerprint>`."""
    source: CorpusSource = CorpusSource.phrasebook
    direction: str = "en-de"
    """Source and target language codes, joined by a hyphen."""
    num_train: int = option(60_000, ge=1, le=_MAX_GENERATED, used_with=_PHRASEBOOK)
    """`phrasebook`: number of training pairs."""
    num_valid: int = option(1_000, ge=1, le=_MAX_GENERATED, used_with=_PHRASEBOOK)
    """`phrasebook`: number of validation pairs."""
    num_test: int = option(2_000, ge=0, le=_MAX_GENERATED, used_with=_PHRASEBOOK)
    """`phrasebook`: number of test pairs, in addition to held-out combinations and riddles."""
    seed: int = option(1, ge=0, le=MAX_SEED, used_with=_PHRASEBOOK)
    """`phrasebook`: seed of the generated text."""
    max_train_pairs: int = option(0, ge=0, le=_MAX_PAIRS)
    """Number of training pairs to take from the start of the corpus's own text; 0 takes all."""
    check_languages: bool = option(True, free=True)
    """Stop if the text is certainly not in the languages of the direction, or its sides are
    swapped."""
    max_bad_share: float = option(0.01, ge=0, le=1, free=True)
    """Stop if more than this share of the units of a local file cannot be read."""
    sources: dict[FolderName, SourceConfig] = option({})
    """Further sources of training pairs, by name: path or data set, tag and filters of each."""
    mixing: MixingConfig = field(default_factory=MixingConfig)
    """How often pairs of each source occur in an epoch."""
    terminology: float = option(0.0, ge=0, le=1)
    """Share of the training pairs that have target terms in their source, so that the model learns
    to use the terms of a glossary."""
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    """Filters of training pairs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        codes = self.direction.split("-")
        require(
            are_languages(codes),
            f"corpus.direction={self.direction} is not two different language codes joined by a"
            " hyphen, such as en-de or en-pt_BR",
        )
        require(
            self.source is not CorpusSource.folder or bool(self.path),
            "corpus.path is empty: name a folder with <split>.<language> files, or a file of pairs",
        )
        require(
            self.source is not CorpusSource.opus or bool(self.opus),
            "corpus.opus is empty: name a corpus and its release, such as Europarl/v8",
        )
        require(
            self.name not in self.sources,
            f"corpus.sources.{self.name} has the name of the corpus; choose another name",
        )
        unknown = sorted(self.mixing.names - {self.name, *self.sources})
        known = ", ".join((self.name, *self.sources))
        require(
            not unknown,
            f"corpus.mixing: no source is named {', '.join(unknown)}; the sources are {known}",
        )
        for name in self.sources:
            self.cleaning_of(name)
        for code in codes if self.terminology else ():
            require(
                has_word_blanks(code),
                f"corpus.terminology={self.terminology:g} needs blanks between words, which {code}"
                " does not have; leave it out",
            )

    @property
    def sources_by_weight(self) -> list[str]:
        """Names of all sources, by falling weight: each pair is kept in the first that has it."""
        names = [self.name, *self.sources]
        return sorted(names, key=self.mixing.weight_of, reverse=True)

    def key_of(self, name: str) -> str:
        """Return the key that names a source, for messages."""
        return f"corpus.sources.{name}" if name in self.sources else f"corpus.name={name}"

    def cleaning_of(self, name: str) -> CleaningConfig:
        """Return the filters of a source in `sources`, or of the corpus itself.

        Raises:
            UserError: the source sets an unknown key, a wrong value, or a filter that compares the
                pairs of all sources.
        """
        changes = self.sources[name].cleaning if name in self.sources else {}
        key = f"corpus.sources.{name}.cleaning."
        for filter_name in sorted(_CORPUS_FILTERS & changes.keys()):
            raise UserError(
                f"{key}{filter_name}: this filter compares the pairs of all sources; set"
                f" corpus.cleaning.{filter_name}"
            )
        cleaning = to_plain(self.cleaning) | changes
        return from_mapping(CleaningConfig, cleaning, "configuration", key)

    def origin_of(self, name: str) -> "CorpusConfig":
        """Return a source in `sources` as a corpus of its own."""
        origin = to_plain(self.sources[name])
        kept = {key: origin[key] for key in OriginConfig.__dataclass_fields__}
        return replace(self, name=name, sources={}, mixing=MixingConfig(), **kept)

    @property
    def languages(self) -> tuple[str, str]:
        """Codes of source and target language."""
        source, target = self.direction.split("-")
        return source, target

    @property
    def source_language(self) -> str:
        """Code of the language translated from."""
        return self.languages[0]

    @property
    def target_language(self) -> str:
        """Code of the language translated into."""
        return self.languages[1]
