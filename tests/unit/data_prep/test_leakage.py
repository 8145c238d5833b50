import random

import pytest

from data_prep import leakage
from data_prep.leakage import NGRAM_WORDS, LeakageCount
from nmt.config import CleaningConfig, PrepareConfig, SourceConfig, TokenizerConfig
from nmt.data.corpus import PreparedCorpus
from tests.unit.data_prep.conftest import Toy, write_pairs

LONG = "On the third day they walked from the old mill to the river near Ulm."
WORDS = LONG[:-1].split()
CHINESE = "听说上个星期昨天我买了一个红色的自行车，三把雨伞。"


def counted(tests: list[str], train: list[str], chunk: int = 3) -> dict[str, int]:
    """Counts of the source side; nothing of the target side is found."""
    chunks = [
        (train[start : start + chunk], ["#"] * len(train[start : start + chunk]))
        for start in range(0, len(train), chunk)
    ]
    splits = {"test": (tests, [f"?{n}" for n in range(len(tests))])}
    count = LeakageCount(splits)
    for pair in chunks:
        count.read(pair)
    found = count.counts()["test"]
    assert found["target"] == {"exact": 0, "near": 0}
    return found["source"]


@pytest.mark.parametrize(
    ("test", "train", "exact", "near"),
    [
        (LONG, [LONG], 1, 1),
        (LONG, [LONG.upper().replace(" ", ", 7 ")], 0, 1),  # no case, punctuation or digits
        # 15 words have 8 n-grams. Changing the last word changes one, a word in the middle all.
        (LONG, [LONG.replace("Ulm", "Bonn")], 0, 1),
        (LONG, [LONG.replace("old", "new")], 0, 0),
        # 6 of 8 n-grams are 75 %, 5 are 62.5 %.
        (LONG, [LONG.replace("river near Ulm", "river by sea")], 0, 1),
        (LONG, [LONG.replace("the river near Ulm", "a house by sea")], 0, 0),
        (LONG, [f"He said: {LONG} And so it was."], 0, 1),  # within a longer sentence
        (LONG, [""], 0, 0),
        # N-grams may be in several lines, but do not cross lines.
        (LONG, [" ".join(WORDS[:11]), " ".join(WORDS[4:])], 0, 1),
        (LONG, [" ".join(WORDS[:7]), " ".join(WORDS[7:])], 0, 0),
        ("Good day!", ["Good day!"], 1, 1),
        ("Good day!", ["good day"], 0, 1),
        ("Good day!", ["Good day, Sir!"], 0, 0),  # a short sentence must be the whole line
        ("Good day!", ["Good", "day good"], 0, 0),
        # Sentences without a word can only be exact.
        ("1 2 3", ["1 2 3"], 1, 0),
        ("1 2 3", ["4 5 6", ""], 0, 0),
        ("वह किताब पढ़ता है", ["वह किताब पढ़ती है"], 0, 0),  # another vowel sign
        ("Good day ❤️ 1️⃣", ["Good day"], 0, 1),  # the marks of emojis are no words
        # In scripts without blanks, n-grams are 16 characters: 6 of 8, or none, are the same.
        (CHINESE, [CHINESE.replace("雨伞", "衣服")], 0, 1),
        (CHINESE, [CHINESE.replace("自行车", "小汽车")], 0, 0),
        ("昨天我买了一本书", ["昨天我买了一本书吗？"], 0, 0),
        ("ฉันซื้อรถ", ["ฉันซื้อรถ ๆ!"], 0, 0),
        ("ฉันซื้อรถ", ["“ฉันซื้อรถ”"], 0, 1),
    ],
)
def test_long_sentences_are_compared_by_n_grams_and_short_ones_as_a_whole(
    test: str, train: list[str], exact: int, near: int
) -> None:
    assert len(WORDS) - NGRAM_WORDS + 1 == 8
    assert counted([test], ["something else", *train, "x"]) == {"exact": exact, "near": near}


def test_repeated_test_sentences_are_counted_each_time() -> None:
    assert counted(["Good day!", "No.", "Good day!"], ["Good day!"] * 5)["exact"] == 2


def test_pairs_and_splits_are_counted_separately() -> None:
    tests = {"one": (["a", "b"], ["x", "y"]), "two": (["a"], ["z"])}
    chunks = [(["a", "c"], ["x", "z"]), (["b"], ["q"])]
    count = LeakageCount(tests)
    for chunk in chunks:  # each part of the text is read by itself
        part = LeakageCount(tests)
        part.read(chunk)
        count.add(part.found())
    found = count.counts()
    assert found["one"] == {
        "sentences": 2,
        "source": {"exact": 2, "near": 2},
        "target": {"exact": 1, "near": 1},
        "pairs": {"exact": 1},
    }
    assert found["two"]["pairs"] == {"exact": 0}
    assert found["two"]["source"]["exact"] == found["two"]["target"]["exact"] == 1


def test_hashes_agree_with_a_comparison_of_words() -> None:
    generator = random.Random(5)
    lines = [" ".join(generator.choices("abcd", k=generator.randint(1, 14))) for _ in range(400)]
    tests, train = lines[:60], lines[60:]

    def ngrams(line: str) -> list[tuple[str, ...]]:
        words = line.split()
        last = len(words) - NGRAM_WORDS
        return [tuple(words[n : n + NGRAM_WORDS]) for n in range(last + 1)] or [(*words, "short")]

    seen = {ngram for line in train for ngram in ngrams(line)}
    shares = [sum(ngram in seen for ngram in ngrams(line)) / len(ngrams(line)) for line in tests]
    expected = sum(share >= 0.7 for share in shares)
    assert 0 < expected < 60
    assert counted(tests, train, chunk=50)["near"] == expected


def test_tags_of_sources_are_not_compared(toy: Toy) -> None:
    sources = {"back": SourceConfig(path=str(toy.raw), tag="<BT>")}
    write_pairs(toy.raw, "test", *([toy.lines(f"train.{side}")[7]] for side in ("en", "de")))
    cleaning = CleaningConfig(drop_test_sentences=False, drop_duplicates=False)
    # Only the source with the tag has all pairs.
    work = PrepareConfig(num_processes=1)
    folder = toy.prepare(work=work, cleaning=cleaning, sources=sources, max_train_pairs=1)
    found = PreparedCorpus(folder).leakage["test"]
    assert found["source"] == found["target"] == {"exact": 1, "near": 1}
    assert found["pairs"] == {"exact": 1}


def test_leakage_is_counted_once_and_stored_in_the_manifest(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pairs(toy.raw, "test", *([toy.lines(f"train.{side}")[7], "???"] for side in ("en", "de")))
    cleaning = CleaningConfig(drop_test_sentences=False)
    prepared = PreparedCorpus(toy.prepare(cleaning=cleaning))
    assert prepared.leakage["test"]["sentences"] == 2
    assert prepared.leakage["test"]["pairs"] == {"exact": 1}
    assert set(prepared.leakage) == {"valid", "test"}
    assert "Test sentences in the training text" in (prepared.folder / "report.html").read_text()
    # With another tokenizer the stored counts are used.
    monkeypatch.setattr(leakage, "LeakageCount", lambda *_: pytest.fail("counted again"))
    other = toy.prepare(TokenizerConfig(vocabulary_size=320), cleaning=cleaning)
    assert PreparedCorpus(other).leakage == prepared.leakage
