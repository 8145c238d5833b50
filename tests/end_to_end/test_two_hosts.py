"""A run on two hosts by torchrun survives failures and equals a run of one process."""

from pathlib import Path

import pytest

from nmt.base.files import read_json
from tests import namespaces
from tests.runs import metrics, run
from tests.support import tiny_config
from tests.two_hosts import play

_NETWORK = namespaces.unshare("n", "ip link add one type veth peer name two")


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(
    not _NETWORK, reason="this machine does not allow network namespaces (unshare -n)"
)
def test_two_hosts_train_the_run_of_one_process(tmp_path: Path, digit_corpus: Path) -> None:
    two, one = tmp_path / "two", tiny_config(tmp_path / "one")
    two.mkdir()
    namespaces.in_a_process(play, digit_corpus, two, within=_NETWORK)
    assert read_json(two / "statuses.json") == [0, 0]
    logs = "".join((two / name).read_text() for name in ("1.log", "2.log"))
    for message in (
        "training 0.01 million parameters with 2 processes on cpu",
        "continuing from update 5",  # a worker was killed after update 7
        "saved at update 9; the same command continues",  # one command was stopped
        "continuing from update 9",
    ):
        assert message in logs
    run(one, digit_corpus)
    found, expected = metrics(tiny_config(two)), metrics(one)
    assert [record["update"] for record in found] == [*range(1, 6), 5, *range(6, 11), 10]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)
