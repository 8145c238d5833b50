"""What two processes measure together, and one process alone, to be compared.

A module of its own: the processes are fresh ones, which have to import it.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from nmt.config import Config
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position
from nmt.training import distributed
from nmt.training.distributed import Process
from nmt.training.experiment import run_experiment
from nmt.training.trainer import Trainer

NUM_UPDATES = 6


def in_one_of_two(configs: Mapping[str, Config], run: Config, corpus: Path, results: Path) -> None:
    """The work of one process: collectives, some updates of each configuration, a whole run."""
    process = distributed.join(run.training)
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        "process": (process.rank, process.world_size),
        "sum": process.sum(torch.tensor([process.rank + 1, 10])).tolist(),
        "from_first": process.from_first({"rank": process.rank}),
        "is_first": distributed.is_first(),
        "launched_by_cluster": distributed.launched_by_cluster(),
        "updates": {name: measure(config, corpus, process) for name, config in configs.items()},
    }
    found["halved"] = measure_halved(configs["shared"], corpus, process)
    evaluations = run_experiment(run, corpus)
    if evaluations is not None:
        found["bleu"] = [evaluation.scores.bleu.score for evaluation in evaluations]
    torch.save(found, results / f"rank{process.rank}.pt")


def measure(config: Config, corpus: Path, process: Process) -> dict[str, Any]:
    """Loss and norm of each update, the gradient that the first leaves, the weights at the end."""
    trainer = Trainer(config, PreparedCorpus(corpus), process)
    model = trainer.model.transformer.train()
    found: dict[str, Any] = {"losses": [], "norms": [], "micro_batches": [], "shares": []}
    for work in islice(trainer.loader.updates(Position()), NUM_UPDATES):
        made = trainer.update(work)
        found["losses"].append(float(process.sum(made.loss)) / work.num_target_tokens)
        found["norms"].append(float(made.norm))
        found["micro_batches"].append(work.num_micro_batches)
        found["shares"].append(len(work.micro_batches))
        if "gradient" not in found:
            named = model.named_parameters()
            found["gradient"] = {name: p.grad.clone() for name, p in named if p.grad is not None}
        trainer.progress = replace(trainer.progress, update=trainer.progress.update + 1)
    found["weights"] = {name: p.detach().clone() for name, p in model.named_parameters()}
    return found


def measure_halved(config: Config, corpus: Path, process: Process) -> dict[str, Any]:
    """Memory runs out on the second process, in the backward pass that shares gradients."""
    config = replace(
        config,
        run=replace(config.run, name="halved"),
        training=replace(config.training, max_updates=2, validate_every=2),
    )
    config.run_folder.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(config, PreparedCorpus(corpus), process)
    transformer = trainer.model.transformer
    forward, calls = transformer.forward, []

    def full(gradient: torch.Tensor) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    def failing(*inputs: torch.Tensor) -> torch.Tensor:
        hidden = forward(*inputs)
        calls.append(len(hidden))
        if process.rank == 1 and len(calls) == len(first.micro_batches):
            hidden.register_hook(full)
        return hidden

    first = trainer.loader.work(Position())
    transformer.forward = failing  # type: ignore[method-assign]
    progress = trainer.run()
    weights = {name: p.detach().clone() for name, p in transformer.named_parameters()}
    halvings = progress.halvings
    counts = [progress.update, halvings.times, halvings.used, progress.target_tokens]
    return {"counts": counts, "weights": weights}
