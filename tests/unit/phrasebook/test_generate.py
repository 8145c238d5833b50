import dataclasses
import hashlib
import json
import re
from pathlib import Path

import pytest

from data_prep import phrasebook
from data_prep.phrasebook.generate import PhrasebookPair, generate, has_words

Splits = dict[str, list[PhrasebookPair]]

DIGESTS = {
    "de": "db917a997d0b056e45a4023c3ce7c1d00e722423b290dda5edc1c9e367a2e4bb",
    "fr": "e642f9547f710050b6957491bba9e77c765233d7fbf23d17e4dc5ea703416cd8",
}


@pytest.fixture(scope="module", params=[("en", "de"), ("en", "fr")], ids=lambda pair: pair[1])
def drawn(request: pytest.FixtureRequest) -> tuple[str, Splits]:
    languages = request.param
    return languages[1], generate(languages, 2000, 60, 120, seed=3)


def test_splits_have_their_sizes_and_no_sentence_occurs_twice(drawn: tuple[str, Splits]) -> None:
    language, splits = drawn
    sizes = {name: len(pairs) for name, pairs in splits.items()}
    assert sizes == {"train": 2000, "valid": 60, "test": 120, "held_out": 30, "riddle": 24}
    for side in ("en", language):
        texts = [pair.texts[side] for pairs in splits.values() for pair in pairs]
        assert len(texts) == len(set(texts))


def test_lengths_and_typography(drawn: tuple[str, Splits]) -> None:
    _, splits = drawn
    for pairs in splits.values():
        for pair in pairs:
            for text in pair.texts.values():
                assert 3 <= len(text.split(" ")) <= 18
                assert text[0].isupper()
                assert text[-1] in ".?!"
                assert re.search(r"  | [,.]|,,|[^\w\s.,?!'’-]", text) is None, text


def documented_phenomena() -> set[str]:
    text = (Path(phrasebook.__file__).parent / "README.md").read_text(encoding="utf-8")
    return set(re.findall(r"^- `(\w+)`: \w", text.partition("## Phenomena")[2], re.MULTILINE))


def test_markers_hold_of_their_own_reference(drawn: tuple[str, Splits]) -> None:
    _, splits = drawn
    for pair in (pair for pairs in splits.values() for pair in pairs):
        assert set(pair.phenomena) <= documented_phenomena()
        for language, text in pair.texts.items():
            assert all(has_words(text, words) for words in pair.must_contain[language])
            wrong = pair.must_not_contain.get(language, ())
            assert not any(has_words(text, words) for words in wrong)


def test_phenomena_are_all_drawn(drawn: tuple[str, Splits]) -> None:
    language, splits = drawn
    seen = {name for pair in splits["train"] for name in pair.phenomena}
    other = {
        "de": {"elision", "imperfect", "participle_agreement", "subjunctive"},
        "fr": {"preterite", "separable_verb", "verb_final", "verb_second"},
    }
    assert documented_phenomena() - other[language] <= seen


def test_riddles_are_minimal_pairs(drawn: tuple[str, Splits]) -> None:
    language, splits = drawn
    riddles = splits["riddle"]
    starts = {"de": ("weil er", "weil sie", "weil es"), "fr": ("parce qu'il", "parce qu'elle")}
    for first, second in zip(riddles[::2], riddles[1::2], strict=True):
        assert first.group == second.group != ""
        scene = [pair.texts["en"].partition(" because ")[0] for pair in (first, second)]
        assert scene[0] == scene[1]
        shown = [
            set(pair.must_contain[language]) & set(starts[language]) for pair in (first, second)
        ]
        assert len(shown[0]) == len(shown[1]) == 1
        assert shown[0] <= set(second.must_not_contain[language])
        assert shown[1] <= set(first.must_not_contain[language])


def test_number_of_riddles_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data_prep.phrasebook.generate.MAX_RIDDLES", 2)
    assert len(generate(("en", "de"), 20, 0, 40, seed=3)["riddle"]) == 4


def test_no_riddle_in_training_has_the_scene_of_a_riddle_that_is_held_out(
    drawn: tuple[str, Splits],
) -> None:
    def scene(pair: PhrasebookPair) -> str:
        text = pair.texts["en"].partition(" because ")[0]
        return re.sub(r"(didn't|doesn't|couldn't|can't) ", "", text)

    _, splits = drawn
    held = {scene(pair) for pair in splits["riddle"]}
    assert held.isdisjoint(scene(pair) for pair in splits["train"] if "riddle" in pair.phenomena)


def test_share_and_balance_of_riddles(drawn: tuple[str, Splits]) -> None:
    language, splits = drawn
    riddles = [pair for pair in splits["train"] if "riddle" in pair.phenomena]
    assert 0.12 < len(riddles) / 2000 < 0.2
    feminine = {"de": "weil sie", "fr": "parce qu'elle"}[language]
    share = sum(has_words(pair.texts[language], feminine) for pair in riddles) / len(riddles)
    assert 0.25 < share < 0.65


def test_the_seed_determines_the_pairs_of_both_directions() -> None:
    there, again = (generate(("en", "fr"), 50, 5, 10, seed=1) for _ in range(2))
    assert there == again
    for seed in (1, 2):
        back = generate(("fr", "en"), 50, 5, 10, seed)["train"]
        same = [pair.texts for pair in there["train"]] == [pair.texts for pair in back]
        assert same == (seed == 1)


def test_the_generated_text_does_not_change(drawn: tuple[str, Splits]) -> None:
    """Recorded scores refer to this text: the digests may only change together with them."""
    language, splits = drawn
    pairs = {split: list(map(dataclasses.asdict, splits[split])) for split in splits}
    text = json.dumps(pairs, ensure_ascii=False, sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest() == DIGESTS[language]


def test_unknown_languages_are_refused() -> None:
    with pytest.raises(ValueError, match="de-fr: the phrasebook offers en-de"):
        generate(("de", "fr"), 1, 1, 1, seed=1)
    with pytest.raises(ValueError, match="none may be negative"):
        generate(("en", "de"), -1, 1, 1, seed=1)
