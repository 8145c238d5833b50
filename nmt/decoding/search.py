"""Beam search, of which greedy search is beam 1, over a step function; it knows no model.

A step function takes the last tokens of all rows and a state, and gives the logits of the next
token. A row is one live hypothesis; the rows of a sentence stand together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

from nmt.config import DecodingConfig, SearchMethod
from nmt.decoding.choice import BeamChooser, Chooser
from nmt.decoding.constraints import constraints
from nmt.decoding.diversity import DiverseChooser
from nmt.decoding.hypothesis import Hypothesis, best_reachable_penalty, length_penalty
from nmt.decoding.live import Choice, NextTokens, Rows
from nmt.decoding.required import RequiredChooser
from nmt.decoding.sampling import SamplingChooser
from nmt.decoding.task import TargetIds, Task


class SearchState(Protocol):
    """What a step function carries from position to position."""

    def reorder(self, rows: Tensor) -> Self:
        """Keep `rows` (N'): repeats are allowed, and those of a sentence stand together."""

    def append(self, fresh: Self) -> Self:
        """Put the rows of a state that has not been stepped behind the present ones."""

    def covered(self) -> Tensor:
        """(N,) how well each row has covered its source, at most 0; for a coverage penalty."""


State = TypeVar("State", bound=SearchState)


class StepFunction(Protocol[State]):
    """Scores the next token of every row."""

    def __call__(self, tokens: Tensor, state: State, /) -> tuple[Tensor, State]:
        """Tokens (N,) of the last position → logits (N, V) of the next one, and the new state.

        The logits are the caller's own: search writes over them.
        """


@dataclass
class _Sentence:
    """A sentence that is searched.

    Attributes:
        key: what the caller knows it by.
        task: what is asked.
        length: tokens of its live hypotheses.
        finished: the best that have ended, best first.
        num_ended: how many have ended, good or bad.
    """

    key: int
    task: Task
    length: int = 0
    finished: list[Hypothesis] = field(default_factory=list)
    num_ended: int = 0


def _chooser(config: DecodingConfig, eos_id: int) -> Chooser:
    if config.method is SearchMethod.sampling:
        return SamplingChooser(config, eos_id)
    if config.diversity_groups > 1:
        return DiverseChooser(config, eos_id)
    return RequiredChooser(BeamChooser(config.beam_size, eos_id), config.beam_size, eos_id)


class Search(Generic[State]):
    """The search of any number of sentences that enter and leave as they like.

    Args:
        step: scores the next token of the rows.
        config: beam size, penalties, number of translations.
        ids: special ids of the target.
        device: where the state lives; None is the CPU.
        choose: chooses candidates; None is as the configuration says.
    """

    def __init__(
        self,
        step: StepFunction[State],
        config: DecodingConfig,
        ids: TargetIds,
        device: torch.device | None = None,
        choose: Chooser | None = None,
    ) -> None:
        self._step = step
        self._config = config
        self._ids = ids
        self._choose = choose or _chooser(config, ids.eos_id)
        self._constraints = constraints(config, ids)
        self._banned = torch.tensor(list(ids.banned_ids), dtype=torch.long, device=device)
        self._sentences: list[_Sentence] = []
        self._rows = Rows.none(device)
        self._covered: list[float] = []
        self._state: State | None = None

    @property
    def num_live(self) -> int:
        """Sentences that are still searched."""
        return len(self._sentences)

    @property
    def keys(self) -> list[int]:
        """Their keys."""
        return [sentence.key for sentence in self._sentences]

    @torch.inference_mode()
    def add(self, state: State, tasks: Sequence[tuple[int, Task]]) -> None:
        """Let sentences in.

        Args:
            state: before their first step, with one row each.
            tasks: a key for each, and what is asked.
        """
        lanes = self._choose.num_lanes
        rows = Rows.at_start(len(tasks), lanes, self._ids.bos_id, self._rows.device)
        if lanes > 1:
            state = state.reorder(rows.sentences)
        present = self._state if self._sentences else None
        self._state = state if present is None else present.append(state)
        self._rows = rows if present is None else self._rows.followed_by(rows)
        self._sentences += [_Sentence(key, task) for key, task in tasks]

    @torch.inference_mode()
    def advance(self) -> list[tuple[int, list[Hypothesis]]]:
        """Extend every live hypothesis by one token.

        Returns:
            Key and hypotheses of each sentence that is done with this.
        """
        assert self._state is not None
        rows, tasks = self._rows, [sentence.task for sentence in self._sentences]
        logits, state = self._step(rows.last_tokens(), self._state)
        if self._config.coverage_penalty:
            self._covered = state.covered().tolist()
        log_probs = _log_softmax(logits.float())  # (N, V)
        log_probs.index_fill_(1, self._banned, -torch.inf)
        next_tokens = NextTokens(log_probs, rows, tasks)
        for constrain in self._constraints:
            constrain(next_tokens)
        choice = self._choose(next_tokens)
        self._collect(choice)
        goes, done = self._going(choice)
        kept = goes.nonzero()  # (N', 2): sentence, candidate
        self._rows = rows.continued(choice, kept)
        results = [self._leave(self._sentences[place], place, choice) for place in done]
        if done:
            gone = set(done)
            self._sentences = [s for at, s in enumerate(self._sentences) if at not in gone]
        self._state = state.reorder(choice.parents[kept[:, 0], kept[:, 1]]) if len(kept) else None
        return results

    def _collect(self, choice: Choice) -> None:
        """Add the candidates that end to their sentence's finished ones."""
        config, rows = self._config, self._rows
        for sentence in self._sentences:
            sentence.length += 1
        places, ranks = choice.ends.nonzero().unbind(1)
        ended = zip(
            places.tolist(),
            choice.parents[places, ranks].tolist(),
            choice.log_probs[places, ranks].tolist(),
            choice.token_log_probs[places, ranks].tolist(),
            strict=True,
        )
        for place, row, log_prob, token_log_prob in ended:
            sentence = self._sentences[place]
            score = self._score(log_prob, sentence.length, row)
            sentence.num_ended += 1
            if len(sentence.finished) == config.num_best and score <= sentence.finished[-1].score:
                continue
            ids, token_log_probs = rows.prefix(row, sentence.length - 1)
            sentence.finished.append(
                Hypothesis(ids, log_prob, score, [*token_log_probs, token_log_prob])
            )
            # Stable: of equal scores the one found first, the shorter, stays ahead.
            sentence.finished.sort(key=lambda kept: -kept.score)
            del sentence.finished[config.num_best :]

    def _score(self, log_prob: float, length: int, row: int) -> float:
        """The score of a hypothesis that comes from a row; `length` counts EOS."""
        config = self._config
        score = log_prob / length_penalty(length, config)
        if config.coverage_penalty:
            score += config.coverage_penalty * self._covered[row]
        return score

    def _going(self, choice: Choice) -> tuple[Tensor, list[int]]:
        """Which candidates (b, C) go on, and the places of the sentences that are done.

        A candidate whose best reachable score is not above the worst of num_best finished ones
        cannot enter them any more: coverage can only take from it. Nor can any candidate below it
        at the same length: leaving it out changes nothing that is found.
        """
        config = self._config
        bounds = []
        done = []
        for place, sentence in enumerate(self._sentences):
            penalty = best_reachable_penalty(sentence.length, sentence.task.max_length, config)
            is_full = len(sentence.finished) == config.num_best
            bounds.append(sentence.finished[-1].score * penalty if is_full else -torch.inf)
            patient = config.patience * config.beam_size
            if sentence.length >= sentence.task.max_length or 0 < patient <= sentence.num_ended:
                done.append(place)
        floor = torch.tensor(bounds, dtype=torch.float64, device=choice.log_probs.device)
        hopeful = choice.goes & (choice.log_probs > floor[:, None])
        is_going = hopeful.any(dim=1)
        # Where candidates are not ranked by their sums alone, or all that end are counted, what is
        # hopeless still takes its place in the beam.
        goes = hopeful if self._choose.ranks_by_sum and not config.patience else choice.goes.clone()
        goes &= is_going[:, None]
        goes[done] = False
        ended = {place for place, goes_on in enumerate(is_going.tolist()) if not goes_on}
        return goes, sorted(ended | set(done))

    def _leave(
        self, sentence: _Sentence, place: int, choice: Choice
    ) -> tuple[int, list[Hypothesis]]:
        """A sentence's hypotheses; live ones as they are cut off where too few have ended."""
        config, finished = self._config, sentence.finished
        missing = config.num_best - len(finished)
        ranks = choice.goes[place].nonzero().flatten().tolist() if missing else []
        best = sorted(ranks, key=lambda rank: -float(choice.log_probs[place, rank]))
        for rank in best[:missing]:
            row, token = int(choice.parents[place, rank]), int(choice.tokens[place, rank])
            ids, token_log_probs = choice.rows.prefix(row, sentence.length - 1)
            token_log_prob = float(choice.token_log_probs[place, rank])
            log_prob = float(choice.log_probs[place, rank])
            score = self._score(log_prob, sentence.length, row)
            finished.append(
                Hypothesis([*ids, token], log_prob, score, [*token_log_probs, token_log_prob])
            )
        if not finished:
            # Every continuation is forbidden: what there was before is all there is.
            row = int((choice.rows.sentences == place).nonzero()[0])
            ids, token_log_probs = choice.rows.prefix(row, sentence.length - 1)
            log_prob = float(choice.rows.log_probs[row])
            score = self._score(log_prob, sentence.length, row)
            finished.append(Hypothesis(ids, log_prob, score, token_log_probs))
        return sentence.key, finished


# Rows that stay in a core's cache from one pass over them to the next.
_ROWS_AT_ONCE = 32


def _log_softmax(logits: Tensor) -> Tensor:
    """(N, V) log-softmax of logits; on CPUs in their place, where no page of memory is new."""
    # Only a few tokens of a row are looked at, but log_softmax, which is one pass over a row in the
    # fastest cache, costs half of logsumexp, which is five passes over the matrix.
    if logits.device.type != "cpu":
        return logits.log_softmax(dim=-1)
    for first in range(0, len(logits), _ROWS_AT_ONCE):
        some = logits[first : first + _ROWS_AT_ONCE]
        some.copy_(some.log_softmax(dim=-1))
    return logits


def search(
    step: StepFunction[State],
    state: State,
    config: DecodingConfig,
    ids: TargetIds,
    tasks: Sequence[Task],
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """The best translations of sentences.

    Args:
        step: scores the next token of the rows.
        state: the state before the first step, with one row a sentence.
        config: the search.
        ids: special ids of the target.
        tasks: what is asked of each sentence.
        device: where the state lives; None is the CPU.

    Returns:
        For each sentence up to num_best hypotheses, at least one: those that ended, best first,
        then, where too few did within the longest length, live ones as they were cut off.
    """
    searching = Search(step, config, ids, device)
    found: list[list[Hypothesis]] = [[] for _ in tasks]
    if tasks:
        searching.add(state, list(enumerate(tasks)))
    while searching.num_live:
        for key, hypotheses in searching.advance():
            found[key] = hypotheses
    return found
