"""Agreement: the real command has the same losses on a GPU as on a CPU, also after a kill."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import torch

from benchmarks.figures import Figure
from benchmarks.gpu_setting import TOLERANCE, Setting
from benchmarks.setting import write_made_up_text
from nmt.base.layout import CHECKPOINTS_FOLDER
from nmt.run_folder import Run


def agreement(setting: Setting) -> Iterator[Figure]:
    """Compare losses of CPU, one and all GPUs, and of a run that was killed and continued."""
    sizes = {"train": setting.sizes.agreement_pairs, "valid": 20}
    write_made_up_text(setting.folder / "text", sizes)
    reference = _Training(setting, "cpu", 1, on_cpu=True)
    reference.end()  # prepares the corpus
    number = torch.cuda.device_count() if setting.is_cuda else 2
    # Without a GPU, the reference is also the run on one device.
    runs = {"one device": _Training(setting, "one", 1) if setting.is_cuda else reference}
    killed = _Training(setting, "killed", 1)
    if number > 1:
        runs[f"all {number} devices"] = _Training(setting, "all", number)
    try:
        yield from _differences(setting, reference, runs, killed)
    finally:
        for run in (*runs.values(), killed):
            run.kill()


def _differences(
    setting: Setting, reference: "_Training", runs: dict[str, "_Training"], killed: "_Training"
) -> Iterator[Figure]:
    was_killed = killed.kill_after_checkpoint()
    for name, run in runs.items():
        run.end()
        difference = reference.difference(run)
        yield Figure(f"losses of {name} and CPU", difference, "nats", at_most=TOLERANCE)
    if len(runs) == 1:
        yield Figure("losses of all devices and CPU", None, note="one GPU", is_skipped=True)
    name = "losses after SIGKILL and resumption"
    if not was_killed:
        yield Figure(name, None, note="it ended before it could be killed, or had no checkpoint")
    else:
        killed.start()
        killed.end()
        difference = runs["one device"].difference(killed)
        limit = TOLERANCE if setting.is_cuda else 0.0
        yield Figure(name, difference, "nats", at_most=limit, note="beside an untouched run")


class _Training:
    """A run of `nmt train` in a subprocess."""

    def __init__(self, setting: Setting, name: str, processes: int, on_cpu: bool = False) -> None:
        self._setting = setting
        self._name = name
        outputs = setting.folder / "outputs"
        self.folder = outputs / "runs" / name
        updates = setting.sizes.agreement_updates
        self._command = [
            *(sys.executable, "-m", "nmt", "train", "corpus=folder", "model=tiny"),
            *(f"corpus.path={setting.folder / 'text'}", "corpus.direction=en-de"),
            *("corpus.name=made_up", "tokenizer.vocabulary_size=400", "decoding=greedy"),
            *("decoding.max_length_ratio=0", "decoding.max_length_offset=4"),
            *("model.width=64", "model.feed_forward_width=128", "model.dropout=0"),
            *("batching.target_tokens_per_update=1024", "batching.tokens_per_micro_batch=2048"),
            *("schedule.peak_learning_rate=1e-3", f"schedule.warmup_updates={updates // 2}"),
            *("training.precision=float32", "training.log_every=1", "training.num_threads=1"),
            *(f"training.max_updates={updates}", f"training.validate_every={updates // 4}"),
            f"training.num_processes={processes}",
            *(f"run.name={name}", f"run.outputs={outputs}"),
        ]
        self._environment = dict(os.environ)
        if on_cpu or not setting.is_cuda:
            self._environment["CUDA_VISIBLE_DEVICES"] = ""
        self.start()

    def start(self) -> None:
        """Start the command, or start it again after its end."""
        self._log = (self._setting.folder / f"{self._name}.log").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            self._command,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,
        )

    def kill_after_checkpoint(self) -> bool:
        """Kill the run at its first checkpoint; return False if it ended before or has none."""
        limit = time.monotonic() + self._setting.limit(180)
        is_saved = False
        while self._process.poll() is None and not is_saved and time.monotonic() < limit:
            time.sleep(0.005)
            is_saved = any(self.folder.glob(f"{CHECKPOINTS_FOLDER}/update_*"))
        self.kill()
        return is_saved and not Run(self.folder).is_complete

    def kill(self) -> None:
        """End the run, if it has not ended."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def end(self) -> None:
        """Wait for a successful end.

        Raises:
            RuntimeError: the command failed or takes too long.
        """
        try:
            status = self._process.wait(self._setting.limit(240))
        except subprocess.TimeoutExpired:
            self.kill()
            status = -signal.SIGKILL
        if status:
            self._log.seek(0)
            end = self._log.read()[-600:]
            raise RuntimeError(f"training {self._name} ended with {status}: {end}")

    def losses(self) -> dict[int, float]:
        """Return the training loss by update."""
        records = Run(self.folder).metrics
        return {r["update"]: r["train/loss"] for r in records if "train/loss" in r}

    def difference(self, other: "_Training") -> float:
        """Return the largest difference between the losses of two runs."""
        mine, theirs = self.losses(), other.losses()
        if mine.keys() != theirs.keys() or len(mine) != self._setting.sizes.agreement_updates:
            raise RuntimeError(f"{self._name} and {other._name} logged other updates")
        return max(abs(mine[update] - theirs[update]) for update in mine)
