"""Exercises of the lesson: what each function has to compute, and typical faults.

A check compares the results of a function with those of the program. If they differ, it looks for
a wrong function with the same results, whose description names the fault.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nmt.config import DecodingConfig
from nmt.model.attention import attention_weights, causal_mask
from nmt.model.positions import sinusoidal_table
from nmt.search.candidates import best_candidates
from nmt.search.hypothesis import length_penalty
from nmt.search.rows import RowGrid
from nmt.training.loss import smoothed_cross_entropy


@dataclass(frozen=True)
class Exercise:
    """A function to write.

    Attributes:
        name: name of the function.
        sections: the sections of the lesson that explain it.
        right: a function of the program with the same results.
        cases: arguments of the calls, the simplest first.
        wrong: wrong functions; each key continues the sentence "the function …".
        look: what to look at when the function is right.
    """

    name: str
    sections: str
    right: Callable[..., Tensor]
    cases: Sequence[tuple[Any, ...]]
    wrong: Mapping[str, Callable[..., Tensor]]
    look: str

    def fault(self, function: Callable[..., Any]) -> str:
        """Return what is wrong with the results of a function, "" if nothing is."""
        for case in self.cases:
            expected, result = self.right(*case), function(*_copied(case))
            if _is_same(result, expected):
                continue
            for fault, wrong in self.wrong.items():
                if _is_same(result, wrong(*case)):
                    return fault
            return _difference(result, expected)
        return ""


def _copied(case: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value.clone() if isinstance(value, Tensor) else value for value in case)


def _is_same(result: Any, expected: Tensor) -> bool:
    return (
        isinstance(result, Tensor)
        and (result.shape, result.dtype) == (expected.shape, expected.dtype)
        and torch.allclose(result, expected, atol=1e-5)
    )


def _difference(result: Any, expected: Tensor) -> str:
    """Describe the first difference of a wrong result."""
    if not isinstance(result, Tensor):
        return f"returns {result!r:.40}, which is not a tensor"
    if result.shape != expected.shape:
        return f"returns the shape {tuple(result.shape)} instead of {tuple(expected.shape)}"
    if result.dtype != expected.dtype:
        return f"returns elements of {result.dtype} instead of {expected.dtype}"
    index = tuple((~torch.isclose(result, expected, atol=1e-5)).nonzero()[0].tolist())
    found, wanted = result[index].item(), expected[index].item()
    return f"returns {found:.4g} at index {index}, where {wanted:.4g} is expected"


def _masked(scores: Tensor, mask: Tensor | None, fill: float = -torch.inf) -> Tensor:
    return scores if mask is None else scores.masked_fill(~mask, fill)


def _scores(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.mT / query.size(-1) ** 0.5


def _positions(length: int, width: int, power: float = 1.0, first: int = 0) -> Tensor:
    """Return (sines, cosines) of positions: (length, width / 2, 2)."""
    frequency = 10000.0 ** (-power * torch.arange(0, width, 2) / width)
    angle = torch.arange(first, first + length)[:, None] * frequency
    return torch.stack((angle.sin(), angle.cos()), dim=-1)


def _log_probs(logits: Tensor, target: Tensor) -> Tensor:
    """Return the log-probabilities of the target tokens (N,)."""
    return logits.log_softmax(dim=-1).gather(1, target[:, None])[:, 0]


def _cross_entropies(logits: Tensor, target: Tensor, eps: float) -> Tensor:
    log_probs = logits.log_softmax(dim=-1)
    return -(1 - eps) * _log_probs(logits, target) - eps * log_probs.mean(dim=-1)


def _smoothed_over_others(logits: Tensor, target: Tensor, eps: float) -> Tensor:
    others = eps * logits.size(1) / (logits.size(1) - 1)
    return _cross_entropies(logits, target, others).sum()


def _beam_step(log_probs: Tensor, next_log_probs: Tensor) -> Tensor:
    grid = RowGrid.of(torch.zeros(len(log_probs), dtype=torch.long), 1)
    best = best_candidates(log_probs, next_log_probs, grid, len(log_probs), eos_id=-1)
    return torch.stack((best.rows[0], best.tokens[0]), dim=1)[: len(log_probs)]


def _best(scores: Tensor, divisor: int | None = None) -> Tensor:
    chosen = scores.flatten().topk(len(scores)).indices
    divisor = divisor or scores.size(1)
    return torch.stack((chosen // divisor, chosen % divisor), dim=1)


def _normalised(log_probs: Tensor, lengths: Tensor, alpha: float) -> Tensor:
    config = DecodingConfig(length_penalty=alpha)
    return log_probs / torch.tensor([length_penalty(n, config) for n in lengths.tolist()])


_RANDOM = torch.Generator().manual_seed(1)
_QUERY, _KEY = (torch.randn(length, 4, generator=_RANDOM) for length in (2, 3))
_VISIBLE = torch.tensor([[True, True, False], [False, True, True]])
_LOGITS, _TARGET = torch.randn(3, 5, generator=_RANDOM), torch.tensor([1, 0, 4])
_SUMS = torch.tensor([-1.0, -1.2, -4.0])
_NEXT = torch.tensor([[-0.9, -1.1, -2.0, -3.0], [-0.1, -4.0, -3.0, -5.0], [-0.1, -3.0, -4.0, -5.0]])

EXERCISES = {
    1: Exercise(
        "attention_weights",
        "sections 2 to 5",
        attention_weights,
        [(_QUERY, _KEY), (_QUERY, _KEY, _VISIBLE)],
        {
            "does not divide the scores by √d_k": lambda q, k, mask=None: _masked(
                q @ k.mT, mask
            ).softmax(dim=-1),
            "divides the scores by d_k instead of √d_k": lambda q, k, mask=None: _masked(
                q @ k.mT / q.size(-1), mask
            ).softmax(dim=-1),
            "lets columns sum to one, not rows: the softmax is over the keys, dim=-1": (
                lambda q, k, mask=None: _masked(_scores(q, k), mask).softmax(dim=-2)
            ),
            "returns scores: the softmax is missing": lambda q, k, mask=None: _masked(
                _scores(q, k), mask
            ),
            "hides the keys that the mask shows: True means attend": lambda q, k, mask=None: (
                _masked(_scores(q, k), None if mask is None else ~mask).softmax(dim=-1)
            ),
            "gives hidden keys the score 0, and so a weight: use −∞": lambda q, k, mask=None: (
                _masked(_scores(q, k), mask, 0.0).softmax(dim=-1)
            ),
            "hides keys after the softmax, so that the weights of a row do not sum to one": (
                lambda q, k, mask=None: _masked(_scores(q, k).softmax(dim=-1), mask, 0.0)
            ),
            "ignores the mask": lambda q, k, _mask=None: _scores(q, k).softmax(dim=-1),
        },
        "attention_weights in nmt/model/attention.py, which computes all heads at once",
    ),
    2: Exercise(
        "causal_mask",
        "section 5",
        causal_mask,
        [(4,), (1,)],
        {
            "shows later positions and hides earlier ones": lambda n: torch.ones(
                n, n, dtype=torch.bool
            ).triu(),
            "marks hidden positions with True: True means attend": lambda n: ~causal_mask(n),
            "hides each position from itself": lambda n: torch.ones(n, n, dtype=torch.bool).tril(
                -1
            ),
            "returns numbers: a mask has the dtype torch.bool": lambda n: torch.ones(n, n).tril(),
        },
        "DecoderLayer.forward in nmt/model/layers.py, which passes is_causal=True instead",
    ),
    3: Exercise(
        "positional_encoding",
        "section 7",
        sinusoidal_table,
        [(5, 2), (5, 8)],
        {
            "swaps sine and cosine: the sine comes first": lambda n, d: (
                _positions(n, d).flip(-1).flatten(1)
            ),
            "begins with position 1 instead of 0": lambda n, d: _positions(n, d, first=1).flatten(
                1
            ),
            "puts all sines before all cosines: they alternate": lambda n, d: _positions(
                n, d
            ).mT.flatten(1),
            "halves the exponent: 2i is the index of the component, i that of the pair": (
                lambda n, d: _positions(n, d, power=0.5).flatten(1)
            ),
            "doubles the exponent: 2i is the index of the component, i that of the pair": (
                lambda n, d: _positions(n, d, power=2.0).flatten(1)
            ),
        },
        "sinusoidal_table in nmt/model/positions.py, and what model.timescales changes in it",
    ),
    4: Exercise(
        "smoothed_loss",
        "section 10",
        lambda logits, target, eps: smoothed_cross_entropy(
            logits, torch.eye(logits.size(1)), target, eps
        ),
        [(_LOGITS, _TARGET, 0.0), (_LOGITS, _TARGET, 0.1)],
        {
            "returns the mean of the tokens instead of their sum": lambda *case: _cross_entropies(
                *case
            ).mean(),
            "returns the losses of the tokens instead of their sum": _cross_entropies,
            "has the wrong sign: a loss is positive": lambda *case: -_cross_entropies(*case).sum(),
            "ignores eps": lambda logits, target, _eps: -_log_probs(logits, target).sum(),
            "shares eps among the V − 1 other words: it is shared among all V": (
                _smoothed_over_others
            ),
            "takes nothing from the correct word: its part is 1 − eps": lambda x, target, eps: (
                _cross_entropies(x, target, eps) - eps * _log_probs(x, target)
            ).sum(),
        },
        "chunk_gradients in nmt/training/loss.py, which also computes the gradients",
    ),
    5: Exercise(
        "beam_step",
        "section 11",
        _beam_step,
        [(_SUMS, _NEXT)],
        {
            "ignores the log-probabilities of the hypotheses": lambda _sums, x: _best(x),
            "continues each hypothesis once: the K best of all K · V continuations are kept": (
                lambda sums, x: torch.stack((torch.arange(len(sums)), x.argmax(dim=-1)), dim=1)
            ),
            "divides the index by K instead of V": lambda sums, x: _best(
                sums[:, None] + x, len(sums)
            ),
            "returns the token before the hypothesis": lambda sums, x: _beam_step(sums, x).flip(-1),
            "keeps the worst continuations": lambda sums, x: _best(-sums[:, None] - x),
        },
        "best_candidates in nmt/search/candidates.py, which keeps 2K because some end with EOS",
    ),
    6: Exercise(
        "scores",
        "section 11",
        _normalised,
        [(_SUMS, torch.tensor([1, 4, 13]), 1.0), (_SUMS, torch.tensor([1, 4, 13]), 0.6)],
        {
            "multiplies by the penalty: log-probabilities are divided by it": (
                lambda sums, n, alpha: sums * ((5 + n) / 6) ** alpha
            ),
            "divides by n^alpha instead of ((5 + n) / 6)^alpha": (
                lambda sums, n, alpha: sums / n**alpha
            ),
            "does not divide 5 + n by 6": lambda sums, n, alpha: sums / (5 + n) ** alpha,
            "ignores alpha": lambda sums, n, _alpha: sums / ((5 + n) / 6),
        },
        "length_penalty and best_reachable_penalty in nmt/search/hypothesis.py",
    ),
}
