"""Constituency trees as lines of text, which a model of `experiment=parsing` writes.

In this linearised form, XX stands for a word with its tag (Vinyals et al. 2015, "Grammar as a
Foreign Language"): `(S (NP XX )NP (VP XX )VP )S`. `benchmarks.brackets` scores this form.
"""

WORD = "XX"


def is_linearised(text: str) -> bool:
    """Return whether a text has only symbols of linearised trees."""
    symbols = text.split()
    return bool(symbols) and all(one == WORD or one[0] in "()" for one in symbols)
