"""What trackers cost training: the share of its time that is spent in their calls.

    python -m benchmarks.tracking [updates=200] [text=../shared/data/multi30k]

One training is measured, with all trackers (wandb offline) and two validations. The model is small,
which is the worst case: updates of a larger one take longer, and calls of trackers do not. The
start of the trackers takes the same time for any training and is measured separately.
"""

import functools
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, figures_json, print_figures, write_result
from benchmarks.setting import bench_config, prepared, run_alone, text_name, trainer_of
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import Config, TrackingConfig, WandbConfig, checked_dataclass
from nmt.tracking.file_tracker import FileTracker
from nmt.tracking.samples import ValidationSamples
from nmt.tracking.tensorboard_tracker import TensorboardTracker
from nmt.tracking.trackers import open_trackers
from nmt.tracking.wandb_tracker import WandbTracker

_LIMIT = 0.5  # percent of the time, for all of them together
_TIMED = {
    "metrics.jsonl": FileTracker,
    "wandb, offline": WandbTracker,
    "tensorboard": TensorboardTracker,
    "sentences and pictures": ValidationSamples,
}


@checked_dataclass
class Arguments:
    """`updates` are trained, with a validation in their middle and one at their end."""

    updates: int = 200
    text: str = "../shared/data/multi30k"
    threads: int = 2


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        config = bench_config(arguments.text, Path(folder))
        training = replace(
            config.training,
            max_updates=arguments.updates,
            validate_every=max(1, arguments.updates // 2),
        )
        tracking = TrackingConfig(wandb=WandbConfig(enabled=True), tensorboard=True)
        model = replace(
            config.model,
            width=128,
            num_encoder_layers=2,
            num_decoder_layers=2,
            feed_forward_width=512,
        )
        config = replace(config, model=model, training=training, tracking=tracking)
        shares, start = run_alone(_shares, config, prepared(config), arguments.threads)
    figures = [Figure(name, 100 * share, "% of training") for name, share in shares.items()]
    total = 100 * sum(shares.values())
    figures.append(Figure("all together", total, "% of training", at_most=_LIMIT))
    figures.append(Figure("start of wandb and tensorboard", start, "s"))
    print_figures("Trackers", figures)
    result = {"threads": arguments.threads, "text": text_name(arguments.text)}
    write_result("tracking", {**result, "figures": figures_json(figures)})
    print(f"trackers take {total:.2f} % of training", file=sys.stderr)


def _shares(config: Config, corpus: Path, threads: int) -> tuple[dict[str, float], float]:
    """Return each tracker's share of the time of a training, and the seconds of their start."""
    os.environ["WANDB_MODE"] = "offline"
    seconds: dict[str, float] = defaultdict(float)
    for name, kind in _TIMED.items():
        for method in ("log", "validation", "flush", "record"):
            if method in vars(kind):
                setattr(kind, method, _timed(getattr(kind, method), name, seconds))
    trainer = trainer_of(config, corpus, threads)
    validator = trainer.validator
    started = time.perf_counter()
    tracker = open_trackers(
        config,
        "bench",
        0,
        lambda: ValidationSamples(trainer.model, validator.sources, validator.references),
    )
    begun = time.perf_counter()
    trainer.run(tracker)
    total = time.perf_counter() - begun
    tracker.close()
    return {name: seconds[name] / total for name in _TIMED}, begun - started


_depth: Counter[str] = Counter()  # of nested calls, by name


def _timed(function: Any, name: str, seconds: dict[str, float]) -> Any:
    """Return a function that adds its time to `seconds[name]`; nested calls count once."""

    @functools.wraps(function)
    def timed(*arguments: Any) -> Any:
        _depth[name] += 1
        started = time.perf_counter()
        try:
            return function(*arguments)
        finally:
            _depth[name] -= 1
            if not _depth[name]:
                seconds[name] += time.perf_counter() - started

    return timed


if __name__ == "__main__":
    run_command(main)
