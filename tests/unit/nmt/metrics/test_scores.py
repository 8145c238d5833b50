from dataclasses import asdict, replace
from functools import partial
from unittest.mock import Mock

import pytest
import sacrebleu

from nmt.base.errors import UserError
from nmt.config import BleuTokenizer, EvaluationConfig
from nmt.metrics import scores as scores_module
from nmt.metrics.scores import Scores, all_scores, bleu_score, sentence_chrf
from nmt.metrics.significance import compare

HYPOTHESES = ["the cat sat on the mat .", "a dog runs fast through the park", "hello world again"]
REFERENCES = ["the cat sat on a mat .", "a dog runs quickly through the park", "hello world again"]


@pytest.fixture(scope="module")
def scores() -> Scores:
    return all_scores(HYPOTHESES, REFERENCES, language="de")


def test_scores_and_signatures_equal_sacrebleu(scores: Scores) -> None:
    references = [REFERENCES]
    assert scores.bleu.score == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, references).score)
    chrf = sacrebleu.corpus_chrf(HYPOTHESES, references, word_order=2)
    assert scores.chrf.score == pytest.approx(chrf.score)
    assert scores.ter.score == pytest.approx(sacrebleu.corpus_ter(HYPOTHESES, references).score)
    version = sacrebleu.__version__
    assert scores.bleu.signature == (
        f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    )
    assert scores.chrf.signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:2")
    assert scores.ter.signature.startswith("nrefs:1|case:lc|tok:tercom")


def test_intervals_are_deterministic(scores: Scores) -> None:
    assert all_scores(HYPOTHESES, REFERENCES, language="de") == scores
    assert scores.bleu.ci95 is not None
    assert scores.bleu.ci95 > 0
    assert bleu_score(HYPOTHESES, REFERENCES) == replace(scores.bleu, ci95=None)


def test_perfect_translations() -> None:
    perfect = all_scores(REFERENCES, REFERENCES, language="de")
    assert (perfect.bleu.score, perfect.chrf.score) == pytest.approx((100, 100))
    assert perfect.ter.score == 0


def test_empty_translations_are_scored() -> None:
    assert bleu_score(["", ""], ["a b", "c d"]).score == 0
    assert all_scores(["", ""], ["a b", "c d"], language="de").ter.score == 100


def test_json_layout(scores: Scores) -> None:
    table = asdict(scores)
    names = ["bleu", "chrf", "ter", "paper_bleu", "lowercase_bleu"]
    counts = ["brevity_penalty", "length_ratio", "sentences", "references"]
    assert list(table) == [*names, *counts, "comet"]
    assert all(set(table[name]) == {"score", "signature", "ci95"} for name in names)
    assert table["sentences"] == 3


@pytest.mark.parametrize("score", [bleu_score, partial(all_scores, language="de")])
def test_different_lengths_are_rejected(score: object) -> None:
    with pytest.raises(UserError, match="2 translations for 3 references"):
        score(HYPOTHESES[:2], REFERENCES)  # type: ignore[operator]
    with pytest.raises(UserError, match="the test set is empty"):
        score([], [])  # type: ignore[operator]


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        (["1 2 3", "4 5 6"] * 2, ["1 2 3", "9 8 7"] * 2),
        (["", "", "", "q r s t"], ["a b c d e"] * 3 + ["q r s t"]),
        (["a", "b"], ["", "b"]),
        (["x"], ["y"]),
    ],
)
def test_intervals_of_samples_without_a_match(hypotheses: list[str], references: list[str]) -> None:
    """Some bootstrap samples have no match."""
    found = all_scores(hypotheses, references, language="de")
    assert all(score.ci95 is not None for score in found.by_metric().values())


def test_several_references() -> None:
    """The first translation equals its first reference, the second one its second reference."""
    ours = ["the cat sat on the mat", "a dog runs fast through it"]
    one = [ours[0], "unrelated words stay here"]
    two = ["nothing of this matches either", ours[1]]
    assert bleu_score(ours, one).score < 100
    assert bleu_score(ours, one, two).score == pytest.approx(100)
    found = all_scores(ours, one, two, language="de")
    assert found.paper_bleu.score == pytest.approx(100)
    assert found.ter.score == 0
    assert found.references == 2
    assert found.bleu.signature.startswith("nrefs:2|")
    assert found.bleu.score == sacrebleu.corpus_bleu(ours, [one, two]).score


