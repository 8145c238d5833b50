import itertools

import pytest
import torch
from torch import Tensor

from benchmarks.brackets import read_linearised
from nmt.base.errors import UserError
from nmt.config import DecodingConfig, SearchMethod
from nmt.search.request import Request, TargetIds
from nmt.search.search import beam_search
from nmt.translation.trees import TreeConstraint

PIECES = ["<unk>", "<s>", "</s>", "<pad>", "▁XX", "▁(A", "▁)A", "▁(B", "▁)B", "▁word", "▁(C"]
EOS = 2
TREES = TreeConstraint(["▁a", "b"], PIECES)


def form(ids: list[int]) -> str:
    return "".join(PIECES[index] for index in ids).replace("▁", " ").strip()


def is_tree(ids: list[int], num_words: int) -> bool:
    """Whether ids without EOS are a tree without empty constituents."""
    try:
        read_linearised(form(ids), *[["x"] * num_words] * 2)
    except ValueError:
        return False
    return all((a, b) not in ((5, 6), (7, 8)) for a, b in itertools.pairwise(ids))


@pytest.mark.parametrize("num_words", [1, 2, 3])
def test_the_grammar_allows_exactly_the_trees_that_fit(num_words: int) -> None:
    max_length = 7
    found: set[tuple[int, ...]] = set()
    begun: list[list[int]] = [[]]
    while begun:
        ids = begun.pop()
        following = TREES.next_ids(ids, num_words, max_length, EOS)
        assert following
        assert len(ids) < max_length
        found.update(tuple(ids) for token in following if token == EOS)
        begun += [[*ids, token] for token in following if token != EOS]
    expected = {
        ids
        for length in range(max_length)
        for ids in itertools.product(range(4, 9), repeat=length)
        if is_tree(list(ids), num_words)
    }
    assert found == expected


class NoState:
    def reorder(self, rows: Tensor) -> "NoState":
        return self


@pytest.mark.parametrize("method", SearchMethod)
@pytest.mark.parametrize("seed", range(5))
def test_each_translation_is_a_tree_over_the_words(method: SearchMethod, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)

    def step(tokens: Tensor, state: NoState) -> tuple[Tensor, NoState]:
        # An untrained model that likes to open constituents and to end.
        logits = torch.randn(len(tokens), len(PIECES), generator=generator)
        logits[:, [5, 7, EOS]] += 3.0
        return logits, state

    config = DecodingConfig(method=method, beam_size=3, num_best=3, trees=True)
    sizes = [(words, words + 3 + extra) for words in (1, 2, 9) for extra in (0, 12)]
    requests = [Request(max_length=longest, source=[0, 1] * words) for words, longest in sizes]
    ids = TargetIds(1, EOS, (0, 1, 3))
    found = beam_search(step, NoState(), config, ids, requests, constraint=TREES)
    for best, (num_words, longest) in zip(found, sizes, strict=True):
        assert best
        for hypothesis in best:
            assert is_tree(hypothesis.ids, num_words)
            assert len(hypothesis.ids) < longest


def test_a_vocabulary_without_symbols_is_refused() -> None:
    with pytest.raises(UserError, match=r"decoding\.trees=true: the target vocabulary lacks XX"):
        TreeConstraint([], ["<unk>", "▁XX", "▁(A", "▁)B"])
