import random
from pathlib import Path

import pytest

from data_prep import leakage
from data_prep.leakage import RUN_WORDS, count_leakage, words_of
from data_prep.prepare import prepare
from data_prep.progress import Reporter
from nmt.config import CorpusConfig, TokenizerConfig
from nmt.data.corpus import PreparedCorpus
from nmt.files import read_lines, write_lines

LONG = "On the third day they walked from the old mill to the river near Ulm."


def counted(tests: list[str], train: list[str], chunk: int = 3) -> dict[str, int]:
    """Counts of the source side; the target side is made so that nothing in it is found."""
    chunks = [
        (train[start : start + chunk], ["#"] * len(train[start : start + chunk]))
        for start in range(0, len(train), chunk)
    ]
    splits = {"test": (tests, [f"?{n}" for n in range(len(tests))])}
    found = count_leakage(splits, chunks, lambda count: None)["test"]
    assert found["target"] == {"exact": 0, "near": 0}
    return found["source"]


def test_words_are_letters_written_small() -> None:
    assert words_of("Am 3. Mai, um 5Uhr: ÉTÉ l'an_neuf 1:0!") == [
        *["am", "mai", "um", "uhr", "été", "l", "an", "neuf"]
    ]


@pytest.mark.parametrize(
    ("train", "exact", "near"),
    [
        (LONG, 1, 1),
        (LONG.upper().replace(" ", ", 7 "), 0, 1),  # case, punctuation and digits are nothing
        # 15 words have 8 runs. One changed word at the edge breaks one, in the middle all of them.
        (LONG.replace("Ulm", "Bonn"), 0, 1),
        (LONG.replace("old", "new"), 0, 0),
        # 6 of 8 runs are 75 %, 5 are 62.5 %.
        (LONG.replace("river near Ulm", "river by sea"), 0, 1),
        (LONG.replace("the river near Ulm", "a house by sea"), 0, 0),
        (f"He said: {LONG} And so it was.", 0, 1),  # within a longer sentence
        ("", 0, 0),
    ],
)
def test_long_sentences_by_their_runs_of_words(train: str, exact: int, near: int) -> None:
    assert len(words_of(LONG)) - RUN_WORDS + 1 == 8
    assert counted([LONG], ["something else", train, "x"]) == {"exact": exact, "near": near}


@pytest.mark.parametrize(
    ("train", "exact", "near"),
    [
        ("Good day!", 1, 1),
        ("good day", 0, 1),
        ("Good day, Sir!", 0, 0),  # a short one has to be the whole line
        ("Good", 0, 0),
        ("day good", 0, 0),
    ],
)
def test_short_sentences_as_a_whole(train: str, exact: int, near: int) -> None:
    assert counted(["Good day!"], [train]) == {"exact": exact, "near": near}


def test_runs_may_come_from_several_lines_but_never_go_over_an_end() -> None:
    words = words_of(LONG)
    halves = [" ".join(words[:11]), " ".join(words[4:])]  # runs 1 to 4 and runs 5 to 8
    assert counted([LONG], halves) == {"exact": 0, "near": 1}
    assert counted([LONG], [" ".join(words[:7]), " ".join(words[7:])]) == {"exact": 0, "near": 0}


def test_sentences_without_a_word_are_exact_alone() -> None:
    assert counted(["1 2 3"], ["1 2 3"]) == {"exact": 1, "near": 0}
    assert counted(["1 2 3"], ["4 5 6", ""]) == {"exact": 0, "near": 0}


def test_a_sentence_counts_as_often_as_it_stands_in_the_test_set() -> None:
    assert counted(["Good day!", "No.", "Good day!"], ["Good day!"] * 5)["exact"] == 2


def test_pairs_and_splits_are_counted_by_themselves() -> None:
    tests = {"one": (["a", "b"], ["x", "y"]), "two": (["a"], ["z"])}
    chunks = [(["a", "c"], ["x", "z"]), (["b"], ["q"])]
    read: list[int] = []
    found = count_leakage(tests, chunks, read.append)
    assert found["one"] == {
        "sentences": 2,
        "source": {"exact": 2, "near": 2},
        "target": {"exact": 1, "near": 1},
        "pairs": {"exact": 1},
    }
    assert found["two"]["pairs"] == {"exact": 0}
    assert found["two"]["source"]["exact"] == found["two"]["target"]["exact"] == 1
    assert read == [2, 1]


def test_hashes_find_what_comparing_words_finds() -> None:
    chance = random.Random(5)
    lines = [" ".join(chance.choices("abcd", k=chance.randint(1, 14))) for _ in range(400)]
    tests, train = lines[:60], lines[60:]

    def runs(line: str) -> list[tuple[str, ...]]:
        words = line.split()
        last = len(words) - RUN_WORDS
        return [tuple(words[n : n + RUN_WORDS]) for n in range(last + 1)] or [(*words, "short")]

    seen = {run for line in train for run in runs(line)}
    shares = [sum(run in seen for run in runs(line)) / len(runs(line)) for line in tests]
    expected = sum(share >= 0.7 for share in shares)
    assert 0 < expected < 60
    assert counted(tests, train, chunk=50)["near"] == expected


def test_preparation_counts_it_once_and_the_corpus_tells(
    folder_config: CorpusConfig,
    small_tokenizer: TokenizerConfig,
    tmp_path: Path,
    quiet: Reporter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = Path(folder_config.path)
    for language in ("en", "de"):
        known = read_lines(raw / f"train.{language}")[7]
        write_lines(raw / f"test.{language}", [known, "???"])
    corpora = tmp_path / "corpora"
    prepared = PreparedCorpus(prepare(folder_config, small_tokenizer, corpora, quiet))
    assert prepared.leakage["test"]["sentences"] == 2
    assert prepared.leakage["test"]["pairs"] == {"exact": 1}
    assert set(prepared.leakage) == {"valid", "test"}
    report = (prepared.folder / "report.html").read_text()
    assert "Test sentences in the training text" in report

    # Other subwords, the same text: what was counted is taken as it is.
    def refuse(*arguments: object) -> None:
        raise AssertionError("counted again")

    monkeypatch.setattr(leakage, "count_leakage", refuse)
    other = prepare(folder_config, TokenizerConfig(vocabulary_size=320), corpora, quiet)
    assert PreparedCorpus(other).leakage == prepared.leakage
