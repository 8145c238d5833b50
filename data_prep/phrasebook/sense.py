"""Sets of verbs and adjectives that keep sampled sentences plausible.

The words are keys of the tables: English base forms, verbs with their complement.
"""

from data_prep.phrasebook.words import split_words


def _phrases(text: str) -> frozenset[str]:
    return frozenset(phrase.strip() for phrase in text.split(","))


UNWILLED = frozenset(
    split_words(
        "cry sneeze cough yawn snore sweat stumble fall die disappear lose forget find hear see "
        "miss break burn save flee bite grow bloom wilt begin deceive insult annoy disturb "
        "surprise sting"
    )
) | _phrases("fall asleep, wake up, worry about, dream of")
"""Verbs of actions that are not done on purpose or on request."""

LASTING = frozenset(split_words("work sleep dance cry laugh run")) | _phrases(
    "swim in, wait for, play with, talk to, look for, listen to"
)
"""Verbs of actions that may last for hours."""

ANYWHERE = (
    LASTING
    | frozenset(
        split_words("smile whisper rest eat drink meet draw photograph observe whistle sneeze")
    )
    | _phrases("sit down, see, find, fall asleep, wake up, quarrel with, dream of, lie down")
) - {"swim in"}
"""Verbs of actions that may happen at any location."""

SOMEWHERE = frozenset({"live", "stay"})
"""Verbs that need a location."""

UNSPECIFIED = frozenset(split_words("see hear find eat drink forget buy lose say"))
"""Verbs that may have *something* and *not … anything* as objects."""

IN_NUMBERS = frozenset({"collect"})
"""Verbs with plural objects."""

MOMENTARY = frozenset(split_words("see hear forget find lose meet miss notice break"))
"""Verbs of momentary actions, which have no progressive."""

ONCE = frozenset(
    split_words("die marry plant build destroy discover disappear grow sink wilt begin arrest")
)
"""Verbs of events that seldom happen twice to the same person or thing."""

UNGRADED = frozenset(
    split_words(
        "yellow red blue green black white grey brown blond bald blind deaf dead pregnant tiny "
        "huge delicious wonderful terrible perfect broken icy electric public private foreign "
        "round square correct wrong secret necessary similar tame wild rotten crowded "
        "traditional injured"
    )
)
"""Adjectives without comparison and degree."""

BAD_MOODS = frozenset(
    split_words("tired sick hungry thirsty nervous sad angry scared injured weak lonely")
)
GOOD_MOODS = frozenset(
    split_words("happy curious satisfied hardworking generous brave polite patient friendly")
)
MOODS = BAD_MOODS | GOOD_MOODS
"""States of a person that are reasons to do or not to do something."""

APPEALING = frozenset(
    split_words(
        "beautiful delicious fresh cheap new interesting exciting useful comfortable elegant "
        "important healthy ripe practical perfect wonderful sweet pretty funny famous "
        "soft warm light easy clean"
    )
)
"""Qualities of a thing that are reasons to do something with it."""

DAUNTING = frozenset(
    split_words(
        "expensive old heavy dirty dangerous difficult ugly boring rotten cold dark broken "
        "useless bitter salty sour terrible steep high noisy slippery wet dusty crowded"
    )
)
"""Qualities of a thing that are reasons not to do something with it."""

CHOSEN = frozenset(
    split_words(
        "buy eat drink read take use choose cook order visit watch learn sing collect "
        "taste cross climb carry lift drive solve repair peel sell translate write own"
    )
) | _phrases("put on, try on, swim in, listen to, participate in")
"""Verbs of actions that depend on a property of the object."""

REQUESTED = frozenset(split_words("buy eat drink bring cook order give sing write read draw send"))
"""Verbs of requests for an indefinite thing."""

COMPANIONABLE = frozenset(split_words("dance work go come return"))
"""Verbs of actions that two persons do together."""
