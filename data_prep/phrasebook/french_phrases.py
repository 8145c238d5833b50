"""French noun phrases, prepositional phrases and relative pronouns."""

from data_prep.phrasebook import french_forms as forms
from data_prep.phrasebook import times
from data_prep.phrasebook.meaning import (
    Action,
    Anaphor,
    Clause,
    Determiner,
    Entity,
    Gap,
    Indefinite,
    Location,
    Pronoun,
    Proper,
    Role,
    Thing,
)
from data_prep.phrasebook.text import Notes

PARTITIVE = {("m", False): "du", ("f", False): "de la", ("m", True): "des", ("f", True): "des"}
INVARIABLE = {
    Determiner.EVERY: "chaque",
    Determiner.SOME: "quelques",
    Determiner.MANY: "beaucoup de",
    Determiner.HOW_MANY: "combien de",
}
LEQUEL = {
    ("m", False): "lequel",
    ("f", False): "laquelle",
    ("m", True): "lesquels",
    ("f", True): "lesquelles",
}
LEQUEL_AFTER_A = {
    ("m", False): "auquel",
    ("f", False): "à laquelle",
    ("m", True): "auxquels",
    ("f", True): "auxquelles",
}
QUEL = {
    ("m", False): "quel",
    ("f", False): "quelle",
    ("m", True): "quels",
    ("f", True): "quelles",
}


def features(entity: Entity) -> tuple[str, bool]:
    """The gender (m, f) and number (plural or not) that adjectives and pronouns agree with."""
    if isinstance(entity, Thing):
        return entity.noun.french.gender, entity.plural
    if isinstance(entity, (Anaphor, Gap)) and entity.thing is not None:
        return entity.thing.noun.french.gender, entity.thing.plural
    if isinstance(entity, Proper):
        return entity.name.gender, False
    if isinstance(entity, Pronoun):
        return entity.gender, entity.plural
    return "m", False


def is_clitic(entity: Entity | None) -> bool:
    """Whether an object is a pronoun, which precedes the verb."""
    return isinstance(entity, (Pronoun, Anaphor))


def entity_words(entity: Entity, notes: Notes, negated: bool = False) -> list[str]:
    """The words for a person or thing, without a relative clause; pronouns are stressed (*moi*)."""
    if isinstance(entity, Thing):
        return noun_head(entity, notes, negated)
    if isinstance(entity, Proper):
        return [entity.name.text]
    if isinstance(entity, Indefinite):
        return [forms.INDEFINITES[entity]]
    if isinstance(entity, Pronoun):
        return [forms.STRESSED[entity.person, entity.plural, entity.gender]]
    if isinstance(entity, Anaphor):
        gender, plural = features(entity)
        return [forms.STRESSED[3, plural, gender]]
    return []


def subject_word(entity: Entity) -> str:
    """The subject pronoun."""
    if isinstance(entity, Pronoun):
        return forms.SUBJECTS[entity.person, entity.plural, entity.gender]
    gender, plural = features(entity)
    return forms.SUBJECTS[3, plural, gender]


def noun_head(thing: Thing, notes: Notes, negated: bool = False) -> list[str]:
    """A noun with its determiner, and with adjectives before and after it."""
    gender, plural = features(thing)
    word = forms.noun(thing.noun, plural)
    before: list[str] = []
    after: list[str] = []
    for attribute in thing.attributes:
        degree = [] if attribute.degree is None else [attribute.degree.french]
        if attribute.adjective.french.before and not degree:
            before.append(forms.adjective(attribute.adjective, gender, plural, word))
        else:
            after += [*degree, forms.adjective(attribute.adjective, gender, plural)]
    if before:
        notes.add("adjective", f"{before[-1]} {word.replace(forms.ASPIRATION, '')}")
    elif after:
        notes.add("adjective", after[-1])
    if plural:
        notes.add("plural", word.replace(forms.ASPIRATION, ""))
    phrase = [*before, word, *after]
    words = [*_determiner(thing, gender, plural, phrase[0], bool(before), negated), *phrase]
    if thing.possessor is not None:
        notes.add("genitive")
        words += prepositional("de", thing.possessor, notes)
    return words


def _determiner(
    thing: Thing, gender: str, plural: bool, following: str, adjective_first: bool, negated: bool
) -> list[str]:
    feminine = gender == "f"
    vowel = forms.begins_with_vowel(following)
    match thing.determiner:
        case Determiner.POSSESSIVE:
            assert thing.owner is not None
            words = forms.possessive(thing.owner, gender, plural, following)
        case Determiner.THIS:
            words = "ces" if plural else "cette" if feminine else "cet" if vowel else "ce"
        case Determiner.INDEFINITE | Determiner.BARE if negated or (plural and adjective_first):
            words = "de"
        case Determiner.INDEFINITE:
            words = "une" if feminine else "un"
        case Determiner.BARE if vowel and not plural:
            words = "de la" if feminine else "de le"  # de l' before the vowel
        case Determiner.BARE:
            words = PARTITIVE[gender, plural]
        case Determiner.ALL:
            words = "toutes les" if feminine else "tous les"
        case Determiner.NUMBER:
            words = times.french_number(thing.number)
        case Determiner.WHICH:
            words = QUEL[gender, plural]
        case Determiner.DEFINITE:
            words = "les" if plural else "la" if feminine else "le"
        case kind:
            words = INVARIABLE[kind]
    return words.split(" ")


def prepositional(preposition: str, entity: Entity, notes: Notes) -> list[str]:
    """A preposition and its noun phrase, contracted with a definite article."""
    words = entity_words(entity, notes)
    bare = isinstance(entity, Thing) and entity.determiner is Determiner.BARE
    if preposition == "de" and bare:
        # "De" replaces the partitive article: "rêver de voyages".
        two = words[0] == "de" and words[1] in ("la", "le")
        return ["de", *words[2 if two else 1 :]]
    definite = isinstance(entity, Thing) and entity.determiner is Determiner.DEFINITE
    return forms.contract(preposition, words) if definite else [preposition, *words]


def location_words(location: Location, notes: Notes) -> list[str]:
    """dans le jardin, au marché, à l'école."""
    if location.adverb is not None:
        return [location.adverb.french]
    place = location.place
    assert place is not None
    preposition = place.french_to if location.direction else place.french_at
    return prepositional(preposition, Thing(place.noun), notes)


def relative_pronoun(thing: Thing) -> list[str]:
    """qui, que, dont, auquel …"""
    assert thing.relative is not None
    clause: Clause = thing.relative.clause
    if thing.relative.role is Role.SUBJECT:
        return ["qui"]
    assert isinstance(clause.predicate, Action)
    government = clause.predicate.verb.french.government
    if government.startswith("direct"):
        return ["que"]
    if government == "de":
        return ["dont"]
    person = "person" in thing.noun.classes
    if person and government != "dans":
        return [government, "qui"]
    if government == "à":
        return LEQUEL_AFTER_A[features(thing)].split(" ")
    return [government, LEQUEL[features(thing)]]
