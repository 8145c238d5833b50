import itertools

import pytest
import torch

from nmt.config import DecodingConfig, SearchMethod
from nmt.search.request import Request
from nmt.search.sampling import sampling_probabilities, uniform
from tests.unit.nmt.search.tables import BOS, EOS, ORDINARY, Table, config, search


def test_samples_follow_the_probabilities() -> None:
    table = Table(fixed={(): [0.2, 0.0, 0.5, 0.3]})
    options = config(
        beam_size=1000, num_best=1000, method=SearchMethod.sampling, length_penalty=0.0
    )
    [found] = search(table, options, Request(max_length=2))
    firsts = [(hypothesis.ids or [EOS])[0] for hypothesis in found]
    shares = [firsts.count(token) / len(firsts) for token in (EOS, BOS, *ORDINARY)]
    assert shares == pytest.approx([0.2, 0.0, 0.5, 0.3], abs=0.03)


def test_random_numbers_depend_only_on_their_arguments() -> None:
    numbers = {
        uniform(seed, source, sample, position)
        for seed, source, sample, position in itertools.product(
            range(3), ([1, 2], [12], [1, 2, 3]), range(3), range(3)
        )
    }
    assert len(numbers) == 81
    assert uniform(1, [5, 6], 0, 3) == uniform(1, [5, 6], 0, 3)
    assert all(0 <= number < 1 for number in numbers)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [0.1, 0.0, 0.6, 0.3]),
        ({"top_k": 4}, [0.1, 0.0, 0.6, 0.3]),
        ({"top_k": 2}, [0, 0, 2 / 3, 1 / 3]),
        ({"top_p": 0.85}, [0, 0, 2 / 3, 1 / 3]),
        ({"top_p": 0.1}, [0, 0, 1, 0]),
        ({"temperature": 0.5}, [1 / 46, 0, 36 / 46, 9 / 46]),
    ],
)
def test_sampling_probabilities(changes: dict[str, float], expected: list[float]) -> None:
    log_probs = torch.tensor([[0.1, 0.0, 0.6, 0.3]]).log()
    options = DecodingConfig(method=SearchMethod.sampling, **changes)  # type: ignore[arg-type]
    probabilities = sampling_probabilities(log_probs, options)
    assert probabilities[0].tolist() == pytest.approx(expected, abs=1e-6)
