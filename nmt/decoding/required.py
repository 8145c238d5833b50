"""Phrases that a translation has to have, by dynamic beam allocation (Post and Vilar 2018).

The hypotheses of a sentence fall into banks by how many of the required tokens they have, and each
bank has its share of the beam. So some hypothesis always comes closer to having them all, at
whatever cost, and the others wait for the place where a phrase fits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from nmt.decoding.choice import Chooser
from nmt.decoding.live import Choice, NextTokens
from nmt.decoding.task import Ids


def missing(ids: Ids, phrases: Sequence[Ids]) -> list[Ids]:
    """The phrases that do not occur in `ids`."""
    return [phrase for phrase in phrases if not _occurs(phrase, ids)]


def _occurs(phrase: Ids, ids: Ids) -> bool:
    wanted, size = list(phrase), len(phrase)
    return any(list(ids[at : at + size]) == wanted for at in range(len(ids) - size + 1))


def _begun(phrase: Ids, ids: Ids) -> int:
    """How many tokens of a phrase that does not occur in `ids` stand at their end."""
    sizes = range(min(len(phrase) - 1, len(ids)), 0, -1)
    return next((n for n in sizes if list(ids[len(ids) - n :]) == list(phrase[:n])), 0)


def num_met(ids: Ids, phrases: Sequence[Ids]) -> int:
    """How many tokens of the phrases `ids` have: those of whole ones, and of one just begun."""
    lacking = missing(ids, phrases)
    whole = sum(map(len, phrases)) - sum(map(len, lacking))
    return whole + max((_begun(phrase, ids) for phrase in lacking), default=0)


def shares(num_places: int, counts: Sequence[int]) -> list[int]:
    """The places that each bank gets, of the number of candidates that each has.

    All banks have like shares, the last what is over. What a bank does not need goes to those with
    most tokens first.

    Args:
        num_places: K.
        counts: candidates by the number of tokens that they have, from 0 to all.
    """
    equal, over = divmod(num_places, len(counts))
    wanted = [equal] * (len(counts) - 1) + [equal + over]
    given = [min(share, count) for share, count in zip(wanted, counts, strict=True)]
    left = num_places - sum(given)
    for bank in reversed(range(len(counts))):
        more = min(left, counts[bank] - given[bank])
        given[bank] += more
        left -= more
    return given


class _Candidate(NamedTuple):
    """One continuation of one row."""

    log_prob: float
    row: int
    token: int
    token_log_prob: float
    num_met: int


@dataclass(frozen=True)
class RequiredChooser:
    """Chooses as another chooser does, but where phrases are required.

    Candidates are then the other's, the best token of each row and those that go on with a phrase
    that is missing.

    Attributes:
        base: chooses for all other sentences.
        beam_size: K.
        eos_id: what ends a hypothesis.
    """

    base: Chooser
    beam_size: int
    eos_id: int

    @property
    def num_lanes(self) -> int:
        """As the other."""
        return self.base.num_lanes

    @property
    def ranks_by_sum(self) -> bool:
        """As the other: a hypothesis without hope leaves its place to another of its bank."""
        return self.base.ranks_by_sum

    def __call__(self, found: NextTokens, /) -> Choice:
        """Choose; see `Chooser`."""
        choice = self.base(found)
        asked = [place for place, task in enumerate(found.tasks) if task.demand.required]
        if not asked:
            return choice
        choice = _widened(choice, 2 * self.beam_size)
        listed = found.rows.listed()
        for place in asked:
            self._choose_for(place, found, listed, choice)
        return choice

    def _choose_for(
        self, place: int, found: NextTokens, listed: list[tuple[int, list[int]]], choice: Choice
    ) -> None:
        """Put a sentence's own candidates in the place of what the other has chosen."""
        phrases = found.tasks[place].demand.required
        candidates = self._candidates(place, found, listed, choice)
        total = sum(map(len, phrases))
        complete = [one for one in candidates if one.num_met == total]
        ends = [one for one in complete[: self.beam_size] if one.token == self.eos_id]
        banks: list[list[_Candidate]] = [[] for _ in range(total + 1)]
        # What is cut off now has the phrases too, if anything has.
        length = next(len(ids) for sentence, ids in listed if sentence == place)
        is_last = length + 1 >= found.tasks[place].max_length
        for one in complete if complete and is_last else candidates:
            if one.token != self.eos_id:
                banks[one.num_met].append(one)
        given = shares(self.beam_size, list(map(len, banks)))
        goes = [one for bank, count in zip(banks, given, strict=True) for one in bank[:count]]
        chosen = sorted((*ends, *goes), key=lambda one: -one.log_prob)
        choice.log_probs[place] = -torch.inf
        choice.ends[place] = choice.goes[place] = False
        for rank, one in enumerate(chosen):
            choice.log_probs[place, rank] = one.log_prob
            choice.parents[place, rank] = one.row
            choice.tokens[place, rank] = one.token
            choice.token_log_probs[place, rank] = one.token_log_prob
            choice.ends[place, rank] = one.token == self.eos_id
            choice.goes[place, rank] = one.token != self.eos_id

    def _candidates(
        self, place: int, found: NextTokens, listed: list[tuple[int, list[int]]], choice: Choice
    ) -> list[_Candidate]:
        """All that are looked at for a sentence, best first."""
        phrases = found.tasks[place].demand.required
        is_there = choice.log_probs[place].isfinite()
        pairs = set(
            zip(
                choice.parents[place][is_there].tolist(),
                choice.tokens[place][is_there].tolist(),
                strict=True,
            )
        )
        rows = [row for row, (sentence, _) in enumerate(listed) if sentence == place]
        pairs.update(zip(rows, found.log_probs[rows].argmax(dim=1).tolist(), strict=True))
        for row in rows:
            ids = listed[row][1]
            for phrase in missing(ids, phrases):
                pairs.update({(row, phrase[0]), (row, phrase[_begun(phrase, ids)])})
        looked_at = sorted(pairs)
        at = [row for row, _ in looked_at]
        tokens = [token for _, token in looked_at]
        token_log_probs = found.log_probs[at, tokens]
        sums = (found.rows.log_probs[at] + token_log_probs).tolist()
        candidates = [
            _Candidate(log_prob, row, token, token_log_prob, num_met(after, phrases))
            for log_prob, row, token, token_log_prob in zip(
                sums, at, tokens, token_log_probs.tolist(), strict=True
            )
            if log_prob > -torch.inf
            for after in [listed[row][1] + [token] * (token != self.eos_id)]
        ]
        return sorted(candidates, key=lambda one: -one.log_prob)


def _widened(choice: Choice, width: int) -> Choice:
    """A copy of a choice with `width` candidates a sentence at least, those added being none."""
    num_sentences, present = choice.log_probs.shape
    width = max(width, present)

    def filled(matrix: torch.Tensor, fill: float) -> torch.Tensor:
        wide = matrix.new_full((num_sentences, width), fill)
        wide[:, :present] = matrix
        return wide

    return Choice(
        choice.rows,
        filled(choice.log_probs, -torch.inf),
        filled(choice.parents, 0),
        filled(choice.tokens, 0),
        filled(choice.token_log_probs, 0.0),
        filled(choice.ends, False),
        filled(choice.goes, False),
    )
