from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.base.errors import UserError
from nmt.config import (
    BatchingConfig,
    CorpusConfig,
    Layout,
    MixingConfig,
    MixingStage,
    from_mapping,
)
from nmt.data.batching import plan_epoch
from nmt.data.mixing import Mixing

SIZES = {"clean": 100, "web": 400}
ALL = np.arange(500)


def epochs(config: MixingConfig, number: int, trainable: np.ndarray = ALL) -> list[list[int]]:
    return [Mixing(config, SIZES).pairs(trainable, 1, epoch).tolist() for epoch in range(number)]


def counts(pairs: list[int]) -> tuple[int, int]:
    return sum(index < 100 for index in pairs), sum(index >= 100 for index in pairs)


def test_without_any_setting_each_pair_occurs_once() -> None:
    assert epochs(MixingConfig(), 2) == [ALL.tolist()] * 2


def test_weights_are_shares_of_an_epoch() -> None:
    assert counts(epochs(MixingConfig(weights={"clean": 3, "web": 1}), 1)[0]) == (375, 125)
    # A source without a weight is not used, and does not make the epoch longer.
    assert counts(epochs(MixingConfig(weights={"clean": 0.2}), 1)[0]) == (100, 0)


def test_temperature_equalises_shares() -> None:
    assert counts(epochs(MixingConfig(temperature=2), 1)[0]) == (167, 333)  # 10 to 20
    assert counts(epochs(MixingConfig(temperature=1000), 1)[0]) == (250, 250)


def test_repeats_may_be_fractions() -> None:
    first, second, third = epochs(MixingConfig(repeats={"clean": 2.5, "web": 0.5}), 3)
    assert counts(first) == counts(second) == counts(third) == (250, 200)
    assert {i for i in first + second if i >= 100} == set(range(100, 500))
    assert set(Counter(i for i in first + second if i < 100).values()) == {5}
    assert counts(epochs(MixingConfig(repeats={"web": 0}), 1)[0]) == (100, 0)


def test_stages_follow_each_other() -> None:
    both = MixingStage(epochs=2, weights={"clean": 60, "web": 40})
    config = MixingConfig(stages=[both, MixingStage(weights={"clean": 1})])
    assert list(map(counts, epochs(config, 4))) == [(300, 200), (300, 200), (100, 0), (100, 0)]
    found = Mixing(config, SIZES).stages(ALL)
    assert found == {0: {"clean": 300, "web": 200}, 2: {"clean": 100, "web": 0}}
    # The last stage has no end, also if it has a number of epochs.
    assert list(map(counts, epochs(MixingConfig(stages=[both]), 4))) == [(300, 200)] * 4


def test_packed_rows_have_one_shape_in_all_epochs_of_a_stage() -> None:
    lengths = np.random.default_rng(1).integers(2, 60, (2, 6_000))
    lengths[:, 2_000:] //= 2
    config = BatchingConfig(
        layout=Layout.packed, target_tokens_per_update=5_000, tokens_per_micro_batch=10_000
    )
    stages = [MixingStage(epochs=4, weights={"a": 1, "b": 3}), MixingStage(weights={"a": 1})]
    mixing = Mixing(MixingConfig(stages=stages), {"a": 2_000, "b": 4_000})
    plans = [plan_epoch(*lengths, config, 1, epoch, mixing) for epoch in range(8)]
    shapes = [plan.micro_batches(0)[0].shape for plan in plans]
    assert [shapes.index(shape) for shape in shapes] == [0] * 4 + [4] * 4


@given(
    st.floats(0.01, 5),
    st.floats(0.01, 5),
    st.integers(0, 60),
    st.lists(st.integers(0, 499), min_size=1, unique=True),
)
def test_no_pair_is_repeated_before_all_of_its_source_were_seen(
    clean: float, web: float, epoch: int, trainable: list[int]
) -> None:
    pairs = np.array(sorted(trainable))
    mixing = Mixing(MixingConfig(repeats={"clean": clean, "web": web}), SIZES)
    seen: Counter[int] = Counter()
    for number in range(5):
        try:
            seen.update(mixing.pairs(pairs, 1, number).tolist())
        except UserError:  # so few pairs that an epoch has none
            continue
    for source in (pairs[pairs < 100], pairs[pairs >= 100]):
        times = [seen[index] for index in source.tolist()]
        assert not times or max(times) - min(times) <= 1
    assert seen.keys() <= set(trainable)


