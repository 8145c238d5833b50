from hypothesis import given
from hypothesis import strategies as st

from data_prep.clean import Pair
from data_prep.duplicates import SeenPairs

PAIRS = st.lists(st.builds(Pair, st.sampled_from("abcdef"), st.sampled_from("uvwxyz")), max_size=9)


@given(st.lists(PAIRS, max_size=12))
def test_equals_a_set(chunks: list[list[Pair]]) -> None:
    seen, known = SeenPairs(), set()
    for chunk in chunks:
        expected = []
        for pair in chunk:
            expected.append(pair not in known)
            known.add(pair)
        assert seen.first_seen(chunk).tolist() == expected


def test_runs_stay_few() -> None:
    seen = SeenPairs()
    for number in range(200):
        seen.first_seen([Pair(str(number), str(item)) for item in range(5)])
    assert len(seen._runs) < 10
    assert sum(map(len, seen._runs)) == 1000


def test_the_border_between_the_sides_counts() -> None:
    assert SeenPairs().first_seen([Pair("a b", "c"), Pair("a", "b c")]).all()
