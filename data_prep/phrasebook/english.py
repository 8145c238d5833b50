"""Express a meaning as an English sentence."""

from data_prep.phrasebook.english_phrases import (
    article,
    entity_words,
    location_words,
    noun_phrase,
    time_words,
)
from data_prep.phrasebook.entries import Adjective, Adverb, EnglishVerb
from data_prep.phrasebook.meaning import (
    Action,
    Anaphor,
    Asked,
    Clause,
    Degree,
    Entity,
    Existence,
    Front,
    Identity,
    Indefinite,
    Link,
    Modal,
    Mood,
    Polarity,
    Pronoun,
    Quality,
    Realisation,
    Role,
    Sentence,
    Subordinate,
    Tense,
    Thing,
    agreement,
    is_asked,
)
from data_prep.phrasebook.text import Notes, sentence_text
from data_prep.phrasebook.words import split_words

LATE_FREQUENCY = frozenset({"again", "daily", "regularly"})
"""One-word adverbs that are placed at the end, as longer ones are."""

PARTICLES = frozenset(split_words("up off out away back down over"))
"""Particles follow a pronoun, as in *turn it off*; prepositions precede it, as in *look for it*."""

LINKS = {
    Link.BECAUSE: "because",
    Link.ALTHOUGH: "although",
    Link.THAT: "that",
    Link.WHETHER: "whether",
    Link.IF: "if",
    Link.WHEN: "when",
    Link.WHILE: "while",
    Link.AND: "and",
    Link.BUT: "but",
}

ASKED = {
    Asked.WHERE: "where",
    Asked.WHEN: "when",
    Asked.WHY: "why",
    Asked.HOW: "how",
    Asked.WHO: "who",
    Asked.WHAT: "what",
    Asked.WHOM: "who",
}

MODALS = {
    (Modal.CAN, False): ("can",),
    (Modal.CAN, True): ("could",),
    (Modal.MUST, False): ("must",),
    (Modal.SHOULD, False): ("should",),
    (Modal.WOULD_LIKE, False): ("would", "like", "to"),
}

CONTRACTED = {"can": "can't", "will": "won't", "am": "am not", "may": "may not"}

BE = EnglishVerb("be", "is", "was", "been", "being", "")


def realise(sentence: Sentence) -> Realisation:
    """Express a sentence in English."""
    notes = Notes()
    return Realisation(sentence_text(_sentence(sentence, notes), sentence.mood), notes.shown())


def _sentence(sentence: Sentence, notes: Notes) -> list[str]:
    clause = sentence.clause
    if sentence.mood is Mood.IMPERATIVE:
        words = _imperative(clause, notes)
        if sentence.please:
            words = ["please", *words]
    elif sentence.mood is Mood.QUESTION:
        words = _question(clause, sentence.asked, notes)
    else:
        words = _statement(clause, notes, sentence.front)
        if sentence.opening is not None:
            words = [sentence.opening.english, ",", *words]
    if sentence.subordinate is not None:
        extra = _subordinate(sentence.subordinate, notes)
        if sentence.front is Front.SUBORDINATE:
            return [*extra, ",", *words]
        words = [*words, *extra]
    if sentence.coordinate is not None:
        link = sentence.coordinate.link
        comma = [","] if link is Link.BUT else []
        words = [*words, *comma, LINKS[link], *_statement(sentence.coordinate.clause, notes)]
    return words


def _subordinate(subordinate: Subordinate, notes: Notes) -> list[str]:
    return [LINKS[subordinate.link], *_statement(subordinate.clause, notes)]


def _statement(clause: Clause, notes: Notes, front: Front = Front.SUBJECT) -> list[str]:
    subject = _subject_words(clause, notes)
    finite, rest, do = verb_group(clause, notes)
    frequency = _mid_adverbs(clause)
    if do and _negates(clause):
        words = [*subject, _do(clause, True), *frequency, _base(clause), *rest]
    elif do:
        words = [*subject, *frequency, finite, *rest]
    else:
        words = [*subject, _negated(finite) if _negates(clause) else finite, *frequency, *rest]
    if front is Front.TIME and clause.time is not None:
        return [*time_words(clause.time), ",", *words, *_tail(clause, notes, time=False)]
    if front is Front.PLACE and clause.place is not None:
        place = location_words(clause.place)
        return [*place, ",", *words, *_tail(clause, notes, place=False)]
    return [*words, *_tail(clause, notes)]


