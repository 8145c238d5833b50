"""Where sentences end, by rules: for running text in English, German and French.

Other languages go by what all three share. A full stop is looked at with the word before it, which
may be an abbreviation, an initial or an ordinal, and with the word after it.
"""

import re
from dataclasses import dataclass

_CLOSING = "\"'”“’»›)\\]"

# What ends a sentence, closing marks included; French puts a space before the guillemet. A run of
# marks is tried once: from each of its marks, a line of dots would take the square of its length.
_END = re.compile(rf"(?<![.!?…])([.!?…]++)(?:[{_CLOSING}]|</[^<>]*>|[\s\u202f](?=»))*(?=\s)")
_LAST_WORD = re.compile(r"[^\s>(\[{\"'„“«»‚‘’/–—]*$")
_NOT_BLANK = re.compile(r"\S")
# Behind white space, marks, signs and tags.
_NEXT_WORD = re.compile(r"(?:<[^<>]*>|[^\w<]|_)*([^\W_]+(?:['’])?)")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,3}\.)+[^\W\d_]{1,3}")
_ROMAN = re.compile(r"[IVXLC]+")


@dataclass(frozen=True)
class _Rules:
    """Words of one language.

    Attributes:
        never: abbreviations that a name, a number or a noun follows: they end no sentence.
        seldom: abbreviations, and words before a number, that end one only before a `starter`.
        starters: words that, with a capital, begin a sentence rather than go on with one.
        has_ordinals: whether `3.` is an ordinal.
    """

    never: frozenset[str]
    seldom: frozenset[str]
    starters: frozenset[str]
    has_ordinals: bool = False


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ENGLISH = _Rules(
    _words(
        "mr mrs ms mx dr prof st messrs mme mlle gen col lt sgt capt cpl maj adm cmdr gov sen rep"
        " hon rev pres supt det insp sr br fr mt ft vs e.g i.e cf viz approx"
    ),
    _words(
        "jr sr inc ltd co corp bros etc al no nos vol vols fig figs p pp ch sec art ed eds dept"
        " univ est ave blvd rd jan feb mar apr jun jul aug sep sept oct nov dec a.m p.m u.s u.k"
        " u.n u.s.a e.u d.c ph.d m.d b.a m.a"
    ),
    _words(
        "the a an this that these those he she it we they you i his her its our their my your there"
        " here but and or so yet for if when while where as at in on by from with after before"
        " since because although though however what who why how which whose now then no not yes"
        " one some many most all both each every another such only even still just once do does"
        " did is are was were will would can could should may might let please nobody nothing"
    ),
)
_GERMAN = _Rules(
    _words(
        "dr prof hr fr frl st n v z.b z b bzw d.h d h u.a u a ca vgl evtl ggf sog inkl exkl zzgl"
        " bspw geb gest verh hrsg nr str tel abs art dipl ing mag med phil jur rer nat o.ä i.d.r"
        " v.a u.u m.e s.o v.chr n.chr min max mind wg"
    ),
    _words(
        "usw etc u.s.w mio mrd tsd uhr jh jhd jan feb mär apr jun jul aug sep sept okt nov dez mo"
        " di mi do fr sa so gmbh e.v co inc ltd corp jr sen s f ff bd kap anm abb tab"
    ),
    _words(
        "der die das den dem des ein eine einen einem einer eines dieser diese dieses diesen diesem"
        " er sie es wir ihr ich du man mein meine sein seine seinen ihre ihren unser unsere und"
        " aber oder doch denn sondern wenn als wie wo was wer warum weil da dann dort hier jetzt"
        " heute gestern morgen nun so auch nur noch schon nach vor bei mit von zu zum zur in im an"
        " am auf aus für über unter durch gegen ohne um seit bis während trotz wegen kein keine"
        " nicht nichts niemand alle alles viele einige jeder jede jedes ja nein bitte damit dabei"
        " dazu daher deshalb darum danach davor zwar allerdings jedoch ist sind war waren hat haben"
        " kann können soll sollte muss müssen wird werden wurde wurden würde"
    ),
    has_ordinals=True,
)
_FRENCH = _Rules(
    _words("m mm mme mmes mlle mlles me mgr dr pr st ste cf c.-à-d p.ex env boul bd éd n tél p pp"),
    _words(
        "etc s.a cie jr sr janv févr avr juil sept oct nov déc j.-c ltd inc corp co al ex av apr"
        " fig art chap vol no nos"
    ),
    _words(
        "le la les l' un une des du de d' ce cet cette ces c' ça cela il elle ils elles on nous"
        " vous je j' tu mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs et mais ou"
        " or donc car si s' quand lorsque lorsqu' comme où qui que qu' quoi pourquoi comment dans"
        " en au aux à par pour avec sans sur sous après avant depuis pendant entre selon chez vers"
        " malgré ne n' pas plus rien personne tout tous toute toutes chaque plusieurs certains"
        " beaucoup ici là maintenant alors puis ensuite enfin ainsi aussi encore toujours jamais"
        " oui non est sont était a ont"
    ),
)
_RULES = {"en": _ENGLISH, "de": _GERMAN, "fr": _FRENCH}
_NO_RULES = _Rules(frozenset(), frozenset(), frozenset())


def sentence_spans(text: str, language: str) -> list[tuple[int, int]]:
    """Begin and end of each sentence of a paragraph; between and around them is white space."""
    rules = _RULES.get(language, _NO_RULES)
    spans: list[tuple[int, int]] = []
    begin = len(text) - len(text.lstrip())
    for match in _END.finditer(text):
        if match.start() >= begin and _ends_here(text, begin, match, rules):
            spans.append((begin, match.end()))
            word = _NOT_BLANK.search(text, match.end())
            begin = word.start() if word else len(text)
    end = len(text.rstrip())
    if begin < end:
        spans.append((begin, end))
    return spans


def _ends_here(text: str, begin: int, match: re.Match[str], rules: _Rules) -> bool:
    after = _NEXT_WORD.match(text, match.end())
    # Marks alone are no sentence.
    if after is None or after[1][0].islower():
        return False
    if match[1] != ".":
        return True
    found = _LAST_WORD.search(text, begin, match.start())
    word = found[0] if found else ""
    is_first = match.start() - len(word) == begin
    return _ends_after(word, is_first, after[1].lower() in rules.starters, rules)


def _ends_after(word: str, is_first: bool, begins_anew: bool, rules: _Rules) -> bool:
    """Whether a full stop behind a word ends the sentence, if a word with a capital follows.

    Args:
        word: the word.
        is_first: whether it is the first one of the sentence.
        begins_anew: whether what follows is a word that begins a sentence.
        rules: of the language.
    """
    lower = word.lower()
    if lower in rules.never:
        return False
    is_initial = len(word) == 1 or _ROMAN.fullmatch(word) is not None
    if is_first and (word.isdigit() or is_initial):
        return False  # 1. the number of a point in a list
    if word.isdigit():
        return begins_anew or not rules.has_ordinals or len(word) > 3
    # J. R. R. Tolkien, Karl V., the U.S. capital
    is_doubtful = (is_initial and word.isupper()) or lower in rules.seldom
    return begins_anew or not (is_doubtful or _DOTTED.fullmatch(word))
