"""Express a meaning as a French sentence.

The order of a clause is: subject, ne, clitics, finite verb, pas, short adverbs, participle or
infinitive, direct object, indirect object, manner, location, time. Clitics precede the verb whose
objects they are, such as the infinitive after a modal verb; in an imperative they follow it after a
hyphen.
"""

import re

from data_prep.phrasebook import french_forms as forms
from data_prep.phrasebook import times
from data_prep.phrasebook.entries import Adverb
from data_prep.phrasebook.french_phrases import (
    entity_words,
    features,
    is_clitic,
    location_words,
    noun_head,
    prepositional,
    relative_pronoun,
    subject_word,
)
from data_prep.phrasebook.french_verbs import verb_core
from data_prep.phrasebook.meaning import (
    Action,
    Anaphor,
    Asked,
    Clause,
    Degree,
    Entity,
    Existence,
    Front,
    Gap,
    Identity,
    Indefinite,
    Link,
    Mood,
    Polarity,
    Pronoun,
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
    Link.BECAUSE: "parce que",
    Link.ALTHOUGH: "bien que",
    Link.THAT: "que",
    Link.WHETHER: "si",
    Link.IF: "si",
    Link.WHEN: "quand",
    Link.WHILE: "pendant que",
    Link.AND: "et",
    Link.BUT: "mais",
}
ASKED = {
    Asked.WHERE: "où",
    Asked.WHEN: "quand",
    Asked.WHY: "pourquoi",
    Asked.HOW: "comment",
    Asked.WHAT: "que",
    Asked.WHOM: "qui",
}
NEGATIONS = {
    Polarity.NOT: "pas",
    Polarity.NEVER: "jamais",
    Polarity.NOT_YET: "pas encore",
    Polarity.NO_LONGER: "plus",
}
ELIDED = re.compile(r"(?:[jmtsldn]|qu)'", re.IGNORECASE)
LONG_WORDS = frozenset({"d'habitude"})
"""One-word adverbs that are placed at the end, as longer ones are."""


def realise(sentence: Sentence) -> Realisation:
    """Express a sentence in French."""
    notes = Notes()
    words = forms.elide(_sentence(sentence, notes))
    if any(ELIDED.match(word) for word in words):
        notes.add("elision")
    return Realisation(sentence_text(words, sentence.mood, True), notes.shown())


def _sentence(sentence: Sentence, notes: Notes) -> list[str]:
    clause = sentence.clause
    if sentence.mood is Mood.IMPERATIVE:
        words = _imperative(clause, notes)
        return [*words, ",", "s'il te plaît"] if sentence.please else words
    if sentence.mood is Mood.QUESTION:
        words = _question(clause, sentence.asked, notes)
    else:
        words = _statement(sentence, notes)
    if sentence.subordinate is not None:
        extra = subordinate_words(sentence.subordinate, notes)
        if sentence.front is Front.SUBORDINATE:
            return [*extra, ",", *words]
        words = [*words, *extra]
    if sentence.coordinate is not None:
        comma = [","] if sentence.coordinate.link is Link.BUT else []
        second = clause_words(sentence.coordinate.clause, notes)
        words = [*words, *comma, LINKS[sentence.coordinate.link], *second]
    return words


def _statement(sentence: Sentence, notes: Notes) -> list[str]:
    clause, opening = sentence.clause, sentence.opening
    if sentence.front is Front.TIME and clause.time is not None:
        return [*time_words(clause), ",", *clause_words(clause, notes, skip_time=True)]
    if sentence.front is Front.PLACE and clause.place is not None:
        place = location_words(clause.place, notes)
        return [*place, ",", *clause_words(clause, notes, skip_place=True)]
    if opening is not None:
        if opening.french == "peut-être":
            return clause_words(clause, notes, adverb=opening.french)
        return [opening.french, ",", *clause_words(clause, notes)]
    return clause_words(clause, notes)


def clause_words(
    clause: Clause,
    notes: Notes,
    skip_time: bool = False,
    skip_place: bool = False,
    adverb: str = "",
    subjunctive: bool = False,
    subject: bool = True,
) -> list[str]:
    """A clause in the order of a statement."""
    words = _subject(clause, notes) if subject else []
    words += _verbs(clause, notes, adverb, subjunctive)
    return [*words, *_tail(clause, notes, skip_time, skip_place)]


