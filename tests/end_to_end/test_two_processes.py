"""Two processes make the updates that one makes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.runs.experiment import run_experiment
from nmt.runs.opening import open_run
from tests.runs import metrics
from tests.support import ALONE
from tests.two_processes import measure

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["shared", "one idle", "muon", "experts", "packed", "compiled"])
def test_two_processes_make_the_updates_of_one(
    name: str, two_processes_found: Any, digit_corpus: Path
) -> None:
    """Also with dropout: its random numbers depend on the micro-batch, not on the process."""
    one = measure(two_processes_found.configs[name], digit_corpus, ALONE)
    ranks = [found["updates"][name] for found in two_processes_found.ranks]
    shares = list(zip(*(rank["shares"] for rank in ranks), strict=True))
    if name in ("packed", "compiled"):  # a rank may have an empty row more
        assert all(
            sum(share) - alone in (0, 1) for share, alone in zip(shares, one["shares"], strict=True)
        )
        assert all(first == second for first, second in shares)
    else:
        assert [sum(share) for share in shares] == one["shares"] == one["micro_batches"]
    if name != "one idle":
        assert min(one["micro_batches"]) >= 4
        assert all(min(share) >= 1 for share in shares)
    else:
        assert (1, 0) in shares
    for rank in ranks:
        assert rank["gradient"].keys() == one["gradient"].keys()
        for key, gradient in one["gradient"].items():
            torch.testing.assert_close(rank["gradient"][key], gradient, rtol=1e-4, atol=1e-6)
        assert rank["losses"] == pytest.approx(one["losses"], rel=1e-4)
        assert rank["norms"] == pytest.approx(one["norms"], rel=1e-3)
        for key, weight in ranks[0]["weights"].items():
            assert torch.equal(weight, rank["weights"][key])


def test_a_whole_run_is_the_same(
    two_processes_found: Any, digit_corpus: Path, tmp_path: Path
) -> None:
    two = two_processes_found.run
    one = replace(two, run=replace(two.run, outputs=str(tmp_path)))
    open_run(one, digit_corpus)
    evaluations = run_experiment(one, digit_corpus)
    assert evaluations is not None
    first, second = metrics(one), metrics(two)
    assert len(first) == len(second) == 12
    for ours, theirs in zip(first, second, strict=True):
        exact = {"update", "epoch", "train/target_tokens", "train/share_not_padding"}
        for key in ours:
            close = pytest.approx(ours[key], rel=0 if key in exact else 1e-3)
            assert theirs[key] == close, key
    first_rank, second_rank = two_processes_found.ranks
    assert first_rank["bleu"] == [pytest.approx(evaluations[0].scores.bleu.score)]
    assert "bleu" not in second_rank  # the first process alone translates the test set
    assert (two.run_folder / "model" / "weights.safetensors").is_file()
