from pathlib import Path

from nmt.config import DecodingConfig
from nmt.trained_model import TrainedModel, load_trained_model
from nmt.translation.choices import next_beginnings
from nmt.translation.translator import Translator
from tests.support import made_up_sentences, reversed_digits

DIGITS = Path(__file__).parents[3] / "models" / "digits_v1"


def test_beginnings_continue_the_prefix_with_different_words(trained_model: TrainedModel) -> None:
    for source in made_up_sentences(8, seed=4):
        for prefix in ("", "Kalo", "Raso ti, ne"):
            found = next_beginnings(trained_model, source, prefix, 5)
            assert 1 < len(found) == len(set(found)) <= 5
            for one in found:
                before, word = one[: len(prefix)], one[len(prefix) :]
                assert before == prefix
                assert word.strip()
                assert not prefix or word.startswith(" ")


def test_the_first_beginning_is_that_of_greedy_search() -> None:
    model = load_trained_model(DIGITS)
    greedy = Translator(model, DecodingConfig(beam_size=1, copy_untranslatable=False))
    sources = [source for source, _ in reversed_digits(8, seed=5)]
    for source, [best] in zip(sources, greedy.translate(sources), strict=True):
        words = best.text.split()
        for length in range(len(words)):
            first, *_ = next_beginnings(model, source, " ".join(words[:length]), 1)
            assert first.split() == words[: length + 1]
