import itertools
import math

import pytest
import torch

from nmt.config import DecodingConfig
from nmt.decoding import search as search_module
from nmt.decoding.hypothesis import Hypothesis, length_penalty
from nmt.decoding.search import search
from nmt.decoding.task import TargetIds, Task
from tests.unit.nmt.decoding.tables import BOS, EOS, REAL, Prefixes, Table, covering


def find(
    table: Table,
    config: DecodingConfig,
    max_lengths: list[int],
    banned: tuple[int, ...] = (BOS,),
    sentences: list[int] | None = None,
) -> list[list[Hypothesis]]:
    numbers = range(len(max_lengths)) if sentences is None else sentences
    state = Prefixes([(number,) for number in numbers])
    tasks = [Task(max_length) for max_length in max_lengths]
    return search(table, state, config, TargetIds(BOS, EOS, banned), tasks)


def enumerate_all(table: Table, sentence: int, max_length: int, alpha: float) -> list[Hypothesis]:
    """Every translation of at most `max_length` tokens, EOS counted, best first."""
    found = []
    for length in range(max_length):
        for ids in itertools.product(REAL, repeat=length):
            log_probs = []
            for place, token in enumerate((*ids, EOS)):
                logits = table.logits((sentence, BOS, *ids[:place]))
                log_probs.append(float(logits.log_softmax(dim=0)[token]))
            total = sum(log_probs)
            score = total / ((5 + length + 1) / 6) ** alpha
            found.append(Hypothesis(list(ids), total, score, log_probs))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_that_covers_all_prefixes_finds_what_enumeration_finds(
    alpha: float, seed: int
) -> None:
    table, max_length, num_best = Table(seed), 4, 5
    [found] = find(
        table, covering(max_length, length_penalty=alpha, num_best=num_best), [max_length]
    )
    expected = enumerate_all(table, 0, max_length, alpha)[:num_best]
    assert [hypothesis.ids for hypothesis in found] == [best.ids for best in expected]
    for hypothesis, best in zip(found, expected, strict=True):
        assert hypothesis.log_prob == pytest.approx(best.log_prob, abs=1e-4)
        assert hypothesis.score == pytest.approx(best.score, abs=1e-4)
        assert hypothesis.token_log_probs == pytest.approx(best.token_log_probs, abs=1e-4)


def greedy(table: Table, sentence: int, max_length: int) -> list[int]:
    ids: list[int] = []
    while len(ids) < max_length:
        logits = table.logits((sentence, BOS, *ids)).clone()
        logits[BOS] = -torch.inf
        token = int(logits.argmax())
        if token == EOS:
            break
        ids.append(token)
    return ids


@pytest.mark.parametrize("seed", range(10))
def test_beam_1_without_length_penalty_is_greedy(seed: int) -> None:
    config = DecodingConfig(beam_size=1, length_penalty=0.0)
    found = find(Table(seed), config, [7, 7, 7])
    assert [best[0].ids for best in found] == [greedy(Table(seed), b, 7) for b in range(3)]


def test_a_hypothesis_ends_only_from_the_first_k_candidates() -> None:
    # EOS comes third of the first step's candidates: with K = 2 it must not end there, although
    # the empty translation would have had the best score of all.
    table = Table(
        fixed={
            (): [0.25, 0.0, 0.40, 0.35],
            (2,): [0.5, 0.0, 0.3, 0.2],
            (3,): [0.5, 0.0, 0.3, 0.2],
        }
    )
    [[with_two]] = find(table, DecodingConfig(beam_size=2, length_penalty=0.0), [5])
    [[with_three]] = find(table, DecodingConfig(beam_size=3, length_penalty=0.0), [5])
    assert with_two.ids == [2]
    assert with_three.ids == []
    assert with_three.log_prob == pytest.approx(math.log(0.25), abs=1e-5)


def test_two_endings_leave_a_whole_beam_to_go_on() -> None:
    # Both beams end as their best candidate; the 2K candidates still hold two that go on.
    table = Table(
        fixed={
            (): [0.1, 0.0, 0.5, 0.4],
            (2,): [0.6, 0.0, 0.35, 0.05],
            (3,): [0.6, 0.0, 0.35, 0.05],
            (2, 2): [0.98, 0.0, 0.01, 0.01],
            (3, 2): [0.99, 0.0, 0.005, 0.005],
        }
    )
    config = DecodingConfig(beam_size=2, num_best=2, length_penalty=5.0)
    [found] = find(table, config, [3])
    assert [best.ids for best in found] == [[2, 2], [3, 2]]


def test_the_penalty_counts_eos() -> None:
    assert length_penalty(1, DecodingConfig()) == 1.0
    assert length_penalty(7, DecodingConfig(length_penalty=1.0)) == 2.0
    [[best]] = find(Table(3), DecodingConfig(beam_size=4, length_penalty=0.6), [6])
    assert best.score == pytest.approx(best.log_prob / ((5 + len(best.ids) + 1) / 6) ** 0.6)
    assert len(best.token_log_probs) == len(best.ids) + 1
    assert sum(best.token_log_probs) == pytest.approx(best.log_prob, abs=1e-5)


