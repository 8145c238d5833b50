import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from data_prep.phrasebook import sense
from data_prep.phrasebook.lexicon import TABLES, load_lexicon
from data_prep.phrasebook.tables import LexiconError

Edit = Callable[[str, str, str], Path]


@pytest.fixture
def edit(tmp_path: Path) -> Edit:
    """Copies the tables and replaces a text in one of them."""

    def change(table: str, old: str, new: str) -> Path:
        folder = tmp_path / "lexicon"
        shutil.copytree(TABLES, folder)
        text = (folder / table).read_text(encoding="utf-8")
        assert old in text
        (folder / table).write_text(text.replace(old, new, 1), encoding="utf-8")
        return folder

    return change


def test_each_language_has_at_least_900_content_words() -> None:
    words = load_lexicon()
    forms = [
        *((w.key, w.german.nominative, w.french.singular) for w in words.nouns),
        *((w.key, w.german.infinitive, w.french.infinitive) for w in words.verbs),
        *((w.key, w.german.positive, w.french.masculine) for w in words.adjectives),
        *((w.english, w.german, w.french) for w in words.adverbs),
    ]
    assert all(len(set(language)) >= 900 for language in zip(*forms, strict=True))


def test_a_word_is_added_by_one_line(edit: Edit) -> None:
    german = "Gleitschirm\tm\tGleitschirms\tGleitschirm\tGleitschirme"
    line = f"paraglider\tparagliders\t{german}\tparapente\tm\tparapentes\tvehicle"
    folder = edit("nouns.tsv", "mother\t", f"{line}\nmother\t")
    nouns = load_lexicon(folder).nouns
    added = next(noun for noun in nouns if noun.key == "paraglider")
    assert added.fits(frozenset({"vehicle"}))


@pytest.mark.parametrize(
    ("table", "old", "new", "complaint"),
    [
        ("nouns.tsv", "Mutter\tf", "Mutter\tx", r"nouns.tsv, line \d+, column german_gender: 'x'"),
        ("nouns.tsv", "mother\tmothers", "mother\t", "column english_plural"),
        ("nouns.tsv", "mother\tmothers", "mother", "cells, but there are 11 columns"),
        ("nouns.tsv", "father\tfathers", "mother\tfathers", "has this word already"),
        ("verbs.tsv", "\tintransitive\t", "\tintransitiv\t", "write one of"),
        ("adverbs.tsv", "german", "deutsch", "the columns must be"),
        ("places.tsv", "kitchen\t", "kitchin\t", "not in nouns.tsv"),
        ("riddles.tsv", "tired|", "tyred|", "not in adjectives.tsv: tyred"),
    ],
)
def test_mistakes_are_named_with_their_place(
    edit: Edit, table: str, old: str, new: str, complaint: str
) -> None:
    with pytest.raises(LexiconError, match=complaint):
        load_lexicon(edit(table, old, new))


def test_classes_of_verbs_and_adjectives_have_nouns() -> None:
    lexicon = load_lexicon()
    classes = frozenset().union(*(noun.classes for noun in lexicon.nouns)) | {"weather"}
    for verb in lexicon.verbs:
        assert verb.subject_classes & classes, verb.key
        assert verb.object_classes <= classes, (verb.key, verb.object_classes - classes)
    for adjective in lexicon.adjectives:
        assert adjective.classes <= classes, (adjective.key, adjective.classes - classes)


def test_the_words_of_sense_are_in_the_tables() -> None:
    lexicon = load_lexicon()
    adjectives = {adjective.key for adjective in lexicon.adjectives}
    assert adjectives >= sense.MOODS | sense.APPEALING | sense.DAUNTING | sense.UNGRADED
    verbs = {verb.key for verb in lexicon.verbs}
    for words in (sense.UNWILLED, sense.LASTING, sense.ANYWHERE, sense.CHOSEN, sense.ONCE):
        assert words <= verbs, words - verbs
