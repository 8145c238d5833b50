"""What changes the log-probabilities of a step: each constraint is a small piece for all rows.

A constraint forbids a token by -inf. What the others have is not shared out anew: the
log-probabilities of a hypothesis stay the model's.
"""

from dataclasses import dataclass
from typing import Protocol

import torch

from nmt.config import DecodingConfig
from nmt.decoding.live import NO_TOKEN, NextTokens
from nmt.decoding.required import missing
from nmt.decoding.task import TargetIds


class Constraint(Protocol):
    """Changes the log-probabilities of a step."""

    def __call__(self, found: NextTokens, /) -> None:
        """Change them in place."""


def constraints(config: DecodingConfig, ids: TargetIds) -> list[Constraint]:
    """The constraints that a configuration or a task can ask for, in the order they apply."""
    chosen: list[Constraint] = []
    if config.repetition_penalty != 1:
        chosen.append(RepetitionPenalty(config.repetition_penalty))
    if config.no_repeat_ngram:
        chosen.append(NoRepeatedNgram(config.no_repeat_ngram))
    chosen.append(MinLength(ids.eos_id))
    chosen.append(RequiredPhrases(ids.eos_id))
    chosen.append(BannedPhrases())
    # The prefix is the user's own: it comes last, so that no other constraint forbids it.
    chosen.append(ForcedPrefix())
    return chosen


@dataclass(frozen=True)
class RepetitionPenalty:
    """Tokens that a hypothesis has already lose by a factor (Keskar et al. 2019, section 4.1).

    It falls on log-probabilities, which are never positive, so that a token only loses by it.
    """

    factor: float

    def __call__(self, found: NextTokens, /) -> None:
        """Multiply the log-probabilities of the tokens that a row has."""
        if found.rows.tokens.size(1) == 1:
            return
        tokens = found.rows.tokens[:, 1:]
        # Beyond its end a row repeats its own last token: assigning it twice is harmless.
        tokens = torch.where(tokens == NO_TOKEN, found.rows.last_tokens()[:, None], tokens)
        log_probs = found.log_probs.gather(1, tokens)
        is_begun = (found.rows.lengths > 0)[:, None]
        penalised = torch.where(is_begun, self.factor * log_probs, log_probs)
        found.log_probs.scatter_(1, tokens, penalised)


@dataclass(frozen=True)
class NoRepeatedNgram:
    """No n tokens in a row occur a second time."""

    size: int

    def __call__(self, found: NextTokens, /) -> None:
        """Forbid what would complete n tokens that a row has already."""
        for row, (_, ids) in enumerate(found.rows.listed()):
            last = ids[len(ids) - self.size + 1 :] if self.size > 1 else []
            repeats = [
                ids[start + self.size - 1]
                for start in range(len(ids) - self.size + 1)
                if ids[start : start + self.size - 1] == last
            ]
            if repeats:
                found.log_probs[row, repeats] = -torch.inf


@dataclass(frozen=True)
class MinLength:
    """No end before the shortest length."""

    eos_id: int

    def __call__(self, found: NextTokens, /) -> None:
        """Forbid EOS where the translation would be too short with it."""
        if not any(task.min_length for task in found.tasks):
            return
        shortest = torch.tensor(
            [task.min_length for task in found.tasks], device=found.log_probs.device
        )
        is_early = found.rows.lengths + 1 < shortest[found.rows.sentences]
        found.log_probs[:, self.eos_id].masked_fill_(is_early, -torch.inf)


@dataclass(frozen=True)
class RequiredPhrases:
    """No end before every required phrase is there; `RequiredChooser` sees to it that they come."""

    eos_id: int

    def __call__(self, found: NextTokens, /) -> None:
        """Forbid EOS where a phrase is missing."""
        if not any(task.demand.required for task in found.tasks):
            return
        lacking = [
            row
            for row, (sentence, ids) in enumerate(found.rows.listed())
            if missing(ids, found.tasks[sentence].demand.required)
        ]
        found.log_probs[lacking, self.eos_id] = -torch.inf


@dataclass(frozen=True)
class BannedPhrases:
    """Runs of ids that do not occur behind the prefix."""

    def __call__(self, found: NextTokens, /) -> None:
        """Forbid the last id of a banned run where a row ends with all before it."""
        if not any(task.demand.banned for task in found.tasks):
            return
        for row, (sentence, ids) in enumerate(found.rows.listed()):
            for phrase in found.tasks[sentence].demand.banned:
                before = list(phrase[:-1])
                if ids[len(ids) - len(before) :] == before:
                    found.log_probs[row, phrase[-1]] = -torch.inf


@dataclass(frozen=True)
class ForcedPrefix:
    """A translation begins as it is told to."""

    def __call__(self, found: NextTokens, /) -> None:
        """Forbid every token but the prefix's, and keep the log-probability of that."""
        if not any(task.demand.prefix for task in found.tasks):
            return
        places = zip(found.rows.sentences.tolist(), found.rows.lengths.tolist(), strict=True)
        forced = [
            (row, found.tasks[sentence].demand.prefix[length])
            for row, (sentence, length) in enumerate(places)
            if length < len(found.tasks[sentence].demand.prefix)
        ]
        if not forced:
            return
        at, tokens = torch.tensor(forced, device=found.log_probs.device).T
        kept = found.log_probs[at, tokens]
        # A token that the search never takes by itself, such as the unknown one, may be forced.
        kept = torch.where(kept.isfinite(), kept, _FORBIDDEN)
        found.log_probs[at] = -torch.inf
        found.log_probs[at, tokens] = kept


# Log-probability of a forced token that is forbidden otherwise: the model's own is lost by then.
_FORBIDDEN = -20.0
