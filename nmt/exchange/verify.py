"""Comparison of a model in torch with the same model in another program: exports and imports."""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import torch
from torch import Tensor

from nmt.base.errors import UserError, missing, one_line
from nmt.base.progress import Advance, progress_bar
from nmt.config import ARRANGING_KEYS, DecodingConfig, LengthPenalty
from nmt.exchange.interface import NotComparedError, Runtime
from nmt.metrics.scores import bleu_score
from nmt.search.request import Ids
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel
from nmt.translation.engine import LENGTH_KEYS, length_batches
from nmt.translation.forced import ForcedDecoder, Pair
from nmt.translation.torch_engine import TorchEngine

_RANDOM_LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34)
_MAX_SCORED = 1_000
# Largest number of sentences between two steps of the progress bar.
_PART = 64
# Largest number of logits computed together: 134 MB in float64.
_MAX_LOGITS = 2**24
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
        text: the sentences that were translated; None for none.
        other_ids: sentences that have other ids in the other program.
        other_texts: translations by greedy search that differ, by torch and by the other program.
        bleu: BLEU of the translations by torch and by the other program, if there are references.
    """

    program: str
    largest_difference: float
    num_scored: int
    text: Text | None = None
    other_ids: Sequence[str] = ()
    other_texts: Sequence[tuple[str, str]] = ()
    bleu: tuple[float, float] | None = None

    @property
    def num_equal(self) -> int:
        """Number of equal translations."""
        return len(self.text.sources) - len(self.other_texts) if self.text else 0

    def lines(self) -> list[str]:
        """Describe the result in sentences."""
        found = [
            "log-probabilities of tokens differ from those of torch by at most"
            f" {self.largest_difference:.1e} nats in {self.num_scored:,} sentences"
        ]
        if self.text is not None:
            total = len(self.text.sources)
            found += [
                f"{total - len(self.other_ids):,} of {total:,} sources have the same ids",
                f"{self.num_equal:,} of {total:,} translations of {self.text.name} by greedy search"
                " are equal to those of torch",
            ]
        if self.bleu is not None:
            torch_bleu, bleu = self.bleu
            found.append(
                f"BLEU of these translations: {bleu:.2f}, by torch {torch_bleu:.2f}, a difference"
                f" of {bleu - torch_bleu:+.2f}"
            )
        found += [f"other ids: {one_line(text)}" for text in self.other_ids[:_MAX_EXAMPLES]]
        found += [
            f"other translation: {one_line(theirs)}, by torch: {one_line(ours)}"
            for ours, theirs in self.other_texts[:_MAX_EXAMPLES]
        ]
        return [f"{self.program}: {line}" for line in found]


class TorchRuntime:
    """A model in torch, computed with the arithmetic of the program that it is compared with."""

    program = "torch"
    tolerance = 0.0

    def __init__(self, model: TrainedModel, dtype: torch.dtype) -> None:
        self.dtype = dtype
        if dtype is torch.float64:
            model = replace(model, network=copy.deepcopy(model.network).double())
        self._model = model
        self._engine = TorchEngine(model, greedy(model))
        self._forced = ForcedDecoder(model)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of sources, EOS last."""
        return ids_with_eos(self._model.source_tokenizer, texts)

    def token_log_probs(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Compute the log-probability in nats of each target token and of EOS."""
        return self._forced.token_log_probs(list(zip(sources, targets, strict=True)))

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translate by greedy search."""
        found = self._engine.search(self._model.source_tokenizer.encode(texts))
        return self._model.target_tokenizer.decode([best.ids for best, *_ in found])


def compare(
    open_runtimes: Callable[[], Sequence[Runtime]], model: TrainedModel, text: Text | None
) -> list[str]:
    """Run a model in another program, if it is installed, and describe the differences.

    Raises:
        UserError: see `verify`.
    """
    try:
        runtimes = open_runtimes()
    except ImportError as error:
        advice = "run `make install-exchange`, and repeat this command"
        return [f"not compared with the other program: {missing(error)}; {advice}"]
    except NotComparedError as error:
        return [f"not compared with the other program: {error}"]
    return [line for found in verify(runtimes, model, text) for line in found.lines()]


def verify(
    runtimes: Sequence[Runtime], model: TrainedModel, text: Text | None = None
) -> list[Verification]:
    """Compare a model in torch with the same model in other programs, and show the progress.

    Compared are the ids of sources, the log-probabilities of the tokens of given targets, and
    translations by greedy search. The targets are the references, or else random tokens.

    Args:
        runtimes: the model in other programs, all with the same arithmetic.
        model: the model in torch, on a CPU.
        text: sentences to compare, without those that are empty or too long for the model; without
            text, only log-probabilities of random tokens are compared.

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
    programs: list[Runtime] = [TorchRuntime(model, runtimes[0].dtype), *runtimes]
    total = len(programs) * (len(pairs) + (len(text.sources) if text else 0))
    with progress_bar(f"comparing with {runtimes[0].program}", total) as advance:
        expected, *scored = _log_probs(programs, pairs, advance)
        differences = map(partial(_largest_difference, expected), scored, runtimes)
        found = [
            Verification(runtime.program, difference, len(pairs))
            for runtime, difference in zip(runtimes, differences, strict=True)
        ]
        return found if text is None else _translated(found, programs, text, advance)


def greedy(model: TrainedModel) -> DecodingConfig:
    """Return the settings of greedy search, with the length limits of the model's own search."""
    own = model.config.decoding
    kept = {key: getattr(own, key) for key in (*LENGTH_KEYS, *ARRANGING_KEYS)}
    return DecodingConfig(beam_size=1, length_penalty_kind=LengthPenalty.none, **kept)


def ids_with_eos(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids of texts, EOS last."""
    return [[*ids, tokenizer.eos_id] for ids in tokenizer.encode(texts)]


def score(
    logits: Callable[[list[Ids], list[Ids]], Tensor],
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    target: Tokenizer,
) -> list[list[float]]:
    """Return the log-probability of each target token and of EOS.

    Args:
        logits: computes the logits (B, T, V) of the tokens of padded targets, for a batch.
        sources: ids of each source, without EOS.
        targets: ids of each target, without BOS and EOS.
        target: the target tokenizer.
    """
    found: list[list[float]] = [[]] * len(targets)

    def size(length: int) -> int:
        return max(1, _MAX_LOGITS // (length * target.vocabulary_size))

    for indices in length_batches([len(ids) + 1 for ids in targets], size):
        batch = [targets[index] for index in indices]
        log_probs = logits([sources[index] for index in indices], batch).log_softmax(dim=-1)
        for index, ids, rows in zip(indices, batch, log_probs, strict=True):
            tokens = torch.tensor([*ids, target.eos_id])
            found[index] = rows[: len(tokens)].gather(1, tokens[:, None])[:, 0].tolist()
    return found


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
        ordinary = [i for i in range(tokenizer.vocabulary_size) if i not in special]
        drawn = (
            torch.randint(len(ordinary), (min(length, limit - 1),), generator=generator).tolist()
            for length in lengths
        )
        return [[ordinary[index] for index in row] for row in drawn]

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


def _log_probs(
    programs: Sequence[Runtime], pairs: Sequence[Pair], advance: Advance
) -> list[list[list[float]]]:
    """Return the log-probabilities of the tokens of each pair by each program."""
    found: list[list[list[float]]] = [[] for _ in programs]
    for first in range(0, len(pairs), _PART):
        sources, targets = zip(*pairs[first : first + _PART], strict=True)
        for program, log_probs in zip(programs, found, strict=True):
            log_probs.extend(program.token_log_probs(sources, targets))
            advance(len(sources))
    return found


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


def _translated(
    found: Sequence[Verification], programs: Sequence[Runtime], text: Text, advance: Advance
) -> list[Verification]:
    """Add the comparison of ids and translations; the first program is torch."""
    translations: list[list[str]] = [[] for _ in programs]
    for first in range(0, len(text.sources), _PART):
        part = text.sources[first : first + _PART]
        for program, translated in zip(programs, translations, strict=True):
            translated.extend(program.translate(part))
            advance(len(part))
    ours, *others = (
        (program.encode(text.sources), translated)
        for program, translated in zip(programs, translations, strict=True)
    )
    results = []
    for result, theirs in zip(found, others, strict=True):
        ids = zip(text.sources, ours[0], theirs[0], strict=True)
        pairs = zip(ours[1], theirs[1], strict=True)
        bleu = None
        if text.references is not None:
            one, other = (
                bleu_score(texts, text.references).score for texts in (ours[1], theirs[1])
            )
            bleu = one, other
        results.append(
            replace(
                result,
                text=text,
                other_ids=[source for source, a, b in ids if a != b],
                other_texts=[(a, b) for a, b in pairs if a != b],
                bleu=bleu,
            )
        )
    return results
