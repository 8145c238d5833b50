"""Read and check the words of the phrasebook, the tables in ``lexicon/``.

Tables are tab-separated text and can be extended line by line. An error in a table is reported with
its file, line and column and how to correct it.
"""

import dataclasses
import functools
from pathlib import Path

from data_prep.phrasebook.entries import (
    Adjective,
    Adverb,
    EnglishAdjective,
    EnglishNoun,
    EnglishVerb,
    FrenchAdjective,
    FrenchNoun,
    FrenchVerb,
    GermanAdjective,
    GermanNoun,
    GermanVerb,
    Lexicon,
    Name,
    Noun,
    Place,
    RiddleFrame,
    Verb,
)
from data_prep.phrasebook.tables import Row, check_unique, read_table
from data_prep.phrasebook.words import split_words

TABLES = Path(__file__).parent / "lexicon"

ADVERB_KINDS = frozenset(
    split_words("time_past time_present time_future frequency manner place degree sentence")
)
FRAMES = frozenset(split_words("intransitive transitive ditransitive prepositional motion clause"))


NOUN_COLUMNS = (
    "english english_plural german german_gender german_genitive german_oblique german_plural "
    "french french_gender french_plural classes"
)
VERB_COLUMNS = (
    "english english_third english_past english_participle english_ing english_complement "
    "german german_ich german_du german_er german_preterite german_participle german_auxiliary "
    "german_imperative german_reflexive german_government "
    "french french_present french_imperfect_stem french_future_stem french_participle "
    "french_auxiliary french_reflexive french_government "
    "frame aspect subject_classes object_classes"
)
ADJECTIVE_COLUMNS = (
    "english english_comparative german german_stem german_comparative french_masculine "
    "french_masculine_vowel french_feminine french_masculine_plural french_feminine_plural "
    "french_position classes use"
)
ADVERB_COLUMNS = "english german french kind"
PLACE_COLUMNS = "noun english_at german_at french_at english_to german_to french_to"
NAME_COLUMNS = "name gender"
RIDDLE_COLUMNS = "verb subject_classes object_classes subject_adjectives object_adjectives"


def _noun(row: Row) -> Noun:
    classes = frozenset(row.many("classes", None))
    if not classes:
        raise row.error("classes", "name at least one class, for example thing or food")
    if row.word("german_gender") not in {"m", "f", "n"}:
        raise row.error("german_gender", "write m, f or n")
    if row.word("french_gender") not in {"m", "f"}:
        raise row.error("french_gender", "write m or f")
    for column in ("english_plural", "french_plural"):
        if "mass" not in classes and row.word(column) == "-":
            raise row.error(column, "write the plural, or add the class mass")
    return Noun(
        EnglishNoun(row.word("english"), row.optional("english_plural")),
        GermanNoun(
            row.word("german"),
            row.word("german_gender"),
            row.optional("german_genitive"),
            row.word("german_oblique"),
            row.optional("german_plural"),
        ),
        FrenchNoun(
            row.word("french"),
            row.word("french_gender"),
            row.optional("french_plural"),
            "aspirated" in classes,
        ),
        classes,
    )


def _german_verb(row: Row) -> GermanVerb:
    prefix, _, infinitive = row.word("german").rpartition("|")
    return GermanVerb(
        prefix,
        infinitive,
        row.word("german_ich"),
        row.word("german_du"),
        row.word("german_er"),
        row.word("german_preterite"),
        row.word("german_participle"),
        row.one_of("german_auxiliary", frozenset({"haben", "sein"})),
        row.word("german_imperative").rstrip("!"),
        "" if row.word("german_reflexive") == "-" else row.word("german_reflexive"),
        row.optional("german_government"),
    )


def _french_verb(row: Row) -> FrenchVerb:
    present = tuple(form.strip() for form in row.word("french_present").split("/"))
    if len(present) != 6:
        raise row.error("french_present", "write six forms, je/tu/il/nous/vous/ils")
    return FrenchVerb(
        row.word("french"),
        present,
        row.word("french_imperfect_stem"),
        row.word("french_future_stem"),
        row.word("french_participle"),
        row.one_of("french_auxiliary", frozenset({"avoir", "être"})),
        row.one_of("french_reflexive", frozenset({"-", "yes"})) == "yes",
        row.optional("french_government"),
    )


def _verb(row: Row) -> Verb:
    english = EnglishVerb(
        row.word("english"),
        row.word("english_third"),
        row.word("english_past"),
        row.word("english_participle"),
        row.word("english_ing"),
        row.optional("english_complement"),
    )
    subjects = frozenset(row.many("subject_classes"))
    if not subjects:
        raise row.error("subject_classes", "name who can do this, for example person|animal")
    return Verb(
        english,
        _german_verb(row),
        _french_verb(row),
        row.one_of("frame", FRAMES),
        row.one_of("aspect", frozenset({"action", "state"})),
        subjects,
        frozenset(row.many("object_classes")),
    )


