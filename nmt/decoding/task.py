"""What search is asked."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TargetIds:
    """Special ids of the target vocabulary.

    Attributes:
        bos_id: token that every hypothesis starts from.
        eos_id: token that ends a hypothesis.
        banned_ids: tokens that never occur in a translation, such as padding.
    """

    bos_id: int
    eos_id: int
    banned_ids: Sequence[int] = ()


Ids = Sequence[int]


@dataclass(frozen=True)
class Wish:
    """What a user asks of one translation; nothing by default.

    Attributes:
        prefix: what it begins with.
        required: phrases that occur in it, as they are spelled.
        banned: phrases that do not occur in it, as they are spelled.
    """

    prefix: str = ""
    required: Sequence[str] = ()
    banned: Sequence[str] = ()


@dataclass(frozen=True)
class Demand:
    """What a translation has to have, and must not have; nothing by default.

    Attributes:
        prefix: ids that it begins with.
        required: runs of ids that occur in it.
        banned: runs of ids that do not occur in it.
    """

    prefix: Ids = ()
    required: Sequence[Ids] = ()
    banned: Sequence[Ids] = ()

    @property
    def length(self) -> int:
        """Tokens that a translation needs for it at most, without EOS."""
        return len(self.prefix) + sum(map(len, self.required))


@dataclass(frozen=True)
class Task:
    """What is asked of one sentence.

    Attributes:
        max_length: most tokens of its translation, EOS included.
        min_length: fewest tokens, EOS included.
        demand: prefix, required and banned phrases.
        source: ids that its random stream comes from.
    """

    max_length: int
    min_length: int = 0
    demand: Demand = Demand()
    source: Ids = ()