def _question(clause: Clause, asked: Asked, notes: Notes) -> list[str]:
    if asked is Asked.WHO:
        return ["qui", *clause_words(clause, notes, subject=False)]
    if asked is Asked.WHETHER:
        return ["est-ce que", *clause_words(clause, notes)]
    action = clause.predicate
    if isinstance(action, Action) and isinstance(action.direct, Thing):
        opening = noun_head(action.direct, notes) if is_asked(action.direct) else [ASKED[asked]]
        return [*opening, "est-ce que", *clause_words(clause, notes)]
    if asked in (Asked.WHERE, Asked.HOW) and not isinstance(action, Action):
        # A short verb is inverted with its subject: "Où est ma clé ?"
        finite = _verbs(clause, notes, "", False)
        inverted = isinstance(clause.subject, (Pronoun, Anaphor))
        joint = f"{finite[0]}-{subject_word(clause.subject)}" if inverted else ""
        return [ASKED[asked], *([joint] if joint else [*finite, *_subject(clause, notes)])]
    return [ASKED[asked], "est-ce que", *clause_words(clause, notes)]


def _imperative(clause: Clause, notes: Notes) -> list[str]:
    action = clause.predicate
    assert isinstance(action, Action)
    verb = forms.imperative(action.verb.french)
    clitics = _clitics(clause, notes)
    if clause.polarity is not Polarity.POSITIVE:
        word = NEGATIONS[clause.polarity]
        notes.add("negation", word)
        return ["ne", *clitics, verb, word, *_tail(clause, notes)]
    stressed = [{"me": "moi", "te": "toi"}.get(clitic, clitic) for clitic in clitics]
    return ["-".join([verb, *stressed]), *_tail(clause, notes)]


def subordinate_words(subordinate: Subordinate, notes: Notes) -> list[str]:
    """A subordinate clause with its conjunction; *bien que* takes the subjunctive."""
    link, clause = LINKS[subordinate.link], subordinate.clause
    concessive = subordinate.link is Link.ALTHOUGH
    if concessive:
        notes.add("subjunctive")
    words = clause_words(clause, notes, subjunctive=concessive)
    name = f"{subordinate.link.name.lower()}_clause"
    pronoun = isinstance(clause.subject, (Pronoun, Anaphor))
    notes.add(name, " ".join(forms.elide([link, words[0]])) if pronoun else link)
    return [link, *words]


def relative_words(thing: Thing, notes: Notes) -> list[str]:
    """A relative clause, without commas."""
    assert thing.relative is not None
    pronoun = relative_pronoun(thing)
    clause = thing.relative.clause
    notes.add("relative_clause", "" if pronoun == ["que"] else " ".join(pronoun))
    return [*pronoun, *clause_words(clause, notes, subject=not isinstance(clause.subject, Gap))]


def time_words(clause: Clause) -> list[str]:
    """The words of the time expression, if there is one."""
    if clause.time is None:
        return []
    return [clause.time.adverb.french if clause.time.adverb else times.french(clause.time)]


def _subject(clause: Clause, notes: Notes) -> list[str]:
    if isinstance(clause.predicate, Existence):
        return ["il"]
    entity = clause.subject
    if isinstance(entity, (Pronoun, Anaphor)) or entity is Indefinite.IT:
        return [subject_word(entity)]
    words = entity_words(entity, notes)
    if isinstance(entity, Thing) and entity.relative is not None:
        words = [*words, *relative_words(entity, notes)]
    return words


def _verbs(clause: Clause, notes: Notes, adverb: str, subjunctive: bool) -> list[str]:
    """Return ne, clitics, verbs, pas and short adverbs, in order."""
    verbs = verb_core(clause, notes, subjunctive)
    clitics = _clitics(clause, notes)
    if isinstance(clause.predicate, Existence):
        clitics = ["y"]
    middle: list[str] = []
    ne: list[str] = []
    nobody = clause.subject is Indefinite.NOBODY
    if clause.polarity is not Polarity.POSITIVE or nobody:
        ne = ["ne"]
    if clause.polarity is not Polarity.POSITIVE:
        word = NEGATIONS[clause.polarity]
        if _nothing(clause):
            word = "rien"
        notes.add("negation", word)
        middle.append(word)
    elif clause.tense is Tense.PERFECT:
        middle.append("déjà")
    if clause.frequency is not None and _is_short(clause.frequency):
        middle.append(clause.frequency.french)
    if adverb:
        middle.append(adverb)
    if verbs.clitics_on_rest:
        *openers, infinitive = verbs.rest
        return [*ne, verbs.finite, *middle, *openers, *clitics, infinitive]
    return [*ne, *clitics, verbs.finite, *middle, *verbs.rest]


def _nothing(clause: Clause) -> bool:
    action = clause.predicate
    if not isinstance(action, Action) or clause.polarity is not Polarity.NOT:
        return False
    return action.direct is Indefinite.SOMETHING


