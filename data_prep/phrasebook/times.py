"""Clock times, days, dates and durations in the three languages."""

from collections.abc import Callable

from data_prep.phrasebook.meaning import Time, TimeKind
from data_prep.phrasebook.words import split_words

ENGLISH_NUMBERS = split_words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
)
GERMAN_NUMBERS = split_words(
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig"
)
FRENCH_NUMBERS = split_words(
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
    "seize dix-sept dix-huit dix-neuf vingt"
)

WEEKDAYS = {
    "en": split_words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    "de": split_words("Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"),
    "fr": split_words("lundi mardi mercredi jeudi vendredi samedi dimanche"),
}
MONTHS = {
    "en": split_words(
        "January February March April May June July August September October November December"
    ),
    "de": split_words(
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
    ),
    "fr": split_words(
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
    ),
}
SEASONS = {
    "en": ("in spring", "in summer", "in autumn", "in winter"),
    "de": ("im Frühling", "im Sommer", "im Herbst", "im Winter"),
    "fr": ("au printemps", "en été", "en automne", "en hiver"),
}
DAYTIMES = {
    "en": ("in the morning", "at noon", "in the afternoon", "in the evening", "at night"),
    "de": ("am Morgen", "am Mittag", "am Nachmittag", "am Abend", "in der Nacht"),
    "fr": ("le matin", "à midi", "l'après-midi", "le soir", "la nuit"),
}
ENGLISH_UNITS = split_words("minute hour day week month year")
GERMAN_UNITS = (
    ("Minute", "Minuten", "Minuten", "f"),
    ("Stunde", "Stunden", "Stunden", "f"),
    ("Tag", "Tage", "Tagen", "m"),
    ("Woche", "Wochen", "Wochen", "f"),
    ("Monat", "Monate", "Monaten", "m"),
    ("Jahr", "Jahre", "Jahren", "n"),
)
FRENCH_UNITS = (
    ("minute", "minutes", "f"),
    ("heure", "heures", "f"),
    ("jour", "jours", "m"),
    ("semaine", "semaines", "f"),
    ("mois", "mois", "m"),
    ("an", "ans", "m"),
)


