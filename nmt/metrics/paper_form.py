"""Tokenised forms of text in which papers measured BLEU before sacrebleu.

`paper_form` is the form of "Attention Is All You Need" (Vaswani et al. 2017), whose German scores
were computed by the script `get_ende_bleu.sh` of tensor2tensor:

1. Replace full-width and curly punctuation (Moses' `replace-unicode-punctuation.perl`).
2. Tokenise (Moses' `tokenizer.perl`).
3. German only: split compounds at hyphens, `rich-text` → `rich ##AT##-##AT## text`, by
   `s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g`.
4. Compute BLEU with `multi-bleu.perl`: tokens between spaces, case-sensitive, no smoothing.

Here, sacremoses performs steps 1 and 2, for hypotheses and references alike. It writes `'` where
tokenizer.perl writes the entity `&apos;`, which does not change the number of tokens. The middle
token of a split compound nearly always matches. German scores are therefore higher than on raw
text, and comparable only with scores in this form (Post 2018, section 3).

`lowercase_form` is the form in which Multi30k is distributed. Its script `task1-tokenize.sh` runs
`lowercase.perl`, `normalize-punctuation.perl` and `tokenizer.perl`; BLEU is computed as in step 4.
In this form, the German references of test_2016_flickr have 12,103 tokens, as in the log of Wu et
al. 2021.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any

from nmt.base.languages import primary


@dataclass(frozen=True)
class TokenisedForm:
    """Conversion of a line to tokens separated by spaces, and its part of a score's signature."""

    convert: Callable[[str], str]
    signature: str
    is_lowercase: bool


def paper_form(language: str) -> TokenisedForm:
    """Create the form of "Attention Is All You Need" for a language code."""
    normalizer, tokenise, signature = _moses(language)

    def convert(line: str) -> str:
        text = tokenise(normalizer.replace_unicode_punct(line))
        return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", text) if language == "de" else text

    signature += "+atat" if language == "de" else ""
    return TokenisedForm(convert, signature, is_lowercase=False)


def lowercase_form(language: str) -> TokenisedForm:
    """Create the form of the distributed Multi30k text for a language code."""
    normalizer, tokenise, signature = _moses(language)

    def convert(line: str) -> str:
        return tokenise(normalizer.normalize(line.lower()))

    return TokenisedForm(convert, signature + "+norm", is_lowercase=True)


def _moses(language: str) -> tuple[Any, Callable[[str], str], str]:
    """Create Moses' normaliser and tokenizer, and their part of the signature."""
    # Imported here because it takes a quarter of a second, and translation does not need it.
    import sacremoses  # noqa: PLC0415

    # pt_BR becomes pt. For languages without a list, Moses uses the abbreviations of English.
    language = primary(language)
    tokenizer = sacremoses.MosesTokenizer(language)
    tokenise = partial(tokenizer.tokenize, escape=False, return_str=True)
    signature = f"sacremoses:{metadata.version('sacremoses')}-{language}"
    return sacremoses.MosesPunctNormalizer(language), tokenise, signature
