"""Comparison with a baseline: the sentences that changed most, and terms."""

from pathlib import Path

from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.comparison import compared_texts, terms_of
from nmt.run_folder import StoredTexts
from tests.support import write_corpus


def test_sentences_that_changed_most_in_both_directions_and_recall_of_terms() -> None:
    reference = [f"the cat number {i} sat on the mat" for i in range(9)]
    before = [*reference[:2], *(f"the cat {i}" for i in range(2, 8)), "the same"]
    after = ["the cat", "the cat number 1 sat", *reference[2:8], "the same"]
    texts = StoredTexts("test", list("abcdefghi"), [reference], after, before)
    found = compared_texts("old", "because", texts, ["number"])
    assert [(row.line, row.source) for row in found.worse] == [(1, "a"), (2, "b")]
    assert len(found.better) == 5
    assert {row.source for row in found.better} <= set("cdefgh")
    assert all(row.chrf == 100.0 > row.chrf_baseline for row in found.better)
    first = found.better[0]
    assert first.baseline == before[first.line - 1]
    assert first.translation == first.reference == reference[first.line - 1]
    table = found.to_json()
    assert (table["system"], table["why"]) == ("old", "because")
    assert list(table["bleu"])[:2] == ["baseline", "difference"]
    assert table["terms"] == {
        "words": ["number"],
        "occurrences": 9,
        "baseline": 100 * 2 / 9,
        "system": 100 * 7 / 9,
    }
    assert table["worse"][0]["translation"] == "the cat"


def test_terms_are_those_of_the_corpus_without_mixed_in_text(
    tmp_path: Path, tokenizer_path: Path
) -> None:
    pairs = [("Kalo mine", "Kalo mine")] * 6
    folder = tmp_path / "toy-1"
    corpus = PreparedCorpus(write_corpus(folder, tokenizer_path, {"train": pairs, "valid": pairs}))
    assert terms_of(corpus, ("Kalo",) * 6) == ["mine"]
    assert terms_of(corpus, ()) == []
    corpus.manifest["sources"] = {"toy": 4, "general": 2}
    other = PreparedCorpus(folder)
    other.manifest["sources"] = {"toy": 4, "general": 2}
    assert terms_of(other, ("Kalo",) * 6) == []
