import pytest

from nmt.base.errors import UserError
from nmt.cli.models import check_length_penalty
from nmt.config import DecodingConfig, LengthPenalty


def test_a_length_penalty_without_effect_is_refused() -> None:
    average = DecodingConfig(length_penalty_kind=LengthPenalty.average)
    check_length_penalty(DecodingConfig(), is_given=True)
    check_length_penalty(average, is_given=False)
    with pytest.raises(UserError, match=r"add decoding\.length_penalty_kind=gnmt"):
        check_length_penalty(average, is_given=True)