def _question(clause: Clause, asked: Asked, notes: Notes) -> list[str]:
    if asked is Asked.WHO:
        return ["who", *_statement(clause, notes)]
    finite, rest, do = verb_group(clause, notes)
    if do:
        finite, rest = _do(clause, _negates(clause)), [_base(clause), *rest]
    elif _negates(clause):
        finite = _negated(finite)
    opening = [] if asked is Asked.WHETHER else [ASKED[asked]]
    action = clause.predicate
    if isinstance(action, Action) and is_asked(action.direct):
        opening = noun_phrase(action.direct, notes)
    subject = _subject_words(clause, notes)
    middle = _mid_adverbs(clause)
    return [*opening, finite, *subject, *middle, *rest, *_tail(clause, notes)]


def _imperative(clause: Clause, notes: Notes) -> list[str]:
    assert isinstance(clause.predicate, Action)
    verb = clause.predicate.verb.english
    start = ["don't"] if _negates(clause) else []
    if clause.polarity is Polarity.NEVER:
        start = ["never"]
    return [*start, verb.base, *_tail(clause, notes)]


def _subject_words(clause: Clause, notes: Notes) -> list[str]:
    if isinstance(clause.predicate, Existence):
        return ["there"]
    return _with_relative(clause.subject, notes, subject=True)


def _negates(clause: Clause) -> bool:
    return clause.polarity in (Polarity.NOT, Polarity.NOT_YET)


def _negated(finite: str) -> str:
    return CONTRACTED.get(finite, finite + "n't")


def _mid_adverbs(clause: Clause) -> list[str]:
    words = []
    if clause.polarity is Polarity.NEVER:
        words.append("never")
    if clause.polarity is Polarity.NO_LONGER:
        words.append("no longer")
    if clause.tense is Tense.PERFECT and clause.polarity is Polarity.POSITIVE:
        words.append("already")
    if clause.frequency is not None and not _is_late(clause.frequency):
        words.append(clause.frequency.english)
    return words


def _is_late(adverb: Adverb) -> bool:
    return " " in adverb.english or adverb.english in LATE_FREQUENCY


def _third_singular(clause: Clause) -> bool:
    person, plural = agreement(clause.subject)
    if isinstance(clause.predicate, Existence):
        return not clause.predicate.thing.plural
    return person == 3 and not plural


def _verb(clause: Clause) -> EnglishVerb:
    return clause.predicate.verb.english if isinstance(clause.predicate, Action) else BE


def _base(clause: Clause) -> str:
    # The verb after *do* may be *want* or *have*, which express a modal.
    if clause.modal is Modal.WANT:
        return "want"
    if clause.modal is Modal.MUST and clause.tense is Tense.PAST:
        return "have"
    return _verb(clause).base


def _do(clause: Clause, negated: bool) -> str:
    form = "do"
    if clause.tense is Tense.PAST:
        form = "did"
    elif _third_singular(clause):
        form = "does"
    return form + "n't" if negated else form


def _be(clause: Clause) -> str:
    person, plural = agreement(clause.subject)
    if isinstance(clause.predicate, Existence):
        person, plural = 3, clause.predicate.thing.plural
    if clause.tense is Tense.PAST:
        return "were" if plural or person == 2 else "was"
    return "are" if plural or person == 2 else "am" if person == 1 else "is"


def verb_group(clause: Clause, notes: Notes) -> tuple[str, list[str], bool]:
    """Return the verb of a clause.

    Returns:
        The finite verb, the words that follow it, and whether it needs *do* for a negation
        or a question.
    """
    verb, third = _verb(clause), _third_singular(clause)
    past = clause.tense is Tense.PAST
    if clause.modal is not None:
        return _modal_group(clause, verb, third, past, notes)
    if clause.tense is Tense.FUTURE:
        notes.add("future", "will" if clause.polarity is Polarity.POSITIVE else "")
        return "will", [verb.base], False
    if clause.tense is Tense.PERFECT:
        notes.add("perfect", verb.participle)
        return "has" if third else "have", [verb.participle], False
    if clause.tense is Tense.PROGRESSIVE:
        notes.add("progressive", verb.ing)
        return _be(clause), [verb.ing], False
    if verb is BE:
        return _be(clause), [], False
    if past:
        notes.add("past", "" if _negates(clause) else verb.past)
    return verb.past if past else verb.third if third else verb.base, [], True


