"""The verbs of a French clause: tense, auxiliary and the agreement of the participle."""

from dataclasses import dataclass

from data_prep.phrasebook import french_forms as forms
from data_prep.phrasebook.entries import FrenchVerb
from data_prep.phrasebook.french_phrases import features, is_clitic
from data_prep.phrasebook.meaning import (
    Action,
    Clause,
    Existence,
    Gap,
    Modal,
    Tense,
    agreement,
    is_asked,
)
from data_prep.phrasebook.text import Notes


@dataclass
class Core:
    """The verbs of a clause: the finite verb, and participle or infinitive."""

    finite: str
    rest: list[str]
    clitics_on_rest: bool
    """Whether the clitics belong to the infinitive at the end of ``rest``."""


def _verb(clause: Clause) -> FrenchVerb:
    if isinstance(clause.predicate, Action):
        return clause.predicate.verb.french
    return forms.AVOIR if isinstance(clause.predicate, Existence) else forms.ETRE


def _auxiliary(verb: FrenchVerb) -> FrenchVerb:
    return forms.ETRE if verb.reflexive or verb.auxiliary == "être" else forms.AVOIR


def verb_core(clause: Clause, notes: Notes, subjunctive: bool) -> Core:
    """The verbs of a clause in their tense."""
    verb = _verb(clause)
    index = forms.person_index(*agreement(clause.subject))
    past = clause.tense is Tense.PAST
    stative = not isinstance(clause.predicate, Action) or clause.predicate.verb.aspect == "state"
    if clause.modal is not None:
        return _modal(clause, clause.modal, index, past, notes)
    if clause.tense is Tense.FUTURE:
        notes.add("future", forms.future(verb, index))
        return Core(forms.future(verb, index), [], False)
    if clause.tense is Tense.PERFECT or (past and not stative):
        form = participle(clause)
        notes.add("perfect", form)
        if form != verb.participle:
            notes.add("participle_agreement", form)
        auxiliary = _auxiliary(verb)
        if auxiliary is forms.ETRE:
            notes.add("perfect_with_be", form)
        conjugate = forms.subjunctive if subjunctive else forms.present
        return Core(conjugate(auxiliary, index), [form], False)
    if clause.tense is Tense.PROGRESSIVE:
        notes.add("progressive", "en train")
        return Core(forms.present(forms.ETRE, index), ["en train de", verb.infinitive], True)
    form = forms.present(verb, index)
    if subjunctive:
        # Simultaneous with the main clause, whatever its tense.
        form = forms.subjunctive(verb, index)
    elif past:
        form = forms.imperfect_form(verb.imperfect_stem, index)
        notes.add("imperfect", form)
    return Core(form, [], False)


def _modal(clause: Clause, modal: Modal, index: int, past: bool, notes: Notes) -> Core:
    present, stem = forms.MODALS[modal]
    finite = forms.imperfect_form(stem, index) if past else present[index]
    notes.add("modal", finite)
    rest = [_verb(clause).infinitive]
    if modal is Modal.MAY:
        rest = ["le droit de", *rest]
    return Core(finite, rest, True)


def participle(clause: Clause) -> str:
    """The participle, which agrees with the subject (être) or with a direct object before it."""
    verb = _verb(clause)
    action = clause.predicate
    assert isinstance(action, Action)
    direct = action.direct
    governs_direct = verb.government.startswith("direct")
    ahead = is_clitic(direct) or isinstance(direct, Gap) or is_asked(direct)
    if governs_direct and direct is not None:
        if ahead:
            return forms.participle(verb, *features(direct))
        if _auxiliary(verb) is forms.AVOIR or verb.reflexive:
            return verb.participle
    if _auxiliary(verb) is forms.ETRE:
        return forms.participle(verb, *features(clause.subject))
    return verb.participle
