"""Options of the search, on tables of probabilities small enough to enumerate."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch

from nmt.config import DecodingConfig, LengthPenalty, SearchMethod
from nmt.decoding.choice import BeamChooser
from nmt.decoding.diversity import DiverseChooser
from nmt.decoding.hypothesis import Hypothesis, length_penalty
from nmt.decoding.live import NextTokens, Rows
from nmt.decoding.sampling import kept_probabilities, uniform
from nmt.decoding.search import search
from nmt.decoding.task import Demand, TargetIds, Task
from tests.unit.nmt.decoding.tables import BOS, EOS, REAL, Prefixes, Table, covered, covering

MAX_LENGTH = 4


def found_for(table: Table, config: DecodingConfig, *tasks: Task) -> list[list[Hypothesis]]:
    state = Prefixes([(number,) for number in range(len(tasks))])
    return search(table, state, config, TargetIds(BOS, EOS, (BOS,)), tasks)


def best_ids(table: Table, config: DecodingConfig, task: Task) -> list[list[int]]:
    return [hypothesis.ids for hypothesis in found_for(table, config, task)[0]]


def everything(table: Table, config: DecodingConfig) -> list[tuple[float, list[int]]]:
    """Score and ids of every translation within MAX_LENGTH, best first."""
    all_found = []
    for length in range(MAX_LENGTH):
        for ids in itertools.product(REAL, repeat=length):
            total = 0.0
            for place, token in enumerate((*ids, EOS)):
                log_probs = table.logits((0, BOS, *ids[:place])).log_softmax(0)
                factor = config.repetition_penalty if token in ids[:place] else 1.0
                total += factor * float(log_probs[token])
            score = total / length_penalty(length + 1, config)
            all_found.append((score + config.coverage_penalty * covered(ids), list(ids)))
    return sorted(all_found, key=lambda pair: -pair[0])


@pytest.mark.parametrize("kind", list(LengthPenalty))
@pytest.mark.parametrize("changes", [{}, {"repetition_penalty": 1.7}, {"coverage_penalty": 0.9}])
@pytest.mark.parametrize("seed", range(3))
def test_every_penalty_finds_what_enumeration_finds(
    kind: LengthPenalty, changes: dict[str, Any], seed: int
) -> None:
    config = covering(MAX_LENGTH, length_penalty_kind=kind, num_best=5, **changes)
    [found] = found_for(Table(seed), config, Task(MAX_LENGTH))
    expected = everything(Table(seed), config)[:5]
    assert [hypothesis.ids for hypothesis in found] == [ids for _, ids in expected]
    scores = [score for score, _ in expected]
    assert [hypothesis.score for hypothesis in found] == pytest.approx(scores, abs=1e-4)


def test_the_three_penalties() -> None:
    config = DecodingConfig(length_penalty=1.0)
    assert length_penalty(7, config) == 2.0
    assert length_penalty(7, replace(config, length_penalty_kind=LengthPenalty.average)) == 7.0
    assert length_penalty(7, replace(config, length_penalty_kind=LengthPenalty.none)) == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_constraints_find_the_best_of_what_they_allow(seed: int) -> None:
    table, config = Table(seed), covering(MAX_LENGTH, num_best=3)
    everyone = [ids for _, ids in everything(table, config)]
    long_enough = [ids for ids in everyone if len(ids) + 1 >= 3]
    assert best_ids(table, config, Task(MAX_LENGTH, 3)) == long_enough[:3]
    begun = [ids for ids in everyone if ids[:1] == [3]]
    assert best_ids(table, config, Task(MAX_LENGTH, demand=Demand(prefix=[3]))) == begun[:3]
    allowed = [ids for ids in everyone if 2 not in ids and [3, 3] not in windows(ids, 2)]
    demand = Demand(banned=[[2], [3, 3]])
    assert best_ids(table, config, Task(MAX_LENGTH, demand=demand)) == allowed[:3]
    # There are two.
    required = [ids for ids in everyone if 3 in ids and [2, 2] in windows(ids, 2)]
    demand = Demand(required=[[3], [2, 2]])
    assert best_ids(table, config, Task(MAX_LENGTH, demand=demand))[:2] == required
    unlike = [ids for ids in everyone if len(set(ids)) == len(ids)]
    once = replace(config, no_repeat_ngram=1)
    assert best_ids(table, once, Task(MAX_LENGTH)) == unlike[:3]
    pairs = [ids for ids in everyone if len({*map(tuple, windows(ids, 2))}) == len(windows(ids, 2))]
    assert best_ids(table, replace(config, no_repeat_ngram=2), Task(MAX_LENGTH)) == pairs[:3]


def windows(ids: list[int], size: int) -> list[list[int]]:
    return [ids[start : start + size] for start in range(len(ids) - size + 1)]


def test_what_is_forbidden_keeps_the_models_log_probabilities() -> None:
    table = Table(fixed={(): [0.5, 0.0, 0.3, 0.2]})
    task = Task(3, 2)
    [[found]] = found_for(table, DecodingConfig(beam_size=1), task)
    assert found.token_log_probs[0] == pytest.approx(torch.tensor(0.3).log().item(), abs=1e-5)


def test_a_forced_token_may_be_one_that_search_never_takes() -> None:
    demand = Demand(prefix=[BOS, 2])
    [[found]] = found_for(Table(1), DecodingConfig(beam_size=2), Task(5, demand=demand))
    assert found.ids[:2] == [BOS, 2]


def test_where_everything_is_forbidden_what_there_was_is_kept() -> None:
    task = Task(9, 9, Demand(banned=[[2], [3]]))
    [[found]] = found_for(Table(1), DecodingConfig(beam_size=2), task)
    assert (found.ids, found.log_prob, found.token_log_probs) == ([], 0.0, [])


def test_patience_stops_at_the_first_endings() -> None:
    # The empty translation ends first; a longer one would overtake it by its length.
    chain = {(2,) * n: [0.001, 0.0, 0.998, 0.001] for n in range(1, 9)}
    table = Table(fixed={(): [0.55, 0.0, 0.4, 0.05], **chain, (2,) * 9: [0.99, 0.0, 0.005, 0.005]})
    config = DecodingConfig(beam_size=2, length_penalty=1.0)
    assert best_ids(table, config, Task(10)) == [[2] * 9]
    table.steps = 0
    assert best_ids(table, replace(config, patience=0.5), Task(10)) == [[]]
    assert table.steps == 1


def test_samples_follow_the_probabilities() -> None:
    table = Table(fixed={(): [0.2, 0.0, 0.5, 0.3]})
    config = DecodingConfig(
        beam_size=4000, num_best=4000, method=SearchMethod.sampling, length_penalty=0.0
    )
    [found] = found_for(table, config, Task(2))
    firsts = [(hypothesis.ids or [EOS])[0] for hypothesis in found]
    shares = [firsts.count(token) / len(firsts) for token in (EOS, BOS, *REAL)]
    assert shares == pytest.approx([0.2, 0.0, 0.5, 0.3], abs=0.03)


def test_samples_depend_on_seed_and_source_alone() -> None:
    numbers = {
        uniform(seed, source, sample, position)
        for seed, source, sample, position in itertools.product(
            range(3), ([1, 2], [12], [1, 2, 3]), range(3), range(3)
        )
    }
    assert len(numbers) == 81
    assert uniform(1, [5, 6], 0, 3) == uniform(1, [5, 6], 0, 3)
    assert all(0 <= number < 1 for number in numbers)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [0.1, 0.0, 0.6, 0.3]),
        ({"top_k": 4}, [0.1, 0.0, 0.6, 0.3]),
        ({"top_k": 2}, [0, 0, 2 / 3, 1 / 3]),
        ({"top_p": 0.85}, [0, 0, 2 / 3, 1 / 3]),
        ({"top_p": 0.1}, [0, 0, 1, 0]),
        ({"epsilon": 0.2}, [0, 0, 2 / 3, 1 / 3]),
        ({"epsilon": 0.9}, [0, 0, 1, 0]),
        ({"temperature": 0.5}, [1 / 46, 0, 36 / 46, 9 / 46]),
    ],
)
def test_what_may_be_drawn(changes: dict[str, float], expected: list[float]) -> None:
    logits = torch.tensor([[0.1, 0.0, 0.6, 0.3]]).log()
    config = DecodingConfig(method=SearchMethod.sampling, **changes)  # type: ignore[arg-type]
    kept = kept_probabilities(logits, config)
    assert kept[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_groups_avoid_each_others_tokens() -> None:
    config = DecodingConfig(beam_size=2, diversity_groups=2, diversity_strength=3.0)
    rows = Rows.at_start(1, 2, BOS, None)
    log_probs = torch.tensor([[0.01, 0.0, 0.9, 0.09]]).log().expand(2, -1)
    found = NextTokens(log_probs, rows, [Task(MAX_LENGTH)])
    choice = DiverseChooser(config, EOS)(found)
    assert choice.tokens[choice.goes].tolist() == [2, 3]
    # The loss counts in the choice alone.
    assert choice.log_probs[choice.goes].exp().tolist() == pytest.approx([0.9, 0.09])
    mild = DiverseChooser(replace(config, diversity_strength=2.0), EOS)(found)
    assert mild.tokens[mild.goes].tolist() == [2, 2]


def test_without_strength_every_group_is_the_same_beam() -> None:
    diverse = DecodingConfig(beam_size=2, diversity_groups=2, diversity_strength=0.0)
    greedy = DecodingConfig(beam_size=1)
    assert best_ids(Table(4), diverse, Task(MAX_LENGTH)) == best_ids(
        Table(4), greedy, Task(MAX_LENGTH)
    )


@pytest.mark.parametrize("vocabulary", [5, 64, 640, 700])
def test_the_best_of_a_sentence_are_found_whatever_the_size_of_the_vocabulary(
    vocabulary: int,
) -> None:
    torch.manual_seed(vocabulary)
    rows = replace(
        Rows.at_start(2, 3, BOS, None),
        sentences=torch.tensor([0, 0, 0, 1, 1]),
        log_probs=torch.tensor([-1.0, -1.5, -2.0, -3.0, -2.5]),
    )
    log_probs = torch.randn(5, vocabulary).log_softmax(-1)
    log_probs[:, 2] = -torch.inf
    log_probs[3, 1:] = -torch.inf  # fewer than 2K candidates, where V is small
    chosen = BeamChooser(3, EOS)(NextTokens(log_probs, rows, [Task(9), Task(9)]))
    sums = rows.log_probs[:, None] + log_probs
    for place, of_sentence in enumerate((sums[:3], sums[3:])):
        best, at = of_sentence.flatten().topk(6)
        real = best.isfinite()
        torch.testing.assert_close(chosen.log_probs[place], best)
        parents = at // vocabulary + (3 if place else 0)
        assert torch.equal(chosen.parents[place][real], parents[real])
        assert torch.equal(chosen.tokens[place][real], (at % vocabulary)[real])
