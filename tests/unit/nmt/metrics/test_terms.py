from nmt.metrics.terms import find_terms, term_recall

TRAINING = {"Mauszeiger": 3, "Haus-mauszeiger": 2, "Cursor": 5, "Maus": 5, "Zeigergerät": 4}


def test_terms_are_frequent_in_training_and_in_valid_but_not_in_the_translations() -> None:
    references = ["Ein MAUSZEIGER, ein Cursor; das Zeigergerät.", "Die Maus oder Ratten."]
    translations = ["Ein Mausanzeiger, ein cursor.", "Die Maus."]
    # Cursor is translated, Zeigergerät is too rare, Ratten is not in the training text.
    assert find_terms(TRAINING, references, translations) == ["mauszeiger"]


def test_recall_counts_each_occurrence_once() -> None:
    references = ["Mauszeiger, Mauszeiger und Cursor", "Cursor", "nichts"]
    before = ["Cursor Cursor", "Zeiger", "Mauszeiger"]  # one of four: extra ones do not count
    after = ["mauszeiger und Cursor", "der Cursor", ""]
    found = term_recall(["mauszeiger", "cursor"], references, before, after)
    assert (found.occurrences, found.baseline, found.system) == (4, 25.0, 75.0)
    assert ": 2, with 4 occurrences in the references; recall 75.0 %, baseline 25.0 %" in str(found)


def test_without_terms_recall_is_zero() -> None:
    found = term_recall([], ["Ein Wort."], ["Ein Wort."], ["Ein Wort."])
    assert (found.words, found.occurrences, found.baseline, found.system) == ([], 0, 0.0, 0.0)
    missed = "words that the baseline missed on valid: 0"
    assert str(found) == f"{missed}, with 0 occurrences in the references"
