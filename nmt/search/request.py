"""Input of a search: special ids of the vocabulary and the request for each sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

Ids = Sequence[int]


@dataclass(frozen=True)
class TargetIds:
    """Special ids of the target vocabulary.

    Attributes:
        bos_id: first token of every hypothesis.
        eos_id: token that ends a hypothesis.
        banned_ids: tokens that never occur in a translation, such as padding.
    """

    bos_id: int
    eos_id: int
    banned_ids: Ids = ()


@dataclass(frozen=True)
class Request:
    """Constraints on the translation of one sentence, as token ids.

    Attributes:
        prefix: first tokens of the translation.
        required: token sequences that must occur in it.
        banned: token sequences that must not be completed in it after the prefix.
        max_length: longest translation in tokens, EOS included; set by the engine.
        source: tokens of the source, on which random numbers depend; set by the engine.
        num_words: words of the source, for `decoding.trees`; set by the engine.
    """

    prefix: Ids = ()
    required: Sequence[Ids] = ()
    banned: Sequence[Ids] = ()
    max_length: int = 0
    source: Ids = ()
    num_words: int = 0

    @property
    def num_tokens(self) -> int:
        """Tokens of the prefix and of all required sequences."""
        return len(self.prefix) + sum(map(len, self.required))
