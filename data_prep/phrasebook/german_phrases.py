"""German noun phrases, prepositional phrases and relative pronouns."""

from data_prep.phrasebook import german_forms as forms
from data_prep.phrasebook import times
from data_prep.phrasebook.entries import GermanVerb
from data_prep.phrasebook.meaning import (
    Action,
    Anaphor,
    Determiner,
    Entity,
    Indefinite,
    Location,
    Pronoun,
    Proper,
    Role,
    Thing,
)
from data_prep.phrasebook.text import Notes


def is_pronoun(entity: Entity) -> bool:
    """Whether an entity is a pronoun, which follows the verb directly."""
    return isinstance(entity, (Pronoun, Anaphor)) or entity is Indefinite.IT


def gender_of(thing: Thing) -> str:
    """m, f, n, or p for the plural, which has no gender."""
    return "p" if thing.plural else thing.noun.german.gender


def entity_words(entity: Entity, case: str, notes: Notes, negated: bool = False) -> list[str]:
    """The words for a person or thing in a case, without its relative clause."""
    if isinstance(entity, Thing):
        return noun_head(entity, case, notes, negated)
    if isinstance(entity, Proper):
        return [entity.name.text]
    if isinstance(entity, Indefinite):
        return [forms.INDEFINITES[entity][forms.CASES.index(case)]]
    if isinstance(entity, Pronoun):
        return [forms.pronoun(entity, case)]
    if isinstance(entity, Anaphor):
        person = Pronoun(3, entity.thing.plural)
        return [forms.pronoun(person, case, entity.thing.noun.german.gender)]
    return []


def noun_head(thing: Thing, case: str, notes: Notes, negated: bool = False) -> list[str]:
    """A noun with its determiner and adjectives, all in the same case."""
    gender = gender_of(thing)
    words = _determiner(thing, case, gender, negated)
    if negated and thing.determiner in (Determiner.INDEFINITE, Determiner.BARE):
        notes.add("negation", words[0])
    endings = forms.declension(thing.determiner, negated)[case]
    if isinstance(thing.possessor, Proper):
        # "Annas neues Auto" has no article, so the adjective is strong.
        words, endings = [genitive_name(thing.possessor.name.text)], forms.STRONG[case]
    phrase = []
    for attribute in thing.attributes:
        if attribute.degree is not None:
            phrase.append(attribute.degree.german)
        phrase.append(forms.adjective_form(attribute.adjective, endings, gender))
    noun = forms.noun_form(thing.noun, case, thing.plural)
    if thing.attributes:
        notes.add("adjective", f"{phrase[-1]} {noun}")
    if thing.plural:
        notes.add("plural", noun)
    words = [*words, *phrase, noun]
    if isinstance(thing.possessor, Thing):
        notes.add("genitive")
        words += noun_head(thing.possessor, "gen", notes)
    return words


def genitive_name(name: str) -> str:
    """Annas, Max'."""
    return name + ("'" if name.endswith(("s", "x", "z", "ß")) else "s")


def _determiner(thing: Thing, case: str, gender: str, negated: bool) -> list[str]:
    kind = thing.determiner
    if kind is Determiner.POSSESSIVE:
        assert thing.owner is not None
        return [forms.possessive(thing.owner, case, gender)]
    if kind is Determiner.NUMBER:
        return [times.german_number(thing.number)]
    word = forms.determiner(kind, case, gender, negated)
    return [word] if word else []


def prepositional(preposition: str, case: str, entity: Entity, notes: Notes) -> list[str]:
    """A preposition and its noun phrase, contracted with a definite article."""
    words = entity_words(entity, case, notes)
    definite = isinstance(entity, Thing) and entity.determiner is Determiner.DEFINITE
    if definite and not isinstance(entity.possessor if isinstance(entity, Thing) else None, Proper):
        return forms.contract(preposition, words)
    return [preposition, *words]


def location_words(location: Location, notes: Notes) -> list[str]:
    """im Garten, in den Garten."""
    if location.adverb is not None:
        return [location.adverb.german]
    place = location.place
    assert place is not None
    government = place.german_to if location.direction else place.german_at
    preposition, _, case = government.partition("+")
    return prepositional(preposition, case, Thing(place.noun), notes)


def relative_pronoun(thing: Thing) -> list[str]:
    """der, dem, auf den …: gender and number of the antecedent, case of the role."""
    assert thing.relative is not None
    role, clause = thing.relative.role, thing.relative.clause
    gender = gender_of(thing)
    if role is Role.SUBJECT:
        return [forms.RELATIVE["nom"][gender]]
    assert isinstance(clause.predicate, Action)
    verb: GermanVerb = clause.predicate.verb.german
    head, _, tail = verb.government.partition("+")
    if tail and head not in forms.CASES:
        return [head, forms.RELATIVE[tail][gender]]
    case = "acc" if tail else head
    return [forms.RELATIVE[case][gender]]
