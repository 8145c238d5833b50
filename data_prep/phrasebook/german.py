"""Express a meaning as a German sentence.

A clause has two brackets. The left one is the finite verb, or the conjunction of a verb-final
clause; the right one contains prefix, participle and infinitive. Between them is the middle field,
in this order: pronouns, time, dative, accusative, negation, manner, location, and last the
constituent that is closest to the verb. With *nicht*, time follows the accusative; after *sein* and
*es gibt*, the location is last.
"""

from data_prep.phrasebook import german_forms as forms
from data_prep.phrasebook import times
from data_prep.phrasebook.german_phrases import (
    entity_words,
    is_pronoun,
    location_words,
    noun_head,
    prepositional,
    relative_pronoun,
)
from data_prep.phrasebook.german_verbs import Parts, verb_group
from data_prep.phrasebook.meaning import (
    Action,
    Asked,
    Clause,
    Degree,
    Determiner,
    Entity,
    Existence,
    Front,
    Gap,
    Identity,
    Indefinite,
    Link,
    Mood,
    Polarity,
    Quality,
    Realisation,
    Sentence,
    Subordinate,
    Tense,
    Thing,
    agreement,
    is_asked,
)
from data_prep.phrasebook.text import Notes, sentence_text

LINKS = {
    Link.BECAUSE: "weil",
    Link.ALTHOUGH: "obwohl",
    Link.THAT: "dass",
    Link.WHETHER: "ob",
    Link.IF: "wenn",
    Link.WHEN: "als",
    Link.WHILE: "während",
    Link.AND: "und",
    Link.BUT: "aber",
}
ASKED = {
    Asked.WHERE: "wo",
    Asked.WHEN: "wann",
    Asked.WHY: "warum",
    Asked.HOW: "wie",
    Asked.WHO: "wer",
    Asked.WHAT: "was",
    Asked.WHOM: "wen",
}
NEGATIONS = {
    Polarity.NOT: "nicht",
    Polarity.NEVER: "nie",
    Polarity.NOT_YET: "noch nicht",
    Polarity.NO_LONGER: "nicht mehr",
}
EMPTY = (Determiner.INDEFINITE, Determiner.BARE)


def realise(sentence: Sentence) -> Realisation:
    """Express a sentence in German."""
    notes = Notes()
    return Realisation(sentence_text(_sentence(sentence, notes), sentence.mood), notes.shown())


def _sentence(sentence: Sentence, notes: Notes) -> list[str]:
    clause = sentence.clause
    if sentence.mood is Mood.IMPERATIVE:
        words = _imperative(clause, notes)
        words = ["bitte", *words] if sentence.please else words
    elif sentence.mood is Mood.QUESTION:
        words = _question(clause, sentence.asked, notes)
    elif sentence.front is Front.SUBORDINATE and sentence.subordinate is not None:
        opening = subordinate_words(sentence.subordinate, notes)
        return [*opening, ",", *_verb_second(clause, notes, [], inverted=True)]
    else:
        words = _statement(clause, notes, sentence)
    if sentence.subordinate is not None:
        words = [*words, ",", *subordinate_words(sentence.subordinate, notes)]
    if sentence.coordinate is not None:
        comma = [","] if sentence.coordinate.link is Link.BUT or "," in words else []
        second = _statement(sentence.coordinate.clause, notes, None)
        words = [*words, *comma, LINKS[sentence.coordinate.link], *second]
    return words


def _statement(clause: Clause, notes: Notes, sentence: Sentence | None) -> list[str]:
    front = Front.SUBJECT if sentence is None else sentence.front
    opening: list[str] = []
    if sentence is not None and sentence.opening is not None:
        opening = [sentence.opening.german]
    elif front is Front.TIME and clause.time is not None:
        opening = time_words(clause)
    elif front is Front.PLACE and clause.place is not None:
        opening = location_words(clause.place, notes)
    if opening:
        return _verb_second(clause, notes, opening, inverted=True, front=front)
    return _verb_second(clause, notes, _subject(clause, notes), inverted=False)


