"""Text in the form in which "Attention Is All You Need" measures BLEU (Vaswani et al. 2017).

Its German figures were made by the recipe `get_ende_bleu.sh` of tensor2tensor:

1. Full-width and curly punctuation becomes plain: Moses' `replace-unicode-punctuation.perl`.
2. Moses' `tokenizer.perl` for the target language.
3. German alone: compounds are split at hyphens, `rich-text` → `rich ##AT##-##AT## text`. The
   script's expression is `s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g`, applied to tokenised text.
4. BLEU by `multi-bleu.perl`: words are what stands between spaces, case counts, no smoothing.

Steps 1 and 2 are done by sacremoses, Moses' scripts in Python, and here to both sides alike (the
script took references that were tokenised before). tokenizer.perl also writes `'` as `&apos;` and
the like; one token stays one token by that, so it is left out. A split compound is three tokens,
the middle one of which nearly always matches, so German figures in this form are higher than those
on raw text, and compare with figures in this form alone (Post 2018, section 3).
"""

import re
from functools import cached_property
from importlib import metadata
from typing import Any

_COMPOUND = re.compile(r"(\S)-(\S)")
_SPLIT_COMPOUND = r"\1 ##AT##-##AT## \2"

_COMPOUND_LANGUAGES = ("de",)


class PaperForm:
    """The form of one target language.

    Args:
        language: its code. Where Moses has no list of abbreviations, it takes the English one.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._splits_compounds = language in _COMPOUND_LANGUAGES

    @property
    def signature(self) -> str:
        """What is done to the text, for the signature of the score."""
        version = metadata.version("sacremoses")
        ending = "+atat" if self._splits_compounds else ""
        return f"sacremoses:{version}-{self._language}{ending}"

    @cached_property
    def _moses(self) -> tuple[Any, Any]:
        # Here, not above: it takes a quarter of a second, and translating never needs it.
        import sacremoses  # noqa: PLC0415

        language = self._language
        return sacremoses.MosesPunctNormalizer(language), sacremoses.MosesTokenizer(language)

    def text(self, line: str) -> str:
        """A line in the paper's form: tokens between single spaces."""
        normaliser, tokenizer = self._moses
        plain = normaliser.replace_unicode_punct(line)
        tokenised: str = tokenizer.tokenize(plain, escape=False, return_str=True)
        if self._splits_compounds:
            tokenised = _COMPOUND.sub(_SPLIT_COMPOUND, tokenised)
        return tokenised
