from collections.abc import Callable

import pytest

from data_prep.phrasebook import meaning as m
from data_prep.phrasebook import times


@pytest.mark.parametrize(
    ("express", "time", "expected"),
    [
        (times.english, m.Time(m.TimeKind.CLOCK, 7, 2), "at half past seven"),
        (times.english, m.Time(m.TimeKind.DATE, 22, 4), "on the twenty-second of May"),
        (times.english, m.Time(m.TimeKind.DATE, 12, 0), "on the twelfth of January"),
        (times.english, m.Time(m.TimeKind.DATE, 20, 0), "on the twentieth of January"),
        (times.english, m.Time(m.TimeKind.AGO, 1, 2), "one day ago"),
        (times.english, m.Time(m.TimeKind.EVERY, 3), "every week"),
        (times.german, m.Time(m.TimeKind.CLOCK, 7, 0), "um sieben Uhr"),
        (times.german, m.Time(m.TimeKind.CLOCK, 1, 0), "um ein Uhr"),
        (times.german, m.Time(m.TimeKind.CLOCK, 1, 1), "um Viertel nach eins"),
        (times.german, m.Time(m.TimeKind.CLOCK, 7, 3), "um Viertel vor acht"),
        (times.german, m.Time(m.TimeKind.DATE, 3, 4), "am dritten Mai"),
        (times.german, m.Time(m.TimeKind.DATE, 21, 11), "am einundzwanzigsten Dezember"),
        (times.german, m.Time(m.TimeKind.AGO, 2, 5), "vor zwei Jahren"),
        (times.german, m.Time(m.TimeKind.AGO, 1, 3), "vor einer Woche"),
        (times.german, m.Time(m.TimeKind.DURATION, 2, 1), "zwei Stunden lang"),
        (times.german, m.Time(m.TimeKind.LAST, 5), "letztes Jahr"),
        (times.german, m.Time(m.TimeKind.HABIT, 0), "montags"),
        (times.french, m.Time(m.TimeKind.CLOCK, 7, 2), "à sept heures et demie"),
        (times.french, m.Time(m.TimeKind.CLOCK, 1, 0), "à une heure"),
        (times.french, m.Time(m.TimeKind.CLOCK, 7, 3), "à huit heures moins le quart"),
        (times.french, m.Time(m.TimeKind.DATE, 1, 4), "le premier mai"),
        (times.french, m.Time(m.TimeKind.DATE, 21, 4), "le vingt et un mai"),
        (times.french, m.Time(m.TimeKind.AGO, 2, 5), "il y a deux ans"),
        (times.french, m.Time(m.TimeKind.NEXT, 5), "l'année prochaine"),
        (times.french, m.Time(m.TimeKind.SEASON, 0), "au printemps"),
    ],
)
def test_times(express: Callable[[m.Time], str], time: m.Time, expected: str) -> None:
    assert express(time) == expected