def _verb_second(
    clause: Clause,
    notes: Notes,
    opening: list[str],
    inverted: bool,
    front: Front = Front.SUBJECT,
) -> list[str]:
    parts = clause_parts(clause, notes, front)
    if inverted:
        marker = f"{parts.finite} {_subject(clause, Notes())[0]}"
        notes.add("verb_second", marker if is_pronoun(clause.subject) else "")
    return [*opening, *_finite_first(clause, parts, notes, inverted)]


def _finite_first(clause: Clause, parts: Parts, notes: Notes, with_subject: bool) -> list[str]:
    """Return the clause from its finite verb on, ``with_subject`` after the verb."""
    words = [parts.finite]
    if with_subject:
        words += _subject_and_pronouns(clause, parts, notes)
    else:
        words += parts.pronouns
    if parts.prefix:
        notes.add("separable_verb", parts.finite)
        notes.add("separable_verb", parts.prefix)
    return [*words, *parts.field_words, *parts.right, parts.prefix, *parts.trailing]


def _subject_and_pronouns(clause: Clause, parts: Parts, notes: Notes) -> list[str]:
    subject = _subject(clause, notes)
    short = is_pronoun(clause.subject) or isinstance(clause.predicate, Existence)
    # "Gestern hat sich der Mann gewaschen": a reflexive pronoun precedes a noun.
    if parts.pronouns == ["sich"] and not short:
        return [*parts.pronouns, *subject]
    return [*subject, *parts.pronouns]


def _question(clause: Clause, asked: Asked, notes: Notes) -> list[str]:
    parts = clause_parts(clause, notes)
    if asked is Asked.WHO:
        return [ASKED[asked], *_finite_first(clause, parts, notes, with_subject=False)]
    opening = [] if asked is Asked.WHETHER else [ASKED[asked]]
    action = clause.predicate
    if asked is Asked.WHERE and isinstance(action, Action) and action.verb.frame == "motion":
        opening = ["wohin"]
    if isinstance(action, Action) and is_asked(action.direct):
        opening = noun_head(action.direct, "acc", notes)
    return [*opening, *_finite_first(clause, parts, notes, with_subject=True)]


def _imperative(clause: Clause, notes: Notes) -> list[str]:
    assert isinstance(clause.predicate, Action)
    verb = clause.predicate.verb.german
    parts = clause_parts(clause, notes)
    parts.finite = verb.imperative
    if verb.prefix:
        notes.add("separable_verb", verb.imperative)
        notes.add("separable_verb", verb.prefix)
    words = [parts.finite, *parts.pronouns, *parts.field_words]
    return [*words, *parts.right, parts.prefix, *parts.trailing]


def subordinate_words(subordinate: Subordinate, notes: Notes) -> list[str]:
    """A subordinate clause from its conjunction to its verb, without commas around it."""
    link = LINKS[subordinate.link]
    clause = subordinate.clause
    words = [link, *verb_final(clause, notes)]
    subject = _subject(clause, Notes())
    if is_pronoun(clause.subject):
        notes.add(f"{subordinate.link.name.lower()}_clause", f"{link} {subject[0]}")
    else:
        notes.add(f"{subordinate.link.name.lower()}_clause", link)
    return words


def verb_final(clause: Clause, notes: Notes, with_subject: bool = True) -> list[str]:
    """A clause with its finite verb at the end."""
    parts = clause_parts(clause, notes)
    words = _subject_and_pronouns(clause, parts, notes) if with_subject else [*parts.pronouns]
    verb = [*parts.right, parts.prefix + parts.finite]
    notes.add("verb_final", " ".join(verb))
    return [*words, *parts.field_words, *verb, *parts.trailing]


