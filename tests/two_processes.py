"""Measurements of updates in two processes, to be compared with one process.

This is a module of its own because the new processes import it.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from nmt.config import Config
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position
from nmt.runs.experiment import run_experiment
from nmt.training import distributed
from nmt.training.distributed import Process
from nmt.training.trainer import Trainer

NUM_UPDATES = 6


def in_one_of_two(configs: Mapping[str, Config], run: Config, corpus: Path, results: Path) -> None:
    """The work of one process: collectives, some updates of each configuration, a whole run."""
    process = distributed.join(run.training)
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        "process": (process.rank, process.world_size),
        "all_reduce": process.all_reduce(torch.tensor([process.rank + 1, 10])).tolist(),
        "broadcast": process.broadcast({"rank": process.rank}),
        "is_main_process": distributed.is_main_process(),
        "is_launched": distributed.is_launched(),
        "updates": {name: measure(config, corpus, process) for name, config in configs.items()},
    }
    evaluations = run_experiment(run, corpus)
    if evaluations is not None:
        found["bleu"] = [evaluation.scores.bleu.score for evaluation in evaluations]
    torch.save(found, results / f"rank{process.rank}.pt")


@patch.object(torch, "compile", lambda function, **_: function)  # it takes minutes
def measure(config: Config, corpus: Path, process: Process) -> dict[str, Any]:
    """Loss and norm of each update, the gradient that the first leaves, the weights at the end."""
    trainer = Trainer(config, PreparedCorpus(corpus), process)
    model = trainer.model.network.train()
    found: dict[str, Any] = {"losses": [], "norms": [], "micro_batches": [], "shares": []}
    for work in islice(trainer.loader.updates(Position()), NUM_UPDATES):
        # As in training, ranks agree before each round; with uneven shares this must not deadlock.
        made = trainer._updater.gradient(work, lambda: process.any(False) and None)
        trainer._updater.step(made, trainer.state.update + 1)
        found["losses"].append(float(process.all_reduce(made.loss)) / work.num_target_tokens)
        found["norms"].append(float(made.norm))
        found["micro_batches"].append(len(work.shapes))
        found["shares"].append(len(work.micro_batches))
        if "gradient" not in found:
            named = model.named_parameters()
            found["gradient"] = {name: p.grad.clone() for name, p in named if p.grad is not None}
        trainer.state = replace(trainer.state, update=trainer.state.update + 1)
    found["weights"] = {name: p.detach().clone() for name, p in model.named_parameters()}
    return found
