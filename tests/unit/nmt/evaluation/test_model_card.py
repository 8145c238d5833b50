"""The README of a model folder states what was recorded, and no more."""

from typing import Any

from pydantic import TypeAdapter

from nmt.evaluation.model_card import USAGE, Facts, model_card
from nmt.model.build import count_parameters
from nmt.trained_model import TrainedModel

SCORE = {"score": 37.126, "signature": "nrefs:1|tok:13a", "ci95": 0.9}
TEST_SET: dict[str, Any] = {
    "bleu": SCORE,
    "chrf": SCORE,
    "length_ratio": 0.9,
    "test_set": {"known_as": "wmt14", "warnings": ["it is tokenised"]},
    "phenomena": {
        name: {"accuracy": accuracy, "bleu": 1.0}
        for name, accuracy in {"a": 90.0, "b": 50.0, "c": 70.0, "d": 60.0, "e": None}.items()
    },
}


def card_of(model: TrainedModel, **facts: Any) -> str:
    num_parameters = count_parameters(model.network)
    known = TypeAdapter(Facts).validate_python(facts)
    return model_card(model.config, num_parameters, known, USAGE, ["it is equal"])


def test_every_recorded_fact_is_stated(trained_model: TrainedModel) -> None:
    card = card_of(
        trained_model,
        chosen="checkpoint of update 7",
        training_data=[
            {"name": "news", "pairs": 1234, "licence": "CC0"},
            {"name": "web", "pairs": 5, "licence": ""},
        ],
        test_sets={"newstest": TEST_SET},
        cost={"training_flops": 2e15, "device_hours": 1.5, "target_tokens": 9000},
    )
    for line in (
        "# Translator en-de",
        "- it is equal",
        "- news: 1,234 sentence pairs; CC0",
        "- web: 5 sentence pairs; licence not recorded",
        "- cost: 2e+15 floating-point operations, 1.50 device hours, 9,000 target tokens",
        "- weights chosen on validation: checkpoint of update 7",
        "- newstest (wmt14): BLEU 37.13 ± 0.90 `nrefs:1|tok:13a`",
        "- newstest: translations have 90% of the references' length",
        "- newstest: 50 % of the sentences with b are correct",
        "- newstest: it is tokenised",
        "- the model reads at most 31 pieces of a source at once",
    ):
        assert line in card.splitlines()
    assert "with a are" not in card  # only the three weakest
    assert 'nmt.load("THIS_FOLDER")' in card


def test_unknown_facts_leave_no_empty_section(trained_model: TrainedModel) -> None:
    card = card_of(trained_model)
    assert "## Scores" not in card
    assert "## Training" not in card


def test_recorded_text_does_not_add_headings_or_control_characters(
    trained_model: TrainedModel,
) -> None:
    languages = ", ".join(f">>l{number}<<" for number in range(200))
    card = card_of(trained_model, notes=["from\n## Title\x1b[31m", languages])
    assert "- from ## Title\\x1b[31m" in card.splitlines()
    assert f"- {languages}" in card.splitlines()  # not shortened


def test_names_are_shown_as_they_are(trained_model: TrainedModel) -> None:
    card = card_of(trained_model, test_sets={"a|<b>*x* held_out": TEST_SET})
    assert r"- a\|\<b\>\*x\* held_out (wmt14)" in card
    assert "<b>" not in card
