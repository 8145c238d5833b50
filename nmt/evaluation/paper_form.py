"""Text in the forms in which papers measured BLEU before sacrebleu: tokens between spaces.

`PaperForm` is that of "Attention Is All You Need" (Vaswani et al. 2017), whose German figures were
made by the recipe `get_ende_bleu.sh` of tensor2tensor:

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

`LowercaseForm` is that of figures on Multi30k, whose text is given out in it, made by the data
set's own `task1-tokenize.sh`: `lowercase.perl`, `normalize-punctuation.perl` and `tokenizer.perl`;
then BLEU as in step 4. The German references of test_2016_flickr have 12,103 tokens in it, as in
the log that Wu et al. 2021, "Good for Misconceived Reasons", give out with their 41.02.
"""

import re
from abc import ABC, abstractmethod
from functools import cached_property
from importlib import metadata
from typing import Any

_COMPOUND = re.compile(r"(\S)-(\S)")
_SPLIT_COMPOUND = r"\1 ##AT##-##AT## \2"

_COMPOUND_LANGUAGES = ("de",)


class TokenisedForm(ABC):
    """What the forms have in common.

    Args:
        language: its code. Where Moses has no list of abbreviations, it takes the English one.
        ending: what the signature says beside tokenising.
    """

    is_lowercase = False
    """Whether case is gone, for the signature."""

    def __init__(self, language: str, ending: str) -> None:
        self._language = language
        self._ending = ending

    @abstractmethod
    def text(self, line: str) -> str:
        """A line in this form: tokens between single spaces."""

    @property
    def signature(self) -> str:
        """What is done to the text, for the signature of the score."""
        return f"sacremoses:{metadata.version('sacremoses')}-{self._language}{self._ending}"

    @cached_property
    def _moses(self) -> tuple[Any, Any]:
        # Here, not above: it takes a quarter of a second, and translating never needs it.
        import sacremoses  # noqa: PLC0415

        language = self._language
        return sacremoses.MosesPunctNormalizer(language), sacremoses.MosesTokenizer(language)

    def _tokenised(self, line: str) -> str:
        tokenised: str = self._moses[1].tokenize(line, escape=False, return_str=True)
        return tokenised


class PaperForm(TokenisedForm):
    """The form of "Attention Is All You Need" in one language."""

    def __init__(self, language: str) -> None:
        self._splits_compounds = language in _COMPOUND_LANGUAGES
        super().__init__(language, "+atat" if self._splits_compounds else "")

    def text(self, line: str) -> str:
        """A line in the paper's form."""
        tokenised = self._tokenised(self._moses[0].replace_unicode_punct(line))
        if self._splits_compounds:
            tokenised = _COMPOUND.sub(_SPLIT_COMPOUND, tokenised)
        return tokenised


class LowercaseForm(TokenisedForm):
    """The form of the text that Multi30k gives out, in one language."""

    is_lowercase = True

    def __init__(self, language: str) -> None:
        super().__init__(language, "+norm")

    def text(self, line: str) -> str:
        """A line in lower case, with plain punctuation."""
        return self._tokenised(self._moses[0].normalize(line.lower()))