def relative_words(thing: Thing, notes: Notes) -> list[str]:
    """A relative clause with the comma before it and the one after."""
    assert thing.relative is not None
    clause = thing.relative.clause
    pronoun = relative_pronoun(thing)
    subject_missing = isinstance(clause.subject, Gap)
    notes.add("relative_clause", " ".join(pronoun))
    return [",", *pronoun, *verb_final(clause, notes, with_subject=not subject_missing), ","]


def time_words(clause: Clause) -> list[str]:
    """The words of the time expression, if there is one."""
    if clause.time is None:
        return []
    return [clause.time.adverb.german if clause.time.adverb else times.german(clause.time)]


def _subject(clause: Clause, notes: Notes) -> list[str]:
    if isinstance(clause.predicate, Existence):
        return ["es"]
    words = entity_words(clause.subject, "nom", notes)
    if isinstance(clause.subject, Thing) and clause.subject.relative is not None:
        words = [*words, *relative_words(clause.subject, notes)]
    return words


def clause_parts(clause: Clause, notes: Notes, front: Front = Front.SUBJECT) -> Parts:
    """Build both brackets and the middle field."""
    parts = Parts(*verb_group(clause, notes))
    if not _uses_nicht(clause):
        parts.middle.append(_when(clause, notes, front))
    if clause.frequency is not None:
        parts.middle.append([clause.frequency.german])
    place: list[str] = []
    if clause.place is not None and front is not Front.PLACE:
        place = location_words(clause.place, notes)
    predicate = clause.predicate
    if isinstance(predicate, Action):
        when = _when(clause, notes, front) if _uses_nicht(clause) else []
        _action(clause, predicate, parts, when, place, notes)
    else:
        _state(clause, parts, place, notes)
    return parts


def _uses_nicht(clause: Clause) -> bool:
    """Return whether *nicht* is used; it follows the time: "das Buch heute nicht"."""
    predicate = clause.predicate
    if clause.polarity is not Polarity.NOT or not isinstance(predicate, Action):
        return False
    return not _is_empty(predicate)


def _when(clause: Clause, notes: Notes, front: Front) -> list[str]:
    words = []
    if clause.tense is Tense.PROGRESSIVE:
        notes.add("progressive", "gerade")
        words.append("gerade")
    return words if front is Front.TIME else [*words, *time_words(clause)]


def _negation(clause: Clause, empty: bool, notes: Notes) -> list[str]:
    """Return the words of the negation; none if *kein* or *nichts* expresses it.

    A positive perfect has *schon*, in the same position unless an indefinite object follows it.
    """
    if clause.polarity is Polarity.POSITIVE:
        return ["schon"] if clause.tense is Tense.PERFECT else []
    if empty and clause.polarity is Polarity.NOT:
        notes.add("negation")
        return []
    word = NEGATIONS[clause.polarity]
    notes.add("negation", word)
    return [word]


def _state(clause: Clause, parts: Parts, place: list[str], notes: Notes) -> None:
    predicate, negated = clause.predicate, clause.polarity is Polarity.NOT
    empty = isinstance(predicate, (Identity, Existence)) and negated
    negation = _negation(clause, empty, notes)
    if isinstance(predicate, Existence):
        head = noun_head(predicate.thing, "acc", notes, negated)
        parts.middle += [negation, head, place]
        return
    parts.middle.append(negation)
    if isinstance(predicate, Quality):
        parts.middle.append(_quality(predicate, notes))
    elif isinstance(predicate, Identity):
        noun = predicate.noun.german.nominative
        ending = "e" if predicate.noun.german.gender == "f" else ""
        parts.middle.append(["kein" + ending, noun] if empty else [noun])
    parts.middle.append(place)


def _quality(quality: Quality, notes: Notes) -> list[str]:
    adjective = quality.adjective.german
    if quality.degree is Degree.TOO:
        return ["zu", adjective.positive]
    if quality.than is None:
        degree = [] if quality.adverb is None else [quality.adverb.german]
        return [*degree, adjective.positive]
    than = entity_words(quality.than, "nom", notes)
    if quality.degree is Degree.AS_AS:
        notes.add("comparison", f"so {adjective.positive} wie")
        return ["so", adjective.positive, "wie", *than]
    notes.add("comparison", f"{adjective.comparative} als")
    return [adjective.comparative, "als", *than]