def english_number(number: int) -> str:
    """A number below a hundred in English words."""
    if number <= 20:
        return ENGLISH_NUMBERS[number]
    tens = split_words("twenty thirty forty fifty sixty seventy eighty ninety")[number // 10 - 2]
    return tens if number % 10 == 0 else f"{tens}-{ENGLISH_NUMBERS[number % 10]}"


def german_number(number: int) -> str:
    """A number below a hundred in German words; one is *ein*, without an ending."""
    if number <= 20:
        return GERMAN_NUMBERS[number]
    tens = split_words("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
    ten = tens[number // 10 - 2]
    return ten if number % 10 == 0 else f"{GERMAN_NUMBERS[number % 10]}und{ten}"


def french_number(number: int) -> str:
    """A number below seventy in French words."""
    if number <= 20:
        return FRENCH_NUMBERS[number]
    ten = split_words("vingt trente quarante cinquante soixante")[number // 10 - 2]
    if number % 10 == 0:
        return ten
    joint = " et " if number % 10 == 1 else "-"
    return f"{ten}{joint}{FRENCH_NUMBERS[number % 10]}"


def _english_ordinal(day: int) -> str:
    irregular = {1: "first", 2: "second", 3: "third", 5: "fifth", 8: "eighth", 9: "ninth"}
    irregular[12] = "twelfth"
    if day <= 20:
        word = ENGLISH_NUMBERS[day]
        return irregular.get(day, word.removesuffix("y") + ("ieth" if day == 20 else "th"))
    tens = "twenty" if day < 30 else "thirty"
    if day % 10 == 0:
        return "thirtieth"
    return f"{tens}-{_english_ordinal(day % 10)}"


def _german_ordinal(day: int) -> str:
    irregular = {1: "ersten", 3: "dritten", 7: "siebten", 8: "achten"}
    return irregular.get(day, german_number(day) + ("sten" if day >= 20 else "ten"))


def english(time: Time) -> str:
    """A time expression in English."""
    assert time.kind is not None
    unit = ENGLISH_UNITS
    first, second = time.first, time.second
    forms: dict[TimeKind, Callable[[], str]] = {
        TimeKind.CLOCK: lambda: _english_clock(first, second),
        TimeKind.WEEKDAY: lambda: f"on {WEEKDAYS['en'][first]}",
        TimeKind.HABIT: lambda: f"on {WEEKDAYS['en'][first]}s",
        TimeKind.LAST: lambda: f"last {unit[first]}",
        TimeKind.NEXT: lambda: f"next {unit[first]}",
        TimeKind.EVERY: lambda: f"every {unit[first]}",
        TimeKind.AGO: lambda: f"{_english_span(first, second)} ago",
        TimeKind.WITHIN: lambda: f"in {_english_span(first, second)}",
        TimeKind.DURATION: lambda: f"for {_english_span(first, second)}",
        TimeKind.DATE: lambda: f"on the {_english_ordinal(first)} of {MONTHS['en'][second]}",
        TimeKind.MONTH: lambda: f"in {MONTHS['en'][first]}",
        TimeKind.SEASON: lambda: SEASONS["en"][first],
        TimeKind.DAYTIME: lambda: DAYTIMES["en"][first],
        TimeKind.YEAR_NUMBER: lambda: f"in {first}",
    }
    return forms[time.kind]()


def german(time: Time) -> str:
    """A time expression in German."""
    assert time.kind is not None
    first, second = time.first, time.second
    forms: dict[TimeKind, Callable[[], str]] = {
        TimeKind.CLOCK: lambda: _german_clock(first, second),
        TimeKind.WEEKDAY: lambda: f"am {WEEKDAYS['de'][first]}",
        TimeKind.HABIT: lambda: f"{WEEKDAYS['de'][first].lower()}s",
        TimeKind.LAST: lambda: _german_unit("letzt", first),
        TimeKind.NEXT: lambda: _german_unit("nächst", first),
        TimeKind.EVERY: lambda: _german_unit("jed", first),
        TimeKind.AGO: lambda: f"vor {_german_span(first, second, dative=True)}",
        TimeKind.WITHIN: lambda: f"in {_german_span(first, second, dative=True)}",
        TimeKind.DURATION: lambda: f"{_german_span(first, second, dative=False)} lang",
        TimeKind.DATE: lambda: f"am {_german_ordinal(first)} {MONTHS['de'][second]}",
        TimeKind.MONTH: lambda: f"im {MONTHS['de'][first]}",
        TimeKind.SEASON: lambda: SEASONS["de"][first],
        TimeKind.DAYTIME: lambda: DAYTIMES["de"][first],
        TimeKind.YEAR_NUMBER: lambda: f"im Jahr {first}",
    }
    return forms[time.kind]()


def french(time: Time) -> str:
    """A time expression in French."""
    assert time.kind is not None
    first, second = time.first, time.second
    forms: dict[TimeKind, Callable[[], str]] = {
        TimeKind.CLOCK: lambda: _french_clock(first, second),
        TimeKind.WEEKDAY: lambda: WEEKDAYS["fr"][first],
        TimeKind.HABIT: lambda: f"le {WEEKDAYS['fr'][first]}",
        TimeKind.LAST: lambda: f"{_french_unit(first)} {_french_last(first)}",
        TimeKind.NEXT: lambda: f"{_french_unit(first)} {_french_next(first)}",
        TimeKind.EVERY: lambda: _french_every(first),
        TimeKind.AGO: lambda: f"il y a {_french_span(first, second)}",
        TimeKind.WITHIN: lambda: f"dans {_french_span(first, second)}",
        TimeKind.DURATION: lambda: f"pendant {_french_span(first, second)}",
        TimeKind.DATE: lambda: f"le {_french_day(first)} {MONTHS['fr'][second]}",
        TimeKind.MONTH: lambda: f"en {MONTHS['fr'][first]}",
        TimeKind.SEASON: lambda: SEASONS["fr"][first],
        TimeKind.DAYTIME: lambda: DAYTIMES["fr"][first],
        TimeKind.YEAR_NUMBER: lambda: f"en {first}",
    }
    return forms[time.kind]()


def _next_hour(hour: int) -> int:
    return hour % 12 + 1


def _english_clock(hour: int, quarters: int) -> str:
    words = ENGLISH_NUMBERS
    return (
        f"at {words[hour]} o'clock",
        f"at quarter past {words[hour]}",
        f"at half past {words[hour]}",
        f"at quarter to {words[_next_hour(hour)]}",
    )[quarters]


def _german_clock(hour: int, quarters: int) -> str:
    words = [*GERMAN_NUMBERS[:1], "eins", *GERMAN_NUMBERS[2:]]
    following = words[_next_hour(hour)]
    return (
        f"um {GERMAN_NUMBERS[hour]} Uhr",
        f"um Viertel nach {words[hour]}",
        f"um halb {following}",
        f"um Viertel vor {following}",
    )[quarters]


def _french_clock(hour: int, quarters: int) -> str:
    def hours(number: int) -> str:
        return "une heure" if number == 1 else f"{FRENCH_NUMBERS[number]} heures"

    return (
        f"à {hours(hour)}",
        f"à {hours(hour)} et quart",
        f"à {hours(hour)} et demie",
        f"à {hours(_next_hour(hour))} moins le quart",
    )[quarters]


def _english_span(number: int, unit: int) -> str:
    plural = "" if number == 1 else "s"
    return f"{ENGLISH_NUMBERS[number]} {ENGLISH_UNITS[unit]}{plural}"


def _german_span(number: int, unit: int, dative: bool) -> str:
    singular, plural, dative_plural, gender = GERMAN_UNITS[unit]
    if number == 1:
        feminine, other = ("einer", "einem") if dative else ("eine", "einen")
        if gender == "n" and not dative:
            other = "ein"
        return f"{feminine if gender == 'f' else other} {singular}"
    return f"{GERMAN_NUMBERS[number]} {dative_plural if dative else plural}"


def _french_span(number: int, unit: int) -> str:
    singular, plural, gender = FRENCH_UNITS[unit]
    if number == 1:
        return f"{'une' if gender == 'f' else 'un'} {singular}"
    return f"{FRENCH_NUMBERS[number]} {plural}"


def _german_unit(stem: str, unit: int) -> str:
    singular, _, _, gender = GERMAN_UNITS[unit]
    return stem + {"m": "en", "f": "e", "n": "es"}[gender] + " " + singular


def _french_unit(unit: int) -> str:
    # "L'année dernière" is more common than "l'an dernier".
    return {3: "la semaine", 4: "le mois", 5: "l'année"}[unit]


def _french_last(unit: int) -> str:
    return "dernier" if unit == 4 else "dernière"


def _french_next(unit: int) -> str:
    return "prochain" if unit == 4 else "prochaine"


def _french_every(unit: int) -> str:
    singular, _, _ = FRENCH_UNITS[unit]
    return f"chaque {'année' if singular == 'an' else singular}"


def _french_day(day: int) -> str:
    return "premier" if day == 1 else french_number(day)
