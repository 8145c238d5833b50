"""Comparison of a model in torch with the same model in another program: exports and imports."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from nmt.base.errors import UserError, missing, one_line
from nmt.base.progress import Advance, progress_bar
from nmt.config import EvaluationConfig
from nmt.exchange.interface import Runtime
from nmt.exchange.runtimes import TorchRuntime
from nmt.metrics.scores import bleu_score
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel
from nmt.translation.forced import ForcedDecoder, Pair

Bar = Callable[[str, int], AbstractContextManager[Advance]]

_RANDOM_LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34)
_MAX_SCORED = 1_000
# Largest number of sentences between two steps of the progress bar.
_PART = 64
_MAX_EXAMPLES = 10


@dataclass(frozen=True)
class Text:
    """Sentences for the comparison of ids, log-probabilities and translations.

    Attributes:
        name: description of their origin.
        sources: the sentences.
        references: their translations; None for none.
    """

    name: str
    sources: Sequence[str]
    references: Sequence[str] | None = None


@dataclass(frozen=True)
class Verification:
    """Result of a comparison.

    Attributes:
        program: the other program.
        largest_difference: of the log-probability of a token, in nats.
        num_scored: number of pairs whose tokens were compared.
        text: the sentences that were compared; None for random tokens.
        other_ids: sentences that have other ids in the other program.
        translations: translations by greedy search, each by torch and by the other program.
        tokenizer: the tokeniser of BLEU.
    """

    program: str
    largest_difference: float
    num_scored: int
    text: Text | None
    other_ids: Sequence[str]
    translations: Sequence[tuple[str, str]]
    tokenizer: str

    @property
    def other_texts(self) -> list[tuple[str, str]]:
        """Translations that differ."""
        return [(ours, theirs) for ours, theirs in self.translations if ours != theirs]

    @property
    def bleu(self) -> list[float]:
        """BLEU of the translations by torch and by the other program; empty without references."""
        references = self.text and self.text.references
        if not references:
            return []
        texts = zip(*self.translations, strict=True)
        return [bleu_score(one, references, tokenizer=self.tokenizer).score for one in texts]

    def lines(self) -> list[str]:
        """Describe the result in sentences."""
        found = [
            "log-probabilities of tokens differ from those of torch by at most"
            f" {self.largest_difference:.1e} nats in {self.num_scored:,} sentences"
        ]
        total = len(self.translations)
        if self.text is not None:
            found += [
                f"{total - len(self.other_ids):,} of {total:,} sources have the same ids",
                f"{total - len(self.other_texts):,} of {total:,} translations of {self.text.name}"
                " by greedy search are equal to those of torch",
            ]
        if self.bleu:
            ours, theirs = self.bleu
            found.append(
                f"BLEU of these translations: {theirs:.2f}, by torch {ours:.2f}, a difference of"
                f" {theirs - ours:+.2f}"
            )
        found += [f"other ids: {one_line(text)}" for text in self.other_ids[:_MAX_EXAMPLES]]
        found += [
            f"other translation: {one_line(theirs)}, by torch: {one_line(ours)}"
            for ours, theirs in self.other_texts[:_MAX_EXAMPLES]
        ]
        return [f"{self.program}: {line}" for line in found]


def compare(
    open_runtimes: Callable[[], Sequence[Runtime]],
    model: TrainedModel,
    text: Text | None,
    bar: Bar = progress_bar,
) -> list[str]:
    """Run a model in another program, if it is installed, and describe the differences.

    See `verify` for the other arguments.

    Raises:
        UserError: see `verify`.
    """
    try:
        runtimes = open_runtimes()
    except ImportError as error:
        advice = "run `make install-exchange`, and repeat this command"
        return [f"not compared with the other program: {missing(error)}; {advice}"]
    return [line for found in verify(runtimes, model, text, bar) for line in found.lines()]


def verify(
    runtimes: Sequence[Runtime],
    model: TrainedModel,
    text: Text | None = None,
    bar: Bar = progress_bar,
) -> list[Verification]:
    """Compare a model in torch with the same model in other programs, and show the progress.

    Compared are the ids of sources, the log-probabilities of the tokens of given targets, and
    translations by greedy search. The targets are the references, or else random tokens.

    Args:
        runtimes: the model in other programs, all with the same arithmetic.
        model: the model in torch, on a CPU.
        text: sentences to compare, without those that are empty or too long for the model; without
            text, only log-probabilities of random tokens are compared.
        bar: shows the progress, as `progress_bar` does.

    Returns:
        One result for each runtime, in their order.

    Raises:
        UserError: no line of the text can be compared, the numbers of tokens differ, or a
            log-probability differs by more than the tolerance of its runtime (see `Runtime`).
    """
    text = text and _fitting(model, text)
    pairs = _pairs(model, text)
    if not pairs:
        raise UserError(
            "all lines of the text to compare are empty or too long for the model; use another text"
        )
    sources = text.sources if text else []
    programs: list[Runtime] = [TorchRuntime(model, runtimes[0].dtype), *runtimes]
    total = len(programs) * (len(pairs) + len(sources))
    with bar(f"comparing with {runtimes[0].program}", total) as advance:
        ours, *scored = _by_parts(programs, _log_probs, pairs, advance)
        differences = [
            _largest_difference(ours, theirs, runtime)
            for theirs, runtime in zip(scored, runtimes, strict=True)
        ]
        texts = _by_parts(programs, lambda one, part: one.translate(part), sources, advance)
    ids = [program.encode(sources) if sources else [] for program in programs]
    return [
        Verification(
            runtime.program,
            differences[i],
            len(pairs),
            text,
            [a for a, b, c in zip(sources, ids[0], ids[i + 1], strict=True) if b != c],
            list(zip(texts[0], texts[i + 1], strict=True)),
            EvaluationConfig().tokenizer_of(model.config.target_language),
        )
        for i, runtime in enumerate(runtimes)
    ]


def _by_parts(
    programs: Sequence[Runtime],
    run: Callable[[Runtime, Sequence[Any]], list[Any]],
    items: Sequence[Any],
    advance: Advance,
) -> list[list[Any]]:
    """Run each program on the items, a part at a time; return the results by program."""
    found: list[list[Any]] = [[] for _ in programs]
    for first in range(0, len(items), _PART):
        part = items[first : first + _PART]
        for program, results in zip(programs, found, strict=True):
            results.extend(run(program, part))
            advance(len(part))
    return found


def _log_probs(program: Runtime, pairs: Sequence[Pair]) -> list[list[float]]:
    sources, targets = zip(*pairs, strict=True)
    return program.token_log_probs(sources, targets)


def _fitting(model: TrainedModel, text: Text) -> Text:
    """Return the text without lines whose source is empty or too long for the model."""
    ids = model.source_tokenizer.encode(text.sources)
    kept = [i for i, row in enumerate(ids) if 0 < len(row) < model.config.max_source_length]
    references = text.references and [text.references[i] for i in kept]
    return Text(text.name, [text.sources[i] for i in kept], references)


def _pairs(model: TrainedModel, text: Text | None) -> list[Pair]:
    """Return the ids of pairs to score, at most _MAX_SCORED."""
    generator = torch.Generator().manual_seed(1)

    def random_ids(tokenizer: Tokenizer, lengths: Iterable[int], limit: int) -> list[list[int]]:
        special = (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unknown_id)
        ordinary = torch.tensor([i for i in range(tokenizer.vocabulary_size) if i not in special])
        sizes = [min(length, limit - 1) for length in lengths]
        drawn = (torch.randint(len(ordinary), (size,), generator=generator) for size in sizes)
        return [ordinary[indices].tolist() for indices in drawn]

    longest_source, longest_target = model.config.max_source_length, model.config.model.max_length
    if text is None:
        sources = random_ids(model.source_tokenizer, _RANDOM_LENGTHS, longest_source)
    else:
        sources = model.source_tokenizer.encode(text.sources)
    if text is None or text.references is None:
        lengths = map(len, sources if text else sources[::-1])
        targets = random_ids(model.target_tokenizer, lengths, longest_target)
    else:
        targets = model.target_tokenizer.encode(text.references)
    fits = ForcedDecoder(model).fits
    pairs: list[Pair] = list(zip(sources, targets, strict=True))
    return [pair for pair in pairs if all(pair) and fits(pair)][:_MAX_SCORED]


def _largest_difference(
    reference: Sequence[list[float]], scored: Sequence[list[float]], runtime: Runtime
) -> float:
    """Return the largest difference of a token's log-probability, in nats; see `verify`."""
    expected = torch.tensor(list(chain(*reference)), dtype=torch.float64)
    found = torch.tensor(list(chain(*scored)), dtype=torch.float64)
    if found.shape != expected.shape:
        raise UserError(f"{runtime.program} scored {len(found)} tokens instead of {len(expected)}")
    differences = (expected - found).abs()
    limits = torch.full_like(expected, runtime.tolerance)
    if runtime.dtype is torch.float32:  # log-probabilities far below zero have larger errors
        limits *= expected.abs().clamp(min=1)
    if not (differences <= limits).all():
        raise UserError(
            f"log-probabilities of tokens by {runtime.program} differ from those of torch by up to"
            f" {float(differences.max()):.2g} nats, more than the tolerance of"
            f" {runtime.tolerance:g}"
        )
    return float(differences.max())