def _action(
    clause: Clause,
    action: Action,
    parts: Parts,
    when: list[str],
    place: list[str],
    notes: Notes,
) -> None:
    """Fill the middle field of an action; `when` is its time if the clause uses *nicht*."""
    _reflexive(clause, action, parts, notes)
    if action.recipient is not None:
        notes.add("dative")
        _place_object(action.recipient, "dat", parts, notes)
    late = _direct_object(clause, action, parts, notes)
    negated = clause.polarity is Polarity.NOT
    empty = negated and _is_empty(action)
    negation = _negation(clause, empty, notes)
    if negation == ["schon"] and isinstance(action.direct, Indefinite):
        parts.middle.insert(len(parts.middle) - 1, negation)
        negation = []
    parts.middle += [when, negation]
    if action.companion is not None:
        notes.add("dative")
        parts.middle.append(prepositional("mit", "dat", action.companion, notes))
    if action.manner is not None:
        parts.middle.append([action.manner.german])
    parts.middle += [place, late]
    if action.goal is not None:
        parts.middle.append(location_words(action.goal, notes))
    _add_relative(action.direct, parts, notes)
    if action.content is not None:
        parts.trailing += [",", *subordinate_words(action.content, notes)]


def _direct_object(clause: Clause, action: Action, parts: Parts, notes: Notes) -> list[str]:
    """Add the object to the middle field, or return it if its position is late in it."""
    direct = action.direct
    if direct is None or is_asked(direct) or isinstance(direct, Gap):
        return []
    negated = clause.polarity is Polarity.NOT
    case, preposition = _cases(action.verb.german.government)
    if preposition:
        return prepositional(preposition, case, direct, notes)
    if action.verb.frame == "ditransitive":
        case = "acc"
    if case == "dat":
        notes.add("dative")
    if isinstance(direct, Thing) and direct.determiner in EMPTY:
        return noun_head(direct, case, notes, negated)
    if direct is Indefinite.SOMETHING and negated:
        notes.add("negation", "nichts")
        return ["nichts"]
    _place_object(direct, case, parts, notes)
    return []


def _add_relative(direct: Entity | None, parts: Parts, notes: Notes) -> None:
    """Put the relative clause of the object after the right bracket."""
    if isinstance(direct, Thing) and direct.relative is not None:
        parts.trailing += relative_words(direct, notes)


def _is_empty(action: Action) -> bool:
    """Return whether *kein* or *nichts* negates the object; after a preposition, *nicht* does."""
    direct = action.direct
    _, preposition = _cases(action.verb.german.government)
    if preposition:
        return False
    if isinstance(direct, Thing):
        return direct.determiner in EMPTY
    return direct is Indefinite.SOMETHING


def _cases(government: str) -> tuple[str, str]:
    """Split the government of a verb into the case of its object and a preposition, or ""."""
    head, _, tail = government.partition("+")
    if tail and head not in forms.CASES:
        return tail, head
    return head or "acc", ""


def _reflexive(clause: Clause, action: Action, parts: Parts, notes: Notes) -> None:
    kind = action.verb.german.reflexive
    if kind:
        person, plural = agreement(clause.subject)
        word = forms.reflexive(person, plural, kind)
        notes.add("reflexive_verb", word)
        parts.pronouns.append(word)


def _place_object(entity: Entity, case: str, parts: Parts, notes: Notes) -> None:
    words = entity_words(entity, case, notes)
    if is_pronoun(entity):
        notes.add("object_pronoun", words[0])
        # The accusative pronoun precedes the dative one: "Ich gebe es ihm."
        parts.pronouns = [*words, *parts.pronouns] if case == "acc" else [*parts.pronouns, *words]
    else:
        parts.middle.append(words)