def test_a_source_that_cannot_have_its_share_is_named() -> None:
    long = ALL[100:]
    with pytest.raises(UserError, match=r"corpus\.mixing: clean has no pairs to train on"):
        epochs(MixingConfig(weights={"clean": 1, "web": 1}), 1, long)
    with pytest.raises(UserError, match="some epochs have no pairs"):
        epochs(MixingConfig(repeats={"web": 0.001}), 1, long)


def test_an_epoch_that_would_be_empty_or_fill_the_memory_is_refused_at_the_start() -> None:
    # The first epoch would have a pair, and the second none.
    with pytest.raises(UserError, match="some epochs have no pairs"):
        epochs(MixingConfig(repeats={"clean": 0.006, "web": 0}), 1)
    message = "an epoch has 400,000,100 pairs, and at most 100,000,000 are possible"
    with pytest.raises(UserError, match=message):
        epochs(MixingConfig(repeats={"web": 1_000_000}), 1)


def test_the_plan_has_the_pairs_of_the_mixing() -> None:
    mixing = Mixing(MixingConfig(weights={"clean": 1, "web": 1}), SIZES)
    lengths = np.random.default_rng(0).integers(2, 40, size=(2, 500))
    batching = BatchingConfig(target_tokens_per_update=500)
    for epoch in range(2):
        plan = plan_epoch(*lengths, batching, 1, epoch, mixing)
        pairs = np.concatenate([plan.update(number) for number in range(plan.num_updates)])
        assert sorted(pairs) == sorted(mixing.pairs(ALL, 1, epoch))


@pytest.mark.parametrize(
    ("mixing", "message"),
    [
        (
            {"weights": {"web": 1}, "temperature": 2},
            "and corpus.mixing.temperature exclude",
        ),
        ({"weights": {"wbe": 1}}, "no source is named wbe; the sources are mine, web"),
        ({"repeats": {"web": -1}}, "must be between 0 and"),
        ({"weights": {"web": 0}}, "at least one weight"),
        ({"stages": [{"weights": {"web": 1}}, {"weights": {"mine": 1}}]}, "only the last stage"),
        ({"stages": [{"epochs": 1}]}, "at least one weight"),
        ({"stages": [{"epochs": 1, "weights": {"web": 1}}] * 1001}, "at most 1000 items"),
    ],
)
def test_a_mixing_that_makes_no_sense_is_refused(mixing: dict, message: str) -> None:
    values = {"name": "mine", "sources": {"web": {"path": "x"}}, "mixing": mixing}
    with pytest.raises(UserError, match=message):
        from_mapping(CorpusConfig, values, "here", "corpus.")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"cleaning": {"max_word": 3}}, r"corpus\.sources\.web\.cleaning\.max_word is not a key"),
        ({"cleaning": {"max_words": 0}}, r"corpus\.sources\.web\.cleaning\.max_words=0"),
        ({"cleaning": {"drop_duplicates": False}}, "set corpus.cleaning.drop_duplicates"),
        ({"hub_dataset": "x"}, r"corpus\.sources\.web\.hub_dataset=x has no effect without"),
        ({"tag": "a\nb"}, r"corpus\.sources: tag='a\\nb' must be printable, in composed"),
        ({"pth": "x"}, r"corpus\.sources\.web\.pth is not a key"),
    ],
)
def test_a_source_that_makes_no_sense_is_refused(source: dict, message: str) -> None:
    values = {"name": "mine", "sources": {"web": source}}
    with pytest.raises(UserError, match=message):
        from_mapping(CorpusConfig, values, "here", "corpus.")
