"""French inflection: verbs, articles, adjectives, pronouns, and elision."""

from data_prep.phrasebook.entries import Adjective, FrenchVerb, Noun
from data_prep.phrasebook.meaning import Indefinite, Modal, Pronoun

VOWELS = frozenset("aeiouyâàéèêëîïôöûùüœæh")
ASPIRATED_WORDS = frozenset(
    {"haut", "haute", "hauts", "hautes", "huit", "onze", "hardi", "honteux"}
)
ASPIRATED_WORDS |= frozenset({"hideux", "hideuse", "handicapé", "handicapée", "hors", "hâte"})
ASPIRATION = "\u0001"
"""Precedes a noun with an aspirated h, before which nothing is elided; removed by `elide`."""
ELIDING = frozenset({"je", "me", "te", "se", "le", "la", "de", "ne", "que"})

AVOIR = FrenchVerb(
    "avoir", ("ai", "as", "a", "avons", "avez", "ont"), "av", "aur", "eu", "avoir", False, "direct"
)
ETRE = FrenchVerb(
    "être",
    ("suis", "es", "est", "sommes", "êtes", "sont"),
    "ét",
    "ser",
    "été",
    "avoir",
    False,
    "",
)
MODALS = {
    Modal.CAN: (("peux", "peux", "peut", "pouvons", "pouvez", "peuvent"), "pouv"),
    Modal.MUST: (("dois", "dois", "doit", "devons", "devez", "doivent"), "dev"),
    Modal.WANT: (("veux", "veux", "veut", "voulons", "voulez", "veulent"), "voul"),
    Modal.SHOULD: (("devrais", "devrais", "devrait", "devrions", "devriez", "devraient"), "devr"),
    Modal.WOULD_LIKE: (
        ("voudrais", "voudrais", "voudrait", "voudrions", "voudriez", "voudraient"),
        "voudr",
    ),
    Modal.MAY: (AVOIR.present, AVOIR.imperfect_stem),
}
IMPERFECT = ("ais", "ais", "ait", "ions", "iez", "aient")
FUTURE = ("ai", "as", "a", "ons", "ez", "ont")
SUBJUNCTIVE = ("e", "es", "e", "ions", "iez", "ent")
IRREGULAR_SUBJUNCTIVE = {
    "être": ("sois", "sois", "soit", "soyons", "soyez", "soient"),
    "avoir": ("aie", "aies", "ait", "ayons", "ayez", "aient"),
    "faire": ("fasse", "fasses", "fasse", "fassions", "fassiez", "fassent"),
    "aller": ("aille", "ailles", "aille", "allions", "alliez", "aillent"),
    "savoir": ("sache", "saches", "sache", "sachions", "sachiez", "sachent"),
    "pouvoir": ("puisse", "puisses", "puisse", "puissions", "puissiez", "puissent"),
}
IRREGULAR_IMPERATIVE = {"être": "sois", "avoir": "aie", "savoir": "sache", "vouloir": "veuille"}

SUBJECTS = {
    (1, False, "m"): "je",
    (1, False, "f"): "je",
    (2, False, "m"): "tu",
    (2, False, "f"): "tu",
    (3, False, "m"): "il",
    (3, False, "f"): "elle",
    (1, True, "m"): "nous",
    (3, True, "m"): "ils",
    (3, True, "f"): "elles",
}
DIRECT = {
    (1, False): "me",
    (2, False): "te",
    (1, True): "nous",
    (3, True): "les",
    (3, False): "le",
}
INDIRECT = DIRECT | {(3, True): "leur", (3, False): "lui"}
REFLEXIVE = {(1, False): "me", (2, False): "te", (1, True): "nous"}
STRESSED = {
    (1, False, "m"): "moi",
    (2, False, "m"): "toi",
    (3, False, "m"): "lui",
    (3, False, "f"): "elle",
    (1, True, "m"): "nous",
    (3, True, "m"): "eux",
    (3, True, "f"): "elles",
}
INDEFINITES = {
    Indefinite.NOBODY: "personne",
    Indefinite.SOMEBODY: "quelqu'un",
    Indefinite.EVERYBODY: "tout le monde",
    Indefinite.SOMETHING: "quelque chose",
    Indefinite.IT: "il",
}


def begins_with_vowel(word: str) -> bool:
    """Return whether a word before this one is elided: before vowels and mute h."""
    first = word.split(" ", maxsplit=1)[0]
    return first[:1].lower() in VOWELS and first not in ASPIRATED_WORDS