def _clitics(clause: Clause, notes: Notes) -> list[str]:
    """Return reflexive and object pronouns: me te se nous, then le la les, then lui leur."""
    action = clause.predicate
    if not isinstance(action, Action):
        return []
    first: list[str] = []
    verb = action.verb.french
    if verb.reflexive:
        first.append(forms.REFLEXIVE.get(agreement(clause.subject), "se"))
        notes.add("reflexive_verb", "")
    direct = indirect = ""
    if is_clitic(action.direct) and action.direct is not None:
        person, plural = agreement(action.direct)
        if verb.government.startswith("direct"):
            gender, _ = features(action.direct)
            direct = forms.DIRECT[person, plural]
            direct = "la" if direct == "le" and gender == "f" else direct
        elif _takes_dative_clitic(action):
            indirect = forms.INDIRECT[person, plural]
    if is_clitic(action.recipient) and action.recipient is not None:
        indirect = forms.INDIRECT[agreement(action.recipient)]
    if direct or indirect:
        notes.add("object_pronoun")
    if indirect in ("me", "te", "nous"):
        return [*first, indirect, *([direct] if direct else [])]
    return [*first, *[word for word in (direct, indirect) if word]]


def _takes_dative_clitic(action: Action) -> bool:
    """Return whether *à* with a person becomes *lui*; with reflexive verbs it is *à lui*."""
    verb = action.verb.french
    return verb.government == "à" and not verb.reflexive


def _is_short(adverb: Adverb) -> bool:
    """Return whether an adverb is next to the verb: *souvent*, but not *à la hâte*."""
    return " " not in adverb.french and adverb.french not in LONG_WORDS


def _tail(
    clause: Clause, notes: Notes, skip_time: bool = False, skip_place: bool = False
) -> list[str]:
    """Return the words after the verbs."""
    predicate = clause.predicate
    words: list[str] = []
    late: list[str] = []
    if clause.frequency is not None and not _is_short(clause.frequency):
        late.append(clause.frequency.french)
    if isinstance(predicate, Action):
        manner = [] if predicate.manner is None else [predicate.manner.french]
        # A single word is placed next to the verb, a phrase after the objects.
        short = predicate.manner is not None and _is_short(predicate.manner)
        words += manner if short else []
        words += _objects(predicate, clause, notes)
        words += [] if short else manner
        if predicate.companion is not None:
            words += ["avec", *entity_words(predicate.companion, notes)]
        if predicate.goal is not None:
            words += location_words(predicate.goal, notes)
    elif isinstance(predicate, Quality):
        words += _quality(predicate, clause.subject, notes)
    elif isinstance(predicate, Identity):
        words.append(predicate.noun.french.singular)
    elif isinstance(predicate, Existence):
        words += noun_head(predicate.thing, notes, clause.polarity is not Polarity.POSITIVE)
    if clause.place is not None and not skip_place:
        words += location_words(clause.place, notes)
    words += late
    if not skip_time:
        words += time_words(clause)
    if isinstance(predicate, Action) and predicate.content is not None:
        words += subordinate_words(predicate.content, notes)
    return words


def _objects(action: Action, clause: Clause, notes: Notes) -> list[str]:
    words: list[str] = []
    verb, direct, recipient = action.verb.french, action.direct, action.recipient
    negated = clause.polarity is not Polarity.POSITIVE
    head, _, tail = verb.government.partition("+")
    if direct is not None and not is_asked(direct) and not isinstance(direct, Gap):
        if head == "direct":
            if not is_clitic(direct) and not _nothing(clause):
                words += entity_words(direct, notes, negated)
        elif not (is_clitic(direct) and _takes_dative_clitic(action)):
            words += prepositional(head, direct, notes)
    if recipient is not None and not is_clitic(recipient):
        notes.add("dative")
        words += prepositional(tail or "à", recipient, notes)
    if isinstance(direct, Thing) and direct.relative is not None:
        words += relative_words(direct, notes)
    return words


def _quality(quality: Quality, subject: Entity, notes: Notes) -> list[str]:
    word = forms.adjective(quality.adjective, *features(subject))
    if quality.degree is Degree.TOO:
        return ["trop", word]
    if quality.than is None:
        degree = [] if quality.adverb is None else [quality.adverb.french]
        return [*degree, word]
    than = entity_words(quality.than, notes)
    adverb = "aussi" if quality.degree is Degree.AS_AS else "plus"
    notes.add("comparison", f"{adverb} {word}")
    return [adverb, word, "que", *than]
