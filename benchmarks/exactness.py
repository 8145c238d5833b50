"""Count the translations that depend on the other sentences of a batch; there should be none.

    python -m benchmarks.exactness model=FOLDER file=news.en [sentences=2000] [beam_size=4]

Translations with several batch sizes and orders are compared with those of every sentence decoded
alone. Sums of the same numbers in another order differ in their last digits, so two candidates with
almost equal scores may swap ranks. For every translation that differs, the smallest gap between
adjacent candidates of any decoding step is printed; a gap below 1e-5 nats is a tie.
"""

import random
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch

from nmt.base.errors import UserError
from nmt.base.files import iterate_lines
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import DecodingConfig, checked_dataclass
from nmt.search.candidates import select_beam
from nmt.search.live import Candidates, NextTokens
from nmt.search.request import Request, TargetIds
from nmt.search.search import beam_search
from nmt.trained_model import TrainedModel, load_trained_model
from nmt.translation.engine import banned_ids
from nmt.translation.torch_engine import TorchEngine

# Two candidates closer than this, in nats, are a tie.
_TIE = 1e-5


@checked_dataclass
class Arguments:
    """See the docstring of the module."""

    model: str = ""
    file: str = ""
    sentences: int = 2000
    beam_size: int = 4


@dataclass(frozen=True)
class _Batching:
    """One way to divide the sentences into batches."""

    batch_size: int
    is_shuffled: bool = False


_BATCHINGS = [_Batching(7), _Batching(32), _Batching(256), _Batching(7, True), _Batching(32, True)]


def _smallest_gap(model: TrainedModel, config: DecodingConfig, source: list[int]) -> float:
    """Return the smallest gap between adjacent candidates of a search, in nats."""
    target, transformer = model.target_tokenizer, model.network.eval()
    smallest = float("inf")

    def select(next_tokens: NextTokens) -> Candidates:
        nonlocal smallest
        candidates = select_beam(next_tokens, config.beam_size)
        ranked = candidates.log_probs[candidates.log_probs.isfinite()]
        if len(ranked) > 1:
            smallest = min(smallest, float((ranked[:-1] - ranked[1:]).min()))
        return candidates

    ids = TargetIds(target.bos_id, target.eos_id, banned_ids(target))
    longest = TorchEngine(model, config).longest_translation(len(source) + 1, Request())
    with torch.inference_mode():
        encoded = torch.tensor([[*source, model.source_tokenizer.eos_id]])
        mask = torch.ones_like(encoded, dtype=torch.bool)
        state = transformer.start(transformer.encode(encoded, mask), mask)
        beam_search(
            transformer.step, state, config, ids, [Request(max_length=longest)], select=select
        )
    return smallest


def _best_ids(
    model: TrainedModel, config: DecodingConfig, sources: list[list[int]], batching: _Batching
) -> list[list[int]]:
    order = list(range(len(sources)))
    if batching.is_shuffled:
        random.Random(1).shuffle(order)
    changed = replace(config, batch_size=batching.batch_size)
    found = TorchEngine(model, changed).search([sources[index] for index in order])
    best = [hypotheses[0].ids for hypotheses in found]
    return [ids for _, ids in sorted(zip(order, best, strict=True))]


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the command."""
    if not arguments.model or not arguments.file:
        raise UserError("model= and file= are required: a model folder, and text to translate")
    model = load_trained_model(Path(arguments.model), torch.device("cpu"))
    config = replace(model.config.decoding, beam_size=arguments.beam_size)
    longest = TorchEngine(model, config).longest_source - 1
    lines = list(islice(iterate_lines(Path(arguments.file)), arguments.sentences))
    encoded = model.source_tokenizer.encode(lines)
    sources = [ids for ids in encoded if 0 < len(ids) <= longest]
    lengths = sorted(map(len, sources))
    print(
        f"{len(sources)} sentences of {lengths[0]} to {lengths[-1]} tokens, median"
        f" {lengths[len(lengths) // 2]}; beam {arguments.beam_size}; compared with each alone",
        flush=True,
    )
    alone = _best_ids(model, config, sources, _Batching(1))
    print("batch size  order     differing  ties  smallest gaps, nats", flush=True)
    gaps: dict[int, float] = {}
    for batching in _BATCHINGS:
        found = _best_ids(model, config, sources, batching)
        differing = [index for index, ids in enumerate(found) if ids != alone[index]]
        for index in differing:
            if index not in gaps:
                gaps[index] = _smallest_gap(model, config, sources[index])
        closest = [gaps[index] for index in differing]
        print(
            f"{batching.batch_size:10}  {'shuffled' if batching.is_shuffled else 'as given'}"
            f"  {len(differing):9}  {sum(gap < _TIE for gap in closest):4}"
            f"  {' '.join(f'{gap:.1e}' for gap in closest)}",
            flush=True,
        )


if __name__ == "__main__":
    run_command(main)