def person_index(person: int, plural: bool) -> int:
    """The index of a person in je, tu, il, nous, vous, ils."""
    return person - 1 + (3 if plural else 0)


def present(verb: FrenchVerb, index: int) -> str:
    """The present tense."""
    return verb.present[index]


def imperfect_form(stem: str, index: int) -> str:
    """The imparfait: *mangeait* keeps its e, *mangions* loses it."""
    ending = IMPERFECT[index]
    if ending.startswith("i"):
        stem = stem[:-1] if stem.endswith("ge") else stem
        stem = stem[:-1] + "c" if stem.endswith("ç") else stem
    return stem + ending


def future(verb: FrenchVerb, index: int) -> str:
    """The simple future."""
    return verb.future_stem + FUTURE[index]


def subjunctive(verb: FrenchVerb, index: int) -> str:
    """The present subjunctive, from the ils-form, and from the imparfait for nous and vous."""
    irregular = IRREGULAR_SUBJUNCTIVE.get(verb.infinitive)
    if irregular is not None:
        return irregular[index]
    if index in (3, 4):
        return imperfect_form(verb.imperfect_stem, index)
    return verb.present[5].removesuffix("ent") + SUBJUNCTIVE[index]


def imperative(verb: FrenchVerb) -> str:
    """The imperative to one friend: *mange*, *va*, *finis*."""
    if verb.infinitive in IRREGULAR_IMPERATIVE:
        return IRREGULAR_IMPERATIVE[verb.infinitive]
    form = verb.present[1]
    return form[:-1] if form.endswith(("es", "as")) else form


def participle(verb: FrenchVerb, gender: str, plural: bool) -> str:
    """The past participle, with the ending of a gender and number."""
    form = verb.participle
    if gender == "f":
        form = {"dû": "due"}.get(form, form + "e")
    if plural and not form.endswith("s"):
        form += "s"
    return form


def adjective(word: Adjective, gender: str, plural: bool, next_word: str = "") -> str:
    """The form of an adjective for a gender and number; *bel* before a vowel."""
    french = word.french
    if gender == "f":
        return french.feminine_plural if plural else french.feminine
    if plural:
        return french.masculine_plural
    if next_word and begins_with_vowel(next_word):
        return french.masculine_vowel
    return french.masculine


def noun(word: Noun, plural: bool) -> str:
    """A noun, marked where its h is aspirated."""
    form = word.french.plural if plural else word.french.singular
    return ASPIRATION + form if word.french.aspirated else form


def possessive(owner: Pronoun, gender: str, plural: bool, next_word: str) -> str:
    """mon, ma, mes; before a vowel *mon amie*."""
    if owner.plural:
        stem = "notre" if owner.person == 1 else "leur"
        if plural:
            return "nos" if owner.person == 1 else "leurs"
        return stem
    stem = {1: "m", 2: "t", 3: "s"}[owner.person]
    if plural:
        return stem + "es"
    return stem + ("a" if gender == "f" and not begins_with_vowel(next_word) else "on")


def elide(words: list[str]) -> list[str]:
    """Elide je, le, de, que … before a vowel: *l'eau*, *qu'il*, *s'il*."""
    flat = " ".join(word for word in words if word).split(" ")
    result: list[str] = []
    for position, word in enumerate(flat):
        following = flat[position + 1] if position + 1 < len(flat) else ""
        bare = word.lower()
        if (bare in ELIDING and begins_with_vowel(following)) or (
            bare == "lorsque" and following in ("il", "elle", "ils", "elles", "on", "un", "une")
        ):
            result.append(word[:-1] + "'")
        elif bare == "si" and following in ("il", "ils"):
            result.append("s'")
        else:
            result.append(word)
    joined: list[str] = []
    for word in result:
        if joined and joined[-1].endswith("'") and joined[-1] != "aujourd'":
            joined[-1] += word
        else:
            joined.append(word)
    return [word.replace(ASPIRATION, "") for word in joined]


def contract(preposition: str, words: list[str]) -> list[str]:
    """Contract a preposition and an article: à le → au, à les → aux, de le → du, de les → des."""
    forms = {
        ("à", "le"): "au",
        ("à", "les"): "aux",
        ("de", "le"): "du",
        ("de", "les"): "des",
    }
    if len(words) > 1 and (preposition, words[0]) in forms:
        following = words[1]
        if words[0] == "les" or not begins_with_vowel(following):
            return [forms[preposition, words[0]], *words[1:]]
    return [preposition, *words]
