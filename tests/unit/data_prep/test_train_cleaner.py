from hypothesis import example, given
from hypothesis import strategies as st

from data_prep.clean import Pair
from data_prep.train_cleaner import SeenPairs

PAIRS = st.lists(st.builds(Pair, st.sampled_from("abcdef"), st.sampled_from("uvwxyz")), max_size=9)


@given(st.lists(PAIRS, max_size=12))
@example([[Pair("a b", "c"), Pair("a", "b c")]])  # equal if concatenated
def test_seen_pairs_equal_a_set(chunks: list[list[Pair]]) -> None:
    seen, known = SeenPairs(), set()
    for chunk in chunks:
        expected = []
        for pair in chunk:
            expected.append(pair not in known)
            known.add(pair)
        assert seen.first_seen(chunk).tolist() == expected
