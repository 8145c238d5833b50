"""Configuration group `evaluation`: how translations are scored."""

from collections.abc import Sequence
from enum import StrEnum

from nmt.base.errors import UserError
from nmt.base.languages import has_word_blanks, script_of
from nmt.config.fields import checked_dataclass, option

BleuTokenizer = StrEnum(
    "BleuTokenizer", "auto 13a intl zh ja-mecab ko-mecab char flores101 flores200 none"
)
"""Names of sacrebleu; `auto` stands for the tokeniser of the target language."""

DEFAULT_TOKENIZER = "13a"

_BY_SCRIPT = {
    **dict.fromkeys(("Hans", "Hant", "Hani"), "zh"),
    "Jpan": "ja-mecab",
    **dict.fromkeys(("Kore", "Hang"), "ko-mecab"),
}


@checked_dataclass
class EvaluationConfig:
    """How translations are scored, in validation and on test sets."""

    bleu_tokenizer: BleuTokenizer = BleuTokenizer.auto
    """Tokeniser of BLEU. `auto` is that of the target language: `zh` for Chinese, `ja-mecab` for
    Japanese, `ko-mecab` for Korean, `char` for other languages without blanks between words, such
    as Thai, and `13a` for all others. The first use of `flores101` or `flores200` downloads it."""
    allow_blank: bool = option(False, free=True)
    """Score test sets with blank references, whose translations count as wrong."""

    def tokenizer_of(self, language: str) -> str:
        """Return the name of the tokeniser for a target language."""
        if self.bleu_tokenizer is not BleuTokenizer.auto:
            return str(self.bleu_tokenizer)
        other = DEFAULT_TOKENIZER if has_word_blanks(language) else "char"
        return _BY_SCRIPT.get(script_of(language), other)

    def check_references(self, test_set: str, references: Sequence[Sequence[str]]) -> None:
        """Raise UserError if references are blank and this is not allowed."""
        if not self.allow_blank and (blank := blank_references(references)):
            raise UserError(
                f"test set {test_set}: {blank}; add the missing translations, remove the lines"
                " from all its files, or set evaluation.allow_blank=true"
            )


def blank_references(references: Sequence[Sequence[str]]) -> str:
    """Describe how many references are blank; "" if none is."""
    number = max(sum(not line.strip() for line in lines) for lines in references)
    return f"{number:,} of {len(references[0]):,} references are blank" if number else ""
