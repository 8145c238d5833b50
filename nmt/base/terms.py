"""Words and their lemmas, and the notation of terms in the sources of models trained with them."""

from collections.abc import Iterable
from functools import lru_cache

import regex

from nmt.base.languages import primary

WORD = regex.compile(r"[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}'’-]*[\p{L}\p{M}\p{N}])?")
"""A word, without the punctuation around it."""

TERM_TAGS = ("<term>", "<as>", "</term>")
"""Pieces of the vocabulary: before a term, between it and its translation, and after that."""


@lru_cache(maxsize=400_000)  # a server sees any number of words
def lemma(word: str, language: str) -> str:
    """Return the lemma of a word; the word itself in languages that simplemma does not know."""
    import simplemma  # noqa: PLC0415 - only terms need it

    try:
        return str(simplemma.lemmatize(word, lang=primary(language)))
    except ValueError:
        return word


def with_terms(text: str, terms: Iterable[tuple[int, int, str]]) -> str:
    """Write the translations of terms into a text: `A<term> house<as> Haus</term>.`.

    The tags (Dinu et al. 2019) stand where the text has no blank, so that the pieces of its words
    stay the same.

    Args:
        text: a sentence.
        terms: start, end and translation of each term, from left to right.
    """
    before, between, after = TERM_TAGS
    parts, last = [], 0
    for start, end, translation in terms:
        parts.append(text[last:start].removesuffix(" "))
        parts.append(f"{before} {text[start:end]}{between} {translation}{after}")
        last = end
    return "".join([*parts, text[last:]])