def _modal_group(
    clause: Clause, verb: EnglishVerb, third: bool, past: bool, notes: Notes
) -> tuple[str, list[str], bool]:
    assert clause.modal is not None
    if clause.modal is Modal.MAY:
        notes.add("modal", "allowed to")
        return _be(clause), ["allowed", "to", verb.base], False
    if clause.modal is Modal.WANT:
        notes.add("modal", "")
        return "wanted" if past else "wants" if third else "want", ["to", verb.base], True
    if clause.modal is Modal.MUST and past:
        notes.add("modal", "had to" if clause.polarity is Polarity.POSITIVE else "")
        return "had", ["to", verb.base], True
    finite, *rest = MODALS[clause.modal, past and clause.modal is Modal.CAN]
    notes.add("modal", finite if clause.polarity is Polarity.POSITIVE else "")
    return finite, [*rest, verb.base], False


def _tail(clause: Clause, notes: Notes, time: bool = True, place: bool = True) -> list[str]:
    """Return the words after the verb."""
    words: list[str] = []
    predicate = clause.predicate
    if isinstance(predicate, Action):
        words += _objects(predicate, clause, notes)
        if predicate.manner is not None:
            words.append(predicate.manner.english)
        if predicate.companion is not None:
            words += ["with", *entity_words(predicate.companion, notes)]
        if predicate.goal is not None:
            words += location_words(predicate.goal)
    elif isinstance(predicate, Quality):
        words += _quality(predicate, notes)
    elif isinstance(predicate, Identity):
        words += [article(predicate.noun.english.singular), predicate.noun.english.singular]
    elif isinstance(predicate, Existence):
        words += noun_phrase(predicate.thing, notes, negated=_negates(clause))
    if place and clause.place is not None:
        words += location_words(clause.place)
    if clause.frequency is not None and _is_late(clause.frequency):
        words.append(clause.frequency.english)
    if time and clause.time is not None:
        words += time_words(clause.time)
    if clause.polarity is Polarity.NOT_YET:
        words.append("yet")
    if isinstance(predicate, Action) and predicate.content is not None:
        words += _subordinate(predicate.content, notes)
    return words


def _objects(action: Action, clause: Clause, notes: Notes) -> list[str]:
    verb, negated = action.verb.english, _negates(clause)
    direct = [] if action.direct is None else _with_relative(action.direct, notes, negated=negated)
    if is_asked(action.direct):
        direct = []
    if action.verb.frame == "ditransitive":
        recipient = [] if action.recipient is None else entity_words(action.recipient, notes)
        if verb.complement and recipient:
            return [*direct, verb.complement, *recipient]
        return [*recipient, *direct]
    if not verb.complement:
        return direct
    if is_particle(action) and isinstance(action.direct, (Pronoun, Anaphor, Indefinite)):
        return [*direct, verb.complement]
    return [verb.complement, *direct]


def is_particle(action: Action) -> bool:
    """Return whether the complement of the verb is a particle (*turn on*), not a preposition."""
    complement = action.verb.english.complement
    if complement in ("on", "in"):
        return action.verb.frame == "transitive"
    return complement in PARTICLES


def _quality(quality: Quality, notes: Notes) -> list[str]:
    adjective = quality.adjective.english
    if quality.degree is Degree.TOO:
        return ["too", adjective.positive]
    if quality.than is None:
        degree = [] if quality.adverb is None else [quality.adverb.english]
        return [*degree, adjective.positive]
    than = entity_words(quality.than, notes)
    if quality.degree is Degree.AS_AS:
        notes.add("comparison", f"as {adjective.positive} as")
        return ["as", adjective.positive, "as", *than]
    notes.add("comparison", f"{comparative(quality.adjective)} than")
    return [comparative(quality.adjective), "than", *than]


def comparative(adjective: Adjective) -> str:
    """The comparative: *bigger*, *more beautiful*."""
    return adjective.english.comparative or f"more {adjective.english.positive}"


def _with_relative(
    entity: Entity, notes: Notes, subject: bool = False, negated: bool = False
) -> list[str]:
    words = entity_words(entity, notes, subject, negated)
    if isinstance(entity, Thing) and entity.relative is not None:
        words += relative_words(entity, notes)
    return words


def relative_words(thing: Thing, notes: Notes) -> list[str]:
    """A relative clause, without commas."""
    assert thing.relative is not None
    is_subject = thing.relative.role is Role.SUBJECT
    pronoun = "who" if is_subject and "person" in thing.noun.classes else "that"
    return [pronoun, *_statement(thing.relative.clause, notes)]