def _adjective(row: Row) -> Adjective:
    french = FrenchAdjective(
        row.word("french_masculine"),
        row.word("french_masculine_vowel"),
        row.word("french_feminine"),
        row.word("french_masculine_plural"),
        row.word("french_feminine_plural"),
        row.one_of("french_position", frozenset({"before", "after"})) == "before",
    )
    return Adjective(
        EnglishAdjective(row.word("english"), row.optional("english_comparative")),
        GermanAdjective(
            row.word("german"), row.optional("german_stem"), row.optional("german_comparative")
        ),
        french,
        frozenset(row.many("classes")),
        row.one_of("use", frozenset({"both", "predicative", "attributive"})),
    )


def _adverb(row: Row) -> Adverb:
    kind = row.one_of("kind", ADVERB_KINDS)
    return Adverb(row.word("english"), row.word("german"), row.word("french"), kind)


def _place(row: Row, nouns: dict[str, Noun]) -> Place:
    noun = nouns.get(row.word("noun"))
    if noun is None:
        raise row.error("noun", "this noun is not in nouns.tsv")
    for column in ("german_at", "german_to"):
        if row.word(column).partition("+")[2] not in {"acc", "dat"}:
            raise row.error(column, "write preposition+case, for example in+dat")
    return Place(
        noun,
        row.word("english_at"),
        row.word("german_at"),
        row.word("french_at"),
        row.word("english_to"),
        row.word("german_to"),
        row.word("french_to"),
    )


def _riddle(row: Row, verbs: dict[str, Verb], adjectives: dict[str, Adjective]) -> RiddleFrame:
    verb = verbs.get(row.word("verb"))
    if verb is None:
        raise row.error("verb", "this verb is not in verbs.tsv")

    def qualities(column: str) -> tuple[Adjective, ...]:
        missing = [word for word in row.many(column) if word not in adjectives]
        if missing:
            raise row.error(column, f"not in adjectives.tsv: {', '.join(missing)}")
        return tuple(adjectives[word] for word in row.many(column))

    return RiddleFrame(
        verb,
        frozenset(row.many("subject_classes")),
        frozenset(row.many("object_classes")),
        qualities("subject_adjectives"),
        qualities("object_adjectives"),
    )


def _name(row: Row) -> Name:
    return Name(row.word("name"), row.one_of("gender", frozenset({"m", "f"})))


def _with_own_classes(nouns: tuple[Noun, ...]) -> tuple[Noun, ...]:
    """Add a class for each noun, unless a class has its name."""
    taken = frozenset().union(*(noun.classes for noun in nouns))
    return tuple(
        noun if noun.key in taken else dataclasses.replace(noun, classes=noun.classes | {noun.key})
        for noun in nouns
    )


@functools.cache
def load_lexicon(folder: Path = TABLES) -> Lexicon:
    """Read and check all tables.

    Args:
        folder: Where the ``.tsv`` files are.

    Returns:
        The lexicon, with every reference between tables resolved.

    Raises:
        LexiconError: If a table has an error; the message names the cell and the correction.
    """
    verb_key = ("english", "english_complement")
    german_verb_key = ("german", "german_reflexive", "german_government")
    french_verb_key = ("french", "french_reflexive", "french_government")
    for noun_key in (("english",), ("german", "german_gender"), ("french", "french_gender")):
        check_unique(folder / "nouns.tsv", NOUN_COLUMNS, noun_key)
    for columns in (verb_key, german_verb_key, french_verb_key):
        check_unique(folder / "verbs.tsv", VERB_COLUMNS, columns)
    for word in ("english", "german", "french_masculine"):
        check_unique(folder / "adjectives.tsv", ADJECTIVE_COLUMNS, (word,))
    for word in ("english", "german", "french"):
        check_unique(folder / "adverbs.tsv", ADVERB_COLUMNS, (word,))

    nouns = tuple(map(_noun, read_table(folder / "nouns.tsv", NOUN_COLUMNS)))
    nouns = _with_own_classes(nouns)
    verbs = tuple(map(_verb, read_table(folder / "verbs.tsv", VERB_COLUMNS)))
    adjectives = tuple(map(_adjective, read_table(folder / "adjectives.tsv", ADJECTIVE_COLUMNS)))
    noun_by_key = {noun.key: noun for noun in nouns}
    verb_by_base = {verb.english.base: verb for verb in reversed(verbs)}
    verb_by_base |= {verb.key: verb for verb in verbs}
    adjective_by_key = {adjective.key: adjective for adjective in adjectives}
    places = read_table(folder / "places.tsv", PLACE_COLUMNS)
    riddles = read_table(folder / "riddles.tsv", RIDDLE_COLUMNS)
    return Lexicon(
        nouns,
        verbs,
        adjectives,
        tuple(map(_adverb, read_table(folder / "adverbs.tsv", ADVERB_COLUMNS))),
        tuple(_place(row, noun_by_key) for row in places),
        tuple(map(_name, read_table(folder / "names.tsv", NAME_COLUMNS))),
        tuple(_riddle(row, verb_by_base, adjective_by_key) for row in riddles),
    )
