"""The verbs of a German clause, and its parts before they are put in order."""

from dataclasses import dataclass, field

from data_prep.phrasebook import german_forms as forms
from data_prep.phrasebook.entries import GermanVerb
from data_prep.phrasebook.meaning import Action, Clause, Existence, Tense, agreement
from data_prep.phrasebook.text import Notes


@dataclass
class Parts:
    """The parts of a clause before they are put in order."""

    finite: str
    prefix: str
    right: list[str]
    pronouns: list[str] = field(default_factory=list)
    middle: list[list[str]] = field(default_factory=list)
    trailing: list[str] = field(default_factory=list)

    @property
    def field_words(self) -> list[str]:
        """The middle field, flat."""
        return [word for phrase in self.middle for word in phrase]


def _verb(clause: Clause) -> GermanVerb:
    if isinstance(clause.predicate, Action):
        return clause.predicate.verb.german
    return forms.GEBEN if isinstance(clause.predicate, Existence) else forms.SEIN


def verb_group(clause: Clause, notes: Notes) -> tuple[str, str, list[str]]:
    """Return finite verb, separable prefix or "", and infinitives and participles at the end."""
    verb = _verb(clause)
    person, plural = agreement(clause.subject)
    if isinstance(clause.predicate, Existence):
        person, plural = 3, False
    past = clause.tense is Tense.PAST
    stative = not isinstance(clause.predicate, Action) or clause.predicate.verb.aspect == "state"
    if clause.modal is not None:
        modal = forms.modal_verb(clause.modal)
        conjugate = forms.preterite if past else forms.present
        finite = conjugate(modal, person, plural)
        notes.add("modal", finite)
        return finite, "", [verb.infinitive]
    if clause.tense is Tense.FUTURE:
        finite = forms.present(forms.WERDEN, person, plural)
        notes.add("future", finite)
        return finite, "", [verb.infinitive]
    if clause.tense is Tense.PERFECT or (past and not stative):
        auxiliary = forms.SEIN if verb.auxiliary == "sein" else forms.HABEN
        finite = forms.present(auxiliary, person, plural)
        notes.add("perfect", verb.participle)
        if verb.auxiliary == "sein":
            notes.add("perfect_with_be", finite)
        if verb.prefix:
            notes.add("separable_verb", verb.participle)
        return finite, "", [verb.participle]
    if past:
        notes.add("preterite", forms.preterite(verb, person, plural))
        return forms.preterite(verb, person, plural), verb.prefix, []
    return forms.present(verb, person, plural), verb.prefix, []
