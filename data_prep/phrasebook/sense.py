"""What makes sense beyond classes: who does what on purpose, for how long, and why.

The words are keys of the tables: English base forms, a verb's complement included.
"""

from __future__ import annotations

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
"""Verbs of things that are not done on purpose or on request."""

LASTING = frozenset(split_words("work sleep dance cry laugh run")) | _phrases(
    "swim in, wait for, play with, talk to, look for, listen to"
)
"""What can go on for hours."""

ANYWHERE = (
    LASTING
    | frozenset(
        split_words("smile whisper rest eat drink meet draw photograph observe whistle sneeze")
    )
    | _phrases("sit down, see, find, fall asleep, wake up, quarrel with, dream of, lie down")
) - {"swim in"}
"""Verbs of things that can be done anywhere."""

SOMEWHERE = frozenset({"live", "stay"})
"""Verbs that need a location."""

UNSPECIFIED = frozenset(split_words("see hear find eat drink forget buy lose say"))
"""What can be done to *something*, and not to *anything*."""

IN_NUMBERS = frozenset({"collect"})
"""What is done to several things."""

MOMENTARY = frozenset(split_words("see hear forget find lose meet miss notice break"))
"""What one is hardly in the middle of doing."""

ONCE = frozenset(
    split_words("die marry plant build destroy discover disappear grow sink wilt begin arrest")
)
"""What does not happen often to the same."""

UNGRADED = frozenset(
    split_words(
        "yellow red blue green black white grey brown blond bald blind deaf dead pregnant tiny "
        "huge delicious wonderful terrible perfect broken icy electric public private foreign "
        "round square correct wrong secret necessary similar tame wild rotten crowded delicious "
        "traditional injured"
    )
)
"""Qualities without a more or less."""

BAD_MOODS = frozenset(
    split_words("tired sick hungry thirsty nervous sad angry scared injured weak lonely")
)
GOOD_MOODS = frozenset(
    split_words("happy curious satisfied hardworking generous brave polite patient friendly")
)
MOODS = BAD_MOODS | GOOD_MOODS
"""Possible states of a person during an event."""

APPEALING = frozenset(
    split_words(
        "beautiful delicious fresh cheap new interesting exciting useful comfortable elegant "
        "important healthy ripe practical perfect wonderful sweet pretty funny famous "
        "soft warm light easy clean"
    )
)
"""Why one does something with a thing."""

DAUNTING = frozenset(
    split_words(
        "expensive old heavy dirty dangerous difficult ugly boring rotten cold dark broken "
        "useless bitter salty sour terrible steep high noisy slippery wet dusty crowded"
    )
)
"""Why one does not."""

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
"""Verbs of actions together with a person."""
