from dataclasses import replace

import pytest

from data_prep.terminology import Terms
from nmt.base.errors import UserError
from nmt.base.files import read_json, read_lines
from nmt.base.terms import TERM_TAGS
from nmt.data.corpus import PreparedCorpus
from nmt.tokenizer import Tokenizer
from tests.unit.data_prep.conftest import WORDS, Toy, sentences, write_pairs

TERMS = Terms(1.0, ("en", "de"), {"house": {"haus", "heim"}, "red": {"rot"}, "cat": {"katze"}})


@pytest.fixture
def translated(toy: Toy) -> Toy:
    """Training text whose words translate each other, in reverse order."""
    german = dict(zip(WORDS["en"], WORDS["de"], strict=True))
    rare = [f"{a}x{b}" for a in WORDS["en"] for b in WORDS["fr"]]
    lines = [
        f"{line} {rare[number % len(rare)]}"
        for number, line in enumerate(sentences("en", 2000, seed=1))
    ]
    targets = [
        " ".join(german.get(word, f"{word}o") for word in reversed(line.split())) for line in lines
    ]
    write_pairs(toy.raw, "train", lines, targets)
    return replace(toy, config=replace(toy.config, terminology=0.5))


def test_words_with_one_translation_are_terms() -> None:
    target = "Die roten Häuser und die Katzen"
    found = {TERMS.annotated(f"red houses {n} cats", target) for n in range(40)}
    without_number = {text.replace(text.split(" cats")[0][-2:], "") for text in found}
    assert all(tag in text for text in found for tag in TERM_TAGS)
    assert any("<term> red houses<as> rot Haus</term>" in text for text in found)
    assert any("<term> red<as> rot</term> houses" in text for text in found)
    assert any("<term> cats<as> Katze</term>" in text for text in found)
    assert len(without_number) > 3
    source = "A house"
    for unclear in ("Haus Heim", "Haus Haus", "Hut"):
        assert TERMS.annotated(source, unclear) == source
    assert TERMS.annotated("house house", "Haus") == "house house"


def test_the_share_of_the_pairs() -> None:
    half = replace(TERMS, share=0.5)
    texts = [f"cat {number}" for number in range(400)]
    found = [half.annotated(text, "Katze") for text in texts]
    assert found == [half.annotated(text, "Katze") for text in texts]
    changed = [text for text, other in zip(found, texts, strict=True) if text != other]
    assert 150 < len(changed) < 250
    assert {text.partition("</term>")[0] for text in changed} == {"<term> cat<as> Katze"}


def test_a_corpus_with_terms(translated: Toy) -> None:
    folder = translated.prepare()
    lexicon = read_lines(folder / "terms.tsv")
    assert len(lexicon) > 100
    assert all(target == f"{source}o" for source, target in (line.split("\t") for line in lexicon))
    prepared = PreparedCorpus(folder)
    source = Tokenizer(prepared.source_tokenizer)
    assert set(TERM_TAGS) <= set(source.all_pieces())
    train = prepared.train()
    texts = source.decode([train.pair(index)[0].tolist() for index in range(len(train))])
    with_terms = [text for text in texts if "<term>" in text]
    assert 0.3 < len(with_terms) / len(texts) < 0.6
    counts = read_json(folder / "manifest.json")["terminology"]
    assert counts["share"] == 0.5
    assert counts["num_words"] == len(lexicon)
    assert counts["num_terms"] == sum(text.count("<term>") for text in texts)
    assert "<term>" not in "".join(prepared.read_text("valid")[0])


def test_text_without_terms(toy: Toy) -> None:
    with pytest.raises(UserError, match=r"terminology=0\.1: no words of the training text"):
        toy.prepare(terminology=0.1)


def test_languages_and_tokenizers_without_terms(toy: Toy, prepared) -> None:
    with pytest.raises(UserError, match="needs blanks between words, which zh does not have"):
        replace(toy.config, direction="en-zh", terminology=0.1)
    own = replace(toy.tokenizer, path=str(prepared / "tokenizer.model"))
    with pytest.raises(UserError, match="lacks the pieces <term>, <as>, </term>"):
        toy.prepare(own, terminology=0.1)
