"""Does the company of a sentence change its translation? Translates a file in many ways and counts.

    python -m benchmarks.exactness model=FOLDER file=news.en [sentences=2000] [beam_size=4]

Each way (batch size, order, refilling) is compared with every sentence decoded alone. Sums of the
same numbers in another order differ in their last digits, so where two candidates are equal but for
those, either may go first. Such a tie is looked for in every sentence that differs: the smallest
distance between two neighbours in the ranking of candidates, at any step.
"""

import random
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import torch

from nmt.cli.common import parse_arguments, run_command
from nmt.config import DecodingConfig
from nmt.decoding.choice import BeamChooser
from nmt.decoding.engine import banned_ids, longest_translation
from nmt.decoding.live import Choice, NextTokens
from nmt.decoding.search import Search
from nmt.decoding.task import TargetIds, Task
from nmt.decoding.torch_engine import TorchEngine
from nmt.errors import UserError
from nmt.files import iterate_lines
from nmt.model.decoder_state import DecoderState
from nmt.trained_model import TrainedModel, load_trained_model

# Two candidates closer than this, in nats, are a tie.
_TIE = 1e-5


@dataclass(frozen=True)
class Arguments:
    """The module's text explains them."""

    model: str = ""
    file: str = ""
    sentences: int = 2000
    beam_size: int = 4


@dataclass(frozen=True)
class _Way:
    """One way to decode the same sentences."""

    batch_size: int
    is_shuffled: bool = False
    refill: float = 0.0


_WAYS = [_Way(7), _Way(32), _Way(256), _Way(32, True), _Way(32, False, 0.25), _Way(7, True, 0.5)]


@dataclass
class _WatchedChooser:
    """A beam that keeps the smallest distance between neighbours in its rankings."""

    chooser: BeamChooser
    smallest: float = field(default=float("inf"))
    num_lanes: int = 1
    ranks_by_sum: bool = True

    def __call__(self, found: NextTokens, /) -> Choice:
        choice = self.chooser(found)
        ranked = choice.log_probs[choice.log_probs.isfinite()]
        if len(ranked) > 1:
            self.smallest = min(self.smallest, float((ranked[:-1] - ranked[1:]).min()))
        return choice


def _smallest_distance(model: TrainedModel, config: DecodingConfig, source: list[int]) -> float:
    """The closest call of one sentence's search, in nats."""
    target, transformer = model.target_tokenizer, model.transformer.eval()
    ids = TargetIds(target.bos_id, target.eos_id, banned_ids(target))
    watched = _WatchedChooser(BeamChooser(config.beam_size, target.eos_id))
    searching: Search[DecoderState] = Search(transformer.step, config, ids, choose=watched)
    longest = longest_translation(config, model.config.model.max_length, len(source) + 1)
    with torch.inference_mode():
        encoded = torch.tensor([[*source, model.source_tokenizer.eos_id]])
        mask = torch.ones_like(encoded, dtype=torch.bool)
        state = transformer.start(transformer.encode(encoded, mask), mask)
        searching.add(state, [(0, Task(longest))])
        while searching.num_live:
            searching.advance()
    return watched.smallest


def _decoded(
    model: TrainedModel, config: DecodingConfig, sources: list[list[int]], way: _Way
) -> list[list[int]]:
    order = list(range(len(sources)))
    if way.is_shuffled:
        random.Random(1).shuffle(order)
    changed = replace(config, batch_size=way.batch_size, refill=way.refill)
    found = TorchEngine(model, changed).search([sources[place] for place in order])
    best = [hypotheses[0].ids for hypotheses in found]
    return [ids for _, ids in sorted(zip(order, best, strict=True))]


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments, __doc__ or "")
    if not arguments.model or not arguments.file:
        raise UserError("model= and file= are needed: a model folder, and text to translate")
    model = load_trained_model(Path(arguments.model), torch.device("cpu"))
    config = replace(model.config.decoding, beam_size=arguments.beam_size)
    longest = TorchEngine(model, config).longest_source - 1
    lines = list(islice(iterate_lines(Path(arguments.file)), arguments.sentences))
    encoded = model.source_tokenizer.encode(lines)
    sources = [ids for ids in encoded if 0 < len(ids) <= longest]
    lengths = sorted(map(len, sources))
    print(
        f"{len(sources)} sentences of {lengths[0]} to {lengths[-1]} tokens, half of them below"
        f" {lengths[len(lengths) // 2]}; beam {arguments.beam_size}; compared with each alone",
        flush=True,
    )
    alone = _decoded(model, config, sources, _Way(1))
    print("batch size  order     refill  differing  ties  smallest distances, nats", flush=True)
    distances: dict[int, float] = {}
    for way in _WAYS:
        found = _decoded(model, config, sources, way)
        differing = [place for place, ids in enumerate(found) if ids != alone[place]]
        for place in differing:
            if place not in distances:
                distances[place] = _smallest_distance(model, config, sources[place])
        closest = [distances[place] for place in differing]
        print(
            f"{way.batch_size:10}  {'shuffled' if way.is_shuffled else 'as given'}  {way.refill:6}"
            f"  {len(differing):9}  {sum(distance < _TIE for distance in closest):4}"
            f"  {' '.join(f'{distance:.1e}' for distance in closest)}",
            flush=True,
        )


if __name__ == "__main__":
    run_command(main)
