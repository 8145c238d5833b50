"""German inflection: articles, adjectives, nouns, pronouns and finite verbs."""

from data_prep.phrasebook.entries import Adjective, GermanVerb, Noun
from data_prep.phrasebook.meaning import Determiner, Indefinite, Modal, Pronoun

DEFINITE = {
    "nom": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
    "gen": {"m": "des", "f": "der", "n": "des", "p": "der"},
}
RELATIVE = DEFINITE | {"dat": {"m": "dem", "f": "der", "n": "dem", "p": "denen"}}

STRONG = {
    "nom": {"m": "er", "f": "e", "n": "es", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "es", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
    "gen": {"m": "en", "f": "er", "n": "en", "p": "er"},
}
WEAK = {
    "nom": {"m": "e", "f": "e", "n": "e", "p": "en"},
    "acc": {"m": "en", "f": "e", "n": "e", "p": "en"},
    "dat": {"m": "en", "f": "en", "n": "en", "p": "en"},
    "gen": {"m": "en", "f": "en", "n": "en", "p": "en"},
}
MIXED = {
    "nom": {"m": "er", "f": "e", "n": "es", "p": "en"},
    "acc": {"m": "en", "f": "e", "n": "es", "p": "en"},
    "dat": WEAK["dat"],
    "gen": WEAK["gen"],
}
EIN = {
    "nom": {"m": "", "f": "e", "n": "", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
    "gen": {"m": "es", "f": "er", "n": "es", "p": "er"},
}
DIESER = {case: dict(endings) for case, endings in STRONG.items()}
DIESER["gen"] = {"m": "es", "f": "er", "n": "es", "p": "er"}

CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("bei", "dem"): "beim",
    ("von", "dem"): "vom",
}

PRONOUNS = {
    # person, plural, gender: nominative, accusative, dative, reflexive accusative and dative
    (1, False, ""): ("ich", "mich", "mir", "mich", "mir"),
    (2, False, ""): ("du", "dich", "dir", "dich", "dir"),
    (1, True, ""): ("wir", "uns", "uns", "uns", "uns"),
    (3, True, ""): ("sie", "sie", "ihnen", "sich", "sich"),
    (3, False, "m"): ("er", "ihn", "ihm", "sich", "sich"),
    (3, False, "f"): ("sie", "sie", "ihr", "sich", "sich"),
    (3, False, "n"): ("es", "es", "ihm", "sich", "sich"),
}
CASES = ("nom", "acc", "dat")

POSSESSIVES = {(1, False): "mein", (2, False): "dein", (1, True): "unser", (3, True): "ihr"}

INDEFINITES = {
    Indefinite.NOBODY: ("niemand", "niemanden", "niemandem"),
    Indefinite.SOMEBODY: ("jemand", "jemanden", "jemandem"),
    Indefinite.EVERYBODY: ("jeder", "jeden", "jedem"),
    Indefinite.SOMETHING: ("etwas", "etwas", "etwas"),
    Indefinite.IT: ("es", "es", "ihm"),
}

SEIN = GermanVerb("", "sein", "bin", "bist", "ist", "war", "gewesen", "sein", "sei", "", "")
HABEN = GermanVerb("", "haben", "habe", "hast", "hat", "hatte", "gehabt", "haben", "hab", "", "")
WERDEN = GermanVerb(
    "", "werden", "werde", "wirst", "wird", "wurde", "geworden", "sein", "werd", "", ""
)
GEBEN = GermanVerb(
    "", "geben", "gebe", "gibst", "gibt", "gab", "gegeben", "haben", "gib", "", "acc"
)
MODALS = {
    Modal.CAN: ("können", "kann", "kannst", "kann", "konnte"),
    Modal.MUST: ("müssen", "muss", "musst", "muss", "musste"),
    Modal.WANT: ("wollen", "will", "willst", "will", "wollte"),
    Modal.SHOULD: ("sollten", "sollte", "solltest", "sollte", "sollte"),
    Modal.MAY: ("dürfen", "darf", "darfst", "darf", "durfte"),
    Modal.WOULD_LIKE: ("möchten", "möchte", "möchtest", "möchte", "möchte"),
}


def modal_verb(modal: Modal) -> GermanVerb:
    """A modal as a verb that can be conjugated."""
    infinitive, ich, du, er, preterite = MODALS[modal]
    return GermanVerb("", infinitive, ich, du, er, preterite, "", "haben", "", "", "")


def present(verb: GermanVerb, person: int, plural: bool) -> str:
    """The finite present, without a separable prefix."""
    if plural:
        return "sind" if verb.stem_infinitive == "sein" else verb.stem_infinitive
    return (verb.ich, verb.du, verb.er)[person - 1]


def preterite(verb: GermanVerb, person: int, plural: bool) -> str:
    """The finite preterite, without a separable prefix."""
    form = verb.preterite
    if plural:
        return form + ("n" if form.endswith("e") else "en")
    if person == 2:
        return form + ("est" if form.endswith(("t", "d", "s", "ß")) else "st")
    return form


def pronoun(person: Pronoun, case: str, gender: str = "") -> str:
    """A personal pronoun in a case; ``gender`` overrides that of the person."""
    return _pronoun_row(person, gender)[CASES.index(case)]


def reflexive(person: int, plural: bool, case: str) -> str:
    """The reflexive pronoun of a person."""
    row = _pronoun_row(Pronoun(person, plural), "")
    return row[3 if case == "acc" else 4]


def _pronoun_row(person: Pronoun, gender: str) -> tuple[str, str, str, str, str]:
    if person.person == 3 and not person.plural:
        return PRONOUNS[3, False, gender or person.gender]
    return PRONOUNS[person.person, person.plural, ""]


def possessive_stem(owner: Pronoun) -> str:
    """mein, dein, sein, ihr, unser."""
    if owner.person == 3 and not owner.plural:
        return "ihr" if owner.gender == "f" else "sein"
    return POSSESSIVES[owner.person, owner.plural]


def noun_form(noun: Noun, case: str, plural: bool) -> str:
    """A noun in a case and number; *-n* is added in the dative plural."""
    german = noun.german
    if plural:
        form = german.plural
        needs_n = case == "dat" and not form.endswith(("n", "s"))
        return form + "n" if needs_n else form
    if case == "gen":
        return german.genitive or german.oblique
    return german.nominative if case == "nom" else german.oblique


def determiner(kind: Determiner, case: str, gender: str, negated: bool = False) -> str:
    """An article or determiner that is neither possessive nor a number."""
    if negated and kind in (Determiner.INDEFINITE, Determiner.BARE):
        return "kein" + EIN[case][gender]
    stems = {
        Determiner.THIS: "dies",
        Determiner.EVERY: "jed",
        Determiner.WHICH: "welch",
        Determiner.ALL: "all",
        Determiner.SOME: "einig",
    }
    match kind:
        case Determiner.DEFINITE:
            word = DEFINITE[case][gender]
        case Determiner.INDEFINITE:
            word = "ein" + EIN[case][gender]
        case Determiner.MANY:
            word = "viel" + (DIESER[case][gender] if gender == "p" else "")
        case Determiner.HOW_MANY:
            word = "wie vielen" if case == "dat" else "wie viele"
        case _:
            word = stems[kind] + DIESER[case][gender] if kind in stems else ""
    return word


def declension(kind: Determiner, negated: bool = False) -> dict[str, dict[str, str]]:
    """The adjective endings (by case and gender) after a determiner."""
    if kind in (Determiner.INDEFINITE, Determiner.POSSESSIVE):
        return MIXED
    if negated and kind is Determiner.BARE:
        return MIXED
    if kind in (Determiner.BARE, Determiner.NUMBER, Determiner.SOME, Determiner.MANY):
        return STRONG
    if kind is Determiner.HOW_MANY:
        return STRONG
    return WEAK


def adjective_form(adjective: Adjective, endings: dict[str, str], gender: str) -> str:
    """An attributive adjective with its ending."""
    stem = adjective.german.stem
    if not stem:
        return adjective.german.positive
    return stem + endings[gender]


def possessive(owner: Pronoun, case: str, gender: str) -> str:
    """A possessive with its ending."""
    ending = EIN[case][gender]
    return possessive_stem(owner) + ending


def contract(preposition: str, words: list[str]) -> list[str]:
    """Contract a preposition and a definite article: in dem → im."""
    if words and (preposition, words[0]) in CONTRACTIONS:
        return [CONTRACTIONS[preposition, words[0]], *words[1:]]
    return [preposition, *words]
