from collections.abc import Callable
from dataclasses import replace

import pytest

from nmt.base.errors import UserError
from nmt.cli.models import ModelArguments, check_length_penalty
from nmt.config import DecodingConfig, LengthPenalty, SearchMethod
from nmt.trained_model import TrainedModel


def test_a_length_penalty_without_effect_is_refused() -> None:
    average = DecodingConfig(length_penalty_kind=LengthPenalty.average)
    check_length_penalty(DecodingConfig(), is_given=True)
    check_length_penalty(average, is_given=False)
    with pytest.raises(UserError, match=r"add decoding\.length_penalty_kind=gnmt"):
        check_length_penalty(average, is_given=True)


def test_another_method_drops_the_settings_of_sampling(trained_model: TrainedModel) -> None:
    own = DecodingConfig(method=SearchMethod.sampling, top_k=5, seed=3, min_length=4)
    model = replace(trained_model, config=replace(trained_model.config, decoding=own))
    assert ModelArguments(decoding={"beam_size": "2"}).decoding_config(model) == replace(
        own, beam_size=2
    )
    found = ModelArguments(decoding={"method": "beam"}).decoding_config(model)
    assert found == DecodingConfig(min_length=4)
    with pytest.raises(UserError, match=r"decoding\.top_p=0\.5 has no effect"):
        ModelArguments(decoding={"method": "beam", "top_p": "0.5"}).decoding_config(model)


def test_a_preset_of_the_search_is_one_sentence(run: Callable[..., None]) -> None:
    with pytest.raises(UserError, match=r"decoding=greedy: .* as in decoding\.beam_size=1"):
        run("translate", "file=a.en", "decoding=greedy")
