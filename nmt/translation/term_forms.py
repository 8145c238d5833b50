"""Forms of the terms of a glossary in training text, found by word alignment."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import islice
from os.path import commonprefix
from pathlib import Path

from nmt.base.files import write_lines
from nmt.base.layout import FORMS_FILE
from nmt.base.terms import WORD
from nmt.translation.alignment import Aligner
from nmt.translation.glossary import Glossary, TermForms

_MOST_PAIRS = 5_000  # that have terms
_MIN_LETTERS = 3  # that the forms of a word have in common
_MIN_SHARE = 0.6  # of the letters of the glossary's form that they have in common
_LONGEST_ENDING = 3  # longer ones are other words, such as compounds


def aligned_forms(
    glossary: Glossary, aligner: Aligner, pairs: Iterable[tuple[str, str]]
) -> TermForms:
    """Return the forms that the terms of a glossary have in parallel text, most frequent first.

    A form begins like the term in the glossary, word for word, and one of its words is aligned with
    the source of the term. Umlauts and accents are ignored.
    """
    with_terms = (pair for pair in pairs if next(glossary.occurrences(pair[0]), None))
    found = list(islice(with_terms, _MOST_PAIRS))
    all_links = aligner.links([source for source, _ in found], [target for _, target in found])
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (source, target), links in zip(found, all_links, strict=True):
        words = [match[0] if (match := WORD.search(word)) else "" for word in target.split()]
        for start, end, term in glossary.occurrences(source):
            first, last = (len(source[:index].split()) - 1 for index in (start + 1, end))
            aligned = {word for other, word in links or () if first <= other <= last}
            for translation in () if term.is_exact else term.targets:
                parts = WORD.findall(translation)
                for begin in range(len(words) - len(parts) + 1):
                    form = words[begin : begin + len(parts)]
                    is_aligned = not aligned.isdisjoint(range(begin, begin + len(parts)))
                    if is_aligned and all(map(are_forms, form, parts)):
                        counts[translation][" ".join(map(_recased, form, parts))] += 1
    return {term: [form for form, _ in forms.most_common()] for term, forms in counts.items()}


def write_forms(folder: Path, forms: TermForms) -> None:
    """Write the forms of terms into a model folder: a term and its forms per line."""
    write_lines(folder / FORMS_FILE, ("\t".join((term, *forms[term])) for term in sorted(forms)))


def are_forms(word: str, like: str) -> bool:
    """Return whether a word begins like the glossary's, and both have endings of a few letters."""
    one, other = map(_letters, (word, like))
    same = len(commonprefix([one, other]))  # noqa: RUF071 - letters are compared
    endings = max(len(one), len(other)) - same
    return same >= max(_MIN_LETTERS, _MIN_SHARE * len(other)) and endings <= _LONGEST_ENDING


def _recased(word: str, like: str) -> str:
    """Return a word with a small first letter if the glossary's word has one."""
    return word[:1].lower() + word[1:] if like[:1].islower() else word


def _letters(word: str) -> str:
    """Return a word without case, accents and umlauts."""
    decomposed = unicodedata.normalize("NFD", word.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))
