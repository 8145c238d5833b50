import itertools
import math
from dataclasses import replace

import pytest
import torch

from nmt.config import DecodingConfig, LengthPenalty
from nmt.search import search as search_module
from nmt.search.candidates import select_beam
from nmt.search.hypothesis import length_penalty
from nmt.search.live import LiveHypotheses, NextTokens
from nmt.search.request import Request
from tests.unit.nmt.search.tables import (
    BOS,
    EOS,
    ORDINARY,
    Table,
    config,
    enumerate_all,
    exhaustive,
    search,
)


@pytest.mark.parametrize(
    "penalty",
    [
        *({"length_penalty": alpha} for alpha in (-0.5, 0.0, 0.6, 1.0, 3.0)),
        {"length_penalty_kind": LengthPenalty.average},
        {"length_penalty_kind": LengthPenalty.none},
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", range(4))
def test_exhaustive_beam_finds_the_result_of_enumeration(
    penalty: dict[str, object], seed: int
) -> None:
    max_length, num_best = 4, 5
    options = exhaustive(max_length, num_best=num_best, **penalty)
    [found] = search(Table(seed), options, Request(max_length=max_length))
    expected = enumerate_all(Table(seed), max_length, options)[:num_best]
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
    options = config(beam_size=1, length_penalty=0.0)
    found = search(Table(seed), options, *[Request(max_length=7)] * 3)
    assert [best[0].ids for best in found] == [greedy(Table(seed), b, 7) for b in range(3)]


def test_hypothesis_finishes_only_among_the_first_k_candidates() -> None:
    # EOS is the third candidate of the first step. With K = 2 the empty translation must not
    # finish, although it has the best score.
    table = Table(
        fixed={
            (): [0.25, 0.0, 0.40, 0.35],
            (2,): [0.5, 0.0, 0.3, 0.2],
            (3,): [0.5, 0.0, 0.3, 0.2],
        }
    )
    request = Request(max_length=5)
    [[with_two]] = search(table, config(beam_size=2, length_penalty=0.0), request)
    [[with_three]] = search(table, config(beam_size=3, length_penalty=0.0), request)
    assert with_two.ids == [2]
    assert with_three.ids == []
    assert with_three.log_prob == pytest.approx(math.log(0.25), abs=1e-5)


def test_full_beam_stays_live_when_two_hypotheses_finish() -> None:
    # EOS is the best candidate of both rows; two of the 2K candidates can be continued.
    table = Table(
        fixed={
            (): [0.1, 0.0, 0.5, 0.4],
            (2,): [0.6, 0.0, 0.35, 0.05],
            (3,): [0.6, 0.0, 0.35, 0.05],
            (2, 2): [0.98, 0.0, 0.01, 0.01],
            (3, 2): [0.99, 0.0, 0.005, 0.005],
        }
    )
    options = config(beam_size=2, num_best=2, length_penalty=5.0)
    [found] = search(table, options, Request(max_length=3))
    assert [best.ids for best in found] == [[2, 2], [3, 2]]


def test_length_penalty() -> None:
    options = DecodingConfig(length_penalty=1.0)
    assert length_penalty(1, DecodingConfig()) == 1.0
    assert length_penalty(7, options) == 2.0
    assert length_penalty(7, replace(options, length_penalty_kind=LengthPenalty.average)) == 7.0
    assert length_penalty(7, replace(options, length_penalty_kind=LengthPenalty.none)) == 1.0


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.6, 1.0, 4.0])
def test_early_stopping_does_not_change_the_result(
    alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = config(beam_size=3, num_best=2, length_penalty=alpha)
    requests = [Request(max_length=12)] * 8
    stopping, endless = Table(5), Table(5)
    early = search(stopping, options, *requests)
    monkeypatch.setattr(search_module, "best_reachable_penalty", lambda *_: 1e30)
    assert early == search(endless, options, *requests)
    assert endless.num_steps == 12
    if alpha <= 0.6:
        assert stopping.num_steps < endless.num_steps


# The empty translation finishes at once. A chain of nearly certain tokens overtakes it only by its
# length penalty at the longest length, which a bound from the next length would not see.
LATE_WINNER = {
    (): [0.55, 0.0, 0.4, 0.05],
    **{(2,) * n: [0.001, 0.0, 0.998, 0.001] for n in range(1, 9)},
    (2,) * 9: [0.999, 0.0, 0.0005, 0.0005],
}


def test_search_waits_for_a_late_winner_unless_patience_stops_it() -> None:
    table, options = Table(fixed=LATE_WINNER), config(beam_size=2, length_penalty=1.0)
    [[best]] = search(table, options, Request(max_length=10))
    assert best.ids == [2] * 9
    table.num_steps = 0
    [[best]] = search(table, replace(options, patience=0.5), Request(max_length=10))
    assert best.ids == []
    assert table.num_steps == 1


@pytest.mark.parametrize("num_best", [1, 3])
def test_sentences_of_a_batch_are_independent(num_best: int) -> None:
    options = config(beam_size=3, num_best=num_best)
    requests = [Request(max_length=max_length) for max_length in (1, 9, 4, 2, 7, 9)]
    together = search(Table(2), options, *requests)
    for sentence, request in enumerate(requests):
        [alone] = search(Table(2), options, request, sentences=[sentence])
        assert together[sentence] == alone
    assert search(Table(), options) == []


@pytest.mark.parametrize("seed", range(4))
def test_n_best_have_different_texts(seed: int) -> None:
    def text_of(ids: list[int]) -> str:
        return str(len(ids))  # all hypotheses of one length have the same text

    options = exhaustive(4, num_best=3)
    [found] = search(Table(seed), options, Request(max_length=4), text_of=text_of)
    best_of_text = {}
    for hypothesis in enumerate_all(Table(seed), 4, options):
        best_of_text.setdefault(text_of(hypothesis.ids), hypothesis.ids)
    assert [hypothesis.ids for hypothesis in found] == list(best_of_text.values())[:3]


def test_cut_off_hypotheses_have_different_texts() -> None:
    never = [0.0, 0.0, 0.7, 0.3]
    prefixes = (ids for n in range(3) for ids in itertools.product(ORDINARY, repeat=n))
    table = Table(fixed=dict.fromkeys(prefixes, never))
    options = config(beam_size=3, num_best=3)
    text_of = {(2, 2): "a", (2, 3): "a", (3, 2): "b"}
    [found] = search(table, options, Request(max_length=2), text_of=lambda ids: text_of[tuple(ids)])
    assert [hypothesis.ids for hypothesis in found] == [[2, 2], [3, 2]]
    assert [len(hypothesis.token_log_probs) for hypothesis in found] == [2, 2]


def test_banned_tokens_never_occur_and_probabilities_are_not_renormalised() -> None:
    table = Table(fixed={(): [0.1, 0.0, 0.2, 0.7], (2,): [0.25, 0.0, 0.25, 0.5]})
    options = config(beam_size=1, length_penalty=0.0)
    [[best]] = search(table, options, Request(max_length=2), banned=(BOS, 3))
    assert best.ids[0] == 2
    assert best.token_log_probs[0] == pytest.approx(math.log(0.2), abs=1e-5)


def test_finished_hypotheses_precede_cut_off_ones() -> None:
    # "2 2 …" is more probable at every length but never ends.
    table = Table(
        fixed={
            (): [0.3, 0.0, 0.7, 0.0],
            (2,): [0.0, 0.0, 1.0, 0.0],
            (2, 2): [0.0, 0.0, 1.0, 0.0],
        }
    )
    options = config(beam_size=2, length_penalty=0.0)
    [[best]] = search(table, options, Request(max_length=3))
    assert best.ids == []


@pytest.mark.parametrize("vocabulary_size", [5, 64, 640, 700])
def test_best_candidates_are_found_by_blocks_of_columns(vocabulary_size: int) -> None:
    torch.manual_seed(vocabulary_size)
    live = replace(
        LiveHypotheses.start(5, 1, BOS, None),
        sentences=torch.tensor([0, 0, 0, 1, 1]),
        log_probs=torch.tensor([-1.0, -1.5, -2.0, -3.0, -2.5]),
    )
    log_probs = torch.randn(5, vocabulary_size).log_softmax(-1)
    log_probs[:, 2] = -torch.inf
    log_probs[3, 1:] = -torch.inf  # fewer than 2K candidates if the vocabulary is small
    candidates = select_beam(NextTokens(log_probs, live, [Request()] * 2, EOS), 3)
    sums = live.log_probs[:, None] + log_probs
    for index, of_sentence in enumerate((sums[:3], sums[3:])):
        best, at = of_sentence.flatten().topk(6)
        exists = best.isfinite()
        torch.testing.assert_close(candidates.log_probs[index], best)
        rows = at // vocabulary_size + (3 if index else 0)
        assert torch.equal(candidates.rows[index][exists], rows[exists])
        assert torch.equal(candidates.tokens[index][exists], (at % vocabulary_size)[exists])
