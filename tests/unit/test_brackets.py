import pytest

from benchmarks.brackets import (
    BracketCounts,
    add_counts,
    count_brackets,
    linearise,
    read_linearised,
    read_tree,
)

GOLD = (
    "(TOP (S (NP-SBJ (DT the) (NN dog)) (VP (VBD saw) (NP (NP (DT a) (NN man)) (PP (IN with) (NP"
    " (NNS glasses))))) (. .)))"
)


def counts(gold: str, predicted: str) -> tuple[int, int, int]:
    """Matched, correct and predicted constituents."""
    tree = read_tree(gold)
    found = count_brackets(tree, read_linearised(predicted, tree.words, tree.tags))
    return found.matched, found.gold, found.predicted


def test_a_tree_and_its_linearised_form() -> None:
    tree = read_tree(GOLD)
    assert " ".join(tree.words) == "the dog saw a man with glasses ."
    assert tree.tags[:2] == ["DT", "NN"]
    form = "(S (NP XX XX )NP (VP XX (NP (NP XX XX )NP (PP XX (NP XX )NP )PP )NP )VP XX )S"
    assert linearise(tree) == form
    assert linearise(read_linearised(form, tree.words, tree.tags)) == form


def test_traces_functions_and_unary_chains_are_read_as_by_evalb() -> None:
    tree = read_tree("( (S (NP-SBJ-1 (-NONE- *)) (VP=2 (TO to) (VP (VB go) (NP (NP (NN x)))))) )")
    assert list(tree.words) == ["to", "go", "x"]
    assert linearise(tree) == "(S (VP XX (VP XX (NP (NP XX )NP )NP )VP )VP )S"


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        # Worked by hand: S, NP 0-2, VP 2-7, NP 3-7, NP 3-5, PP 5-7, NP 6-7, without the full stop.
        (GOLD, linearise(read_tree(GOLD)), (7, 7, 7)),
        # The PP belongs to the verb: VP 2-7 (saw … glasses) holds NP 3-5, so NP 3-7 is missing.
        (
            GOLD,
            "(S (NP XX XX )NP (VP XX (NP XX XX )NP (PP XX (NP XX )NP )PP )VP XX )S",
            (6, 7, 6),
        ),
        # The full stop in the VP changes no span.
        (
            GOLD,
            "(S (NP XX XX )NP (VP XX (NP (NP XX XX )NP (PP XX (NP XX )NP )PP )NP XX )VP )S",
            (7, 7, 7),
        ),
        # Another label, and another span.
        ("(S (NP (NN a)) (VP (VB b) (NN c)))", "(S (VP XX )VP (VP XX (NP XX )NP )VP )S", (2, 3, 4)),
        # Two of three equal constituents match: each counts once.
        ("(NP (NP (NN a)))", "(NP (NP (NP XX )NP )NP )NP", (2, 2, 3)),
        ("(NP (NP (NP (NN a))))", "(NP XX )NP", (1, 3, 1)),
        # ADVP and PRT are equal, and TOP is not counted.
        ("(TOP (VP (VB look) (PRT (RP up))))", "(VP XX (ADVP XX )ADVP )VP", (2, 2, 2)),
        # A constituent of punctuation only does not count.
        ("(S (NP (NN a)) (PRN (: -) (: -)))", "(S (NP XX )NP XX (X XX )X )S", (2, 2, 2)),
        # Brackets in the text are words.
        ("(NP (-LRB- -LRB-) (NN a) (-RRB- -RRB-))", "(NP XX (NP XX )NP XX )NP", (1, 1, 2)),
    ],
)
def test_cases_worked_by_hand(gold: str, predicted: str, expected: tuple[int, int, int]) -> None:
    assert counts(gold, predicted) == expected


def test_figures_are_computed_from_sums_over_sentences() -> None:
    tree = read_tree(GOLD)
    other = "(S (NP XX XX )NP (VP XX (NP XX XX )NP (PP XX (NP XX )NP )PP )VP XX )S"
    total = add_counts(
        count_brackets(tree, read_linearised(form, tree.words, tree.tags))
        for form in (linearise(tree), other)
    )
    assert total == BracketCounts(matched=13, gold=14, predicted=13, exact=1, sentences=2)
    assert total.precision == 100
    assert total.recall == pytest.approx(1300 / 14)
    assert total.f1 == pytest.approx(2600 / 27)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NP",
        "(NP (NN a)",
        "(NP (NN a))) (NP (NN b))",
        "(NP (NN a)) x",
        ")",
        "(NN a) (NP (NN b))",
    ],
)
def test_text_that_is_no_tree_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a tree"):
        read_tree(text)


@pytest.mark.parametrize("text", ["( (S (NN a)) (. .))", "( (S (NN a)) (S (NN b)))", "( (NN a))"])
def test_words_outside_of_one_counted_constituent_cannot_be_linearised(text: str) -> None:
    with pytest.raises(ValueError, match=r"more than one tree|outside of all counted"):
        linearise(read_tree(text))


@pytest.mark.parametrize(
    "form",
    ["", "XX", "(NP XX )NP", "(NP XX XX )VP", "(NP XX XX", "(NP XX )NP XX", "(A XX XX )A (B )B"],
)
def test_a_form_that_is_no_tree_over_the_words_is_an_error(form: str) -> None:
    with pytest.raises(ValueError, match=r"does not fit|no tree over 2 words"):
        read_linearised(form, ["a", "b"], ["NN", "NN"])
