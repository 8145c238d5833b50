"""Input of a search: special ids of the vocabulary and the request for each sentence."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

Ids = Sequence[int]

Required = Sequence[Ids]
"""Token sequences of which one must occur, such as the forms of a word."""


@dataclass(frozen=True)
class TargetIds:
    """Special ids of the target vocabulary."""

    bos_id: int  # first token of every hypothesis
    eos_id: int  # token that ends a hypothesis
    banned_ids: Ids = ()  # tokens that never occur in a translation, such as padding


@dataclass(frozen=True)
class Request:
    """Constraints on the translation of one sentence, as token ids."""

    prefix: Ids = ()  # first tokens of the translation
    required: Sequence[Required] = ()  # one sequence of each must occur in the translation
    banned: Sequence[Ids] = ()  # token sequences that must not be completed after the prefix
    # Tokens that continue a word: before one of them, a required sequence does not count.
    continuing: Collection[int] = frozenset()
    # Set by the engine:
    max_length: int = 0  # longest translation in tokens, EOS included
    source: Ids = ()  # tokens of the source, on which random numbers depend

    @property
    def is_plain(self) -> bool:
        """Whether there are no constraints on the tokens."""
        return not (self.prefix or self.required or self.banned)

    @property
    def num_tokens(self) -> int:
        """Tokens of the prefix and of the longest of each required sequence."""
        return len(self.prefix) + sum(map(longest, self.required))


def longest(required: Required) -> int:
    """Return the number of tokens of the longest sequence."""
    return max(map(len, required))
