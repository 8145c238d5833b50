"""Entries of the lexicon: one for each concept, with its forms in three languages."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EnglishNoun:
    """An English noun; mass nouns have no plural."""

    singular: str
    plural: str


@dataclass(frozen=True)
class GermanNoun:
    """A German noun; ``oblique`` is its accusative and dative singular."""

    nominative: str
    gender: str
    genitive: str
    oblique: str
    plural: str


@dataclass(frozen=True)
class FrenchNoun:
    """A French noun; before an ``aspirated`` h nothing is elided."""

    singular: str
    gender: str
    plural: str
    aspirated: bool


@dataclass(frozen=True, eq=False)
class Noun:
    """One concept with its noun in each language."""

    english: EnglishNoun
    german: GermanNoun
    french: FrenchNoun
    classes: frozenset[str]

    @property
    def key(self) -> str:
        """The noun's name in the tables: its English singular."""
        return self.english.singular

    def fits(self, classes: frozenset[str]) -> bool:
        """Whether the noun belongs to one of ``classes``."""
        return not self.classes.isdisjoint(classes)

    @property
    def mass(self) -> bool:
        """Whether the noun is a mass noun, such as *coffee*."""
        return "mass" in self.classes


@dataclass(frozen=True)
class EnglishVerb:
    """The forms of an English verb and the particle or preposition that follows it."""

    base: str
    third: str
    past: str
    participle: str
    ing: str
    complement: str


@dataclass(frozen=True)
class GermanVerb:
    """The forms of a German verb; finite forms are without the separable prefix."""

    prefix: str
    stem_infinitive: str
    ich: str
    du: str
    er: str
    preterite: str
    participle: str
    auxiliary: str
    imperative: str
    reflexive: str
    government: str

    @property
    def infinitive(self) -> str:
        """The whole infinitive, prefix included."""
        return self.prefix + self.stem_infinitive


@dataclass(frozen=True)
class FrenchVerb:
    """The forms of a French verb; ``present`` runs je, tu, il, nous, vous, ils."""

    infinitive: str
    present: tuple[str, ...]
    imperfect_stem: str
    future_stem: str
    participle: str
    auxiliary: str
    reflexive: bool
    government: str


@dataclass(frozen=True, eq=False)
class Verb:
    """One concept with its verb in each language, and its possible arguments."""

    english: EnglishVerb
    german: GermanVerb
    french: FrenchVerb
    frame: str
    aspect: str
    subject_classes: frozenset[str]
    object_classes: frozenset[str]

    @property
    def key(self) -> str:
        """The verb's name in the tables: its English base form, with its complement."""
        return f"{self.english.base} {self.english.complement}".strip()


@dataclass(frozen=True)
class EnglishAdjective:
    """An English adjective and its comparative."""

    positive: str
    comparative: str


@dataclass(frozen=True)
class GermanAdjective:
    """A German adjective; endings are added to ``stem`` and to ``comparative``."""

    positive: str
    stem: str
    comparative: str


@dataclass(frozen=True)
class FrenchAdjective:
    """The forms of a French adjective, and whether it precedes its noun."""

    masculine: str
    masculine_vowel: str
    feminine: str
    masculine_plural: str
    feminine_plural: str
    before: bool


@dataclass(frozen=True, eq=False)
class Adjective:
    """One concept with its adjective in each language, and the classes of nouns that it fits."""

    english: EnglishAdjective
    german: GermanAdjective
    french: FrenchAdjective
    classes: frozenset[str]
    use: str

    @property
    def key(self) -> str:
        """The adjective's name in the tables: its English form."""
        return self.english.positive


@dataclass(frozen=True, eq=False)
class Adverb:
    """One adverb; ``kind`` determines its positions."""

    english: str
    german: str
    french: str
    kind: str


@dataclass(frozen=True, eq=False)
class Place:
    """Expressions for being at a location and for going there."""

    noun: Noun
    english_at: str
    german_at: str
    french_at: str
    english_to: str
    german_to: str
    french_to: str


@dataclass(frozen=True, eq=False)
class Name:
    """A first name that is used in all three languages."""

    text: str
    gender: str


@dataclass(frozen=True, eq=False)
class RiddleFrame:
    """A verb with adjectives that can only describe its subject, or only its object."""

    verb: Verb
    subject_classes: frozenset[str]
    object_classes: frozenset[str]
    subject_adjectives: tuple[Adjective, ...]
    object_adjectives: tuple[Adjective, ...]


@dataclass(frozen=True, eq=False)
class Lexicon:
    """All words, by table."""

    nouns: tuple[Noun, ...]
    verbs: tuple[Verb, ...]
    adjectives: tuple[Adjective, ...]
    adverbs: tuple[Adverb, ...]
    places: tuple[Place, ...]
    names: tuple[Name, ...]
    riddles: tuple[RiddleFrame, ...]