def test_a_larger_penalty_favours_the_longer() -> None:
    # One token of log 0.3, or three of log 0.6 each: -1.20 and -1.53 before the penalty.
    table = Table(
        fixed={
            (): [0.3, 0.0, 0.6, 0.1],
            (2,): [0.2, 0.0, 0.6, 0.2],
            (2, 2): [0.6, 0.0, 0.2, 0.2],
        }
    )
    [[short]] = find(table, covering(3, length_penalty=0.0), [3])
    [[long]] = find(table, covering(3, length_penalty=1.0), [3])
    assert (short.ids, long.ids) == ([], [2, 2])


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.6, 1.0, 4.0])
def test_stopping_early_loses_nothing(alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small beam stops as soon as nothing can change, and so agrees with one that never stops."""
    config = DecodingConfig(beam_size=3, num_best=2, length_penalty=alpha)
    max_lengths = [12] * 8
    stopping, endless = Table(5), Table(5)
    early = find(stopping, config, max_lengths)
    monkeypatch.setattr(search_module, "best_reachable_penalty", lambda *_: 1e30)
    assert early == find(endless, config, max_lengths)
    assert endless.steps == 12
    if alpha <= 0.6:
        assert stopping.steps < endless.steps


def test_the_stopping_rule_waits_for_a_late_winner() -> None:
    # The empty translation ends at once; a chain of nearly certain tokens overtakes it only by its
    # length penalty at the last length. Bounding by the next length would have stopped before.
    chain = {(2,) * n: [0.001, 0.0, 0.998, 0.001] for n in range(1, 9)}
    chain[(2,) * 9] = [0.999, 0.0, 0.0005, 0.0005]
    table = Table(fixed={(): [0.55, 0.0, 0.4, 0.05], **chain})
    [[best]] = find(table, DecodingConfig(beam_size=2, length_penalty=1.0), [10])
    assert best.ids == [2] * 9


@pytest.mark.parametrize("num_best", [1, 3])
def test_sentences_do_not_change_each_other(num_best: int) -> None:
    config = DecodingConfig(beam_size=3, num_best=num_best)
    max_lengths = [1, 9, 4, 2, 7, 9]
    together = find(Table(2), config, max_lengths)
    for sentence, max_length in enumerate(max_lengths):
        [alone] = find(Table(2), config, [max_length], sentences=[sentence])
        assert together[sentence] == alone


def test_n_best_come_best_first_and_differ() -> None:
    for found in find(Table(4), DecodingConfig(beam_size=5, num_best=5), [8] * 5):
        scores = [hypothesis.score for hypothesis in found]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(hypothesis.ids) for hypothesis in found}) == len(found) == 5


def test_banned_tokens_never_occur_and_keep_their_probability() -> None:
    table = Table(fixed={(): [0.1, 0.0, 0.2, 0.7], (2,): [0.25, 0.0, 0.25, 0.5]})
    config = DecodingConfig(beam_size=1, length_penalty=0.0)
    [[best]] = find(table, config, [2], banned=(BOS, 3))
    assert best.ids[0] == 2
    # What is banned is not shared out among the rest: the score stays the model's.
    assert best.token_log_probs[0] == pytest.approx(math.log(0.2), abs=1e-5)


def test_without_an_end_the_longest_is_cut_off() -> None:
    never = [0.0, 0.0, 0.7, 0.3]
    table = Table(
        fixed={prefix: never for n in range(5) for prefix in itertools.product(REAL, repeat=n)}
    )
    [found] = find(table, DecodingConfig(beam_size=2, num_best=2), [4])
    assert found[0].ids == [2, 2, 2, 2]
    assert len(found[0].token_log_probs) == 4
    assert len(found) == 2


def test_an_ended_translation_goes_before_one_that_is_cut_off() -> None:
    # "2 2 …" is likelier at every length but never ends.
    table = Table(
        fixed={
            (): [0.3, 0.0, 0.7, 0.0],
            (2,): [0.0, 0.0, 1.0, 0.0],
            (2, 2): [0.0, 0.0, 1.0, 0.0],
        }
    )
    [[best]] = find(table, DecodingConfig(beam_size=2, length_penalty=0.0), [3])
    assert best.ids == []


def test_no_sentences_give_nothing() -> None:
    assert find(Table(), DecodingConfig(), []) == []


def test_a_vocabulary_smaller_than_twice_the_beam_is_enough() -> None:
    [found] = find(Table(1), DecodingConfig(beam_size=8, num_best=8), [2])
    # The empty translation and two of one token; the rest is cut off at the longest length.
    ended = {tuple(hypothesis.ids) for hypothesis in found if len(hypothesis.ids) < 2}
    assert ended == {(), (2,), (3,)}