def test_sentence_chrf_uses_the_closest_reference() -> None:
    one, two, same = sentence_chrf(["ein Hund", "x", "ja"], ["eine Katze", "ein Hund", "ja"])
    assert 0 < one < 100
    assert (two, same) == (0, 100)
    assert sentence_chrf(["ein Hund"], ["eine Katze"], ["ein Hund"]) == [100]


def test_linearised_trees_have_no_ter() -> None:
    trees = ["(S (NP XX XX )NP (VP XX )VP XX )S", "(NP XX )NP"]
    scores = all_scores(trees, trees, language="lin")
    assert scores.by_metric().keys() == {"bleu", "chrf", "paper_bleu", "lowercase_bleu"}
    assert compare(trees, trees, trees).keys() == {"bleu", "chrf"}
    assert all_scores(trees, ["(a) b", "c"], language="en").ter is not None


UNSPACED = {
    "zh": ("zh", "昨天我买了一个红色的自行车。", "昨天我卖了一个红色的自行车。"),
    "ja": ("ja-mecab", "昨日私は赤い自転車を買いました。", "昨日私は赤い自転車を売りました。"),
    "ko": ("ko-mecab", "나는 어제 빨간 자전거를 샀습니다.", "나는 어제 빨간 자전거를 팔았습니다."),
    "th": ("char", "เมื่อวานฉันซื้อจักรยานสีแดง", "เมื่อวานฉันขายจักรยานสีแดง"),
    "my": ("char", "မနေ့က ကျွန်တော်စက်ဘီးဝယ်တယ်။", "မနေ့က ကျွန်တော်စက်ဘီးရောင်းတယ်။"),
    "km": ("char", "ម្សិលមិញខ្ញុំបានទិញកង់ក្រហម។", "ម្សិលមិញខ្ញុំបានលក់កង់ក្រហម។"),
    "lo": ("char", "ມື້ວານນີ້ຂ້ອຍຊື້ລົດຖີບສີແດງ", "ມື້ວານນີ້ຂ້ອຍຂາຍລົດຖີບສີແດງ"),
    "bo": ("char", "ཁ་སང་ངས་རྐང་འཁོར་ཉོས།", "ཁ་སང་ངས་རྐང་འཁོར་བཙོངས།"),
}


@pytest.mark.parametrize("language", UNSPACED)
def test_bleu_has_the_tokens_of_the_target_language(language: str) -> None:
    """With 13a, these sentences have too few tokens for a score above 0."""
    tokenizer, reference, other = UNSPACED[language]
    assert EvaluationConfig().tokenizer_of(language) == tokenizer
    perfect, changed = (
        all_scores([text], [reference], language=language, tokenizer=tokenizer)
        for text in (reference, other)
    )
    assert perfect.bleu.score == pytest.approx(100)
    assert 10 < changed.bleu.score < 95
    assert f"|tok:{tokenizer}" in changed.bleu.signature
    assert changed.bleu.score == pytest.approx(
        sacrebleu.corpus_bleu([other], [[reference]], tokenize=tokenizer).score
    )
    # Moses has no rules for these languages, and TER has only those for Chinese and Japanese.
    assert changed.paper_bleu is changed.lowercase_bleu is None
    assert (changed.ter is None) == (tokenizer == "char")
    if language in ("zh", "ja"):
        assert changed.ter is not None
        assert "asian:yes" in changed.ter.signature
        assert 0 < changed.ter.score < 50


def test_all_other_languages_keep_13a_unless_the_user_says_so() -> None:
    for language in ("en", "de", "fr", "ru", "hi", "ar", "am", "ka", "source", "lin"):
        assert EvaluationConfig().tokenizer_of(language) == "13a"
    assert EvaluationConfig(bleu_tokenizer=BleuTokenizer("intl")).tokenizer_of("zh") == "intl"


def test_a_tokeniser_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores_module, "BLEU", Mock(side_effect=RuntimeError("no MeCab\nat all")))
    with pytest.raises(UserError, match=r"bleu_tokenizer=ja-mecab does not work here: no MeCab;"):
        bleu_score(["a"], ["a"], tokenizer="ja-mecab")
