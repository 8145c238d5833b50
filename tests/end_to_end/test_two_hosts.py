"""One run on two hosts by torchrun: it equals one machine, and survives failures."""

from pathlib import Path

import pytest

from nmt.base.files import read_json
from tests import namespaces
from tests.runs import metrics, run
from tests.support import tiny_config
from tests.two_hosts import play

_NETWORK = namespaces.unshare("n", "ip link add one type veth peer name two")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        not _NETWORK, reason="this machine does not allow network namespaces (unshare -n)"
    ),
]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, digit_corpus: Path) -> Path:
    """The folder with the results of all scenes."""
    work = tmp_path_factory.mktemp("hosts")
    namespaces.in_a_process(play, digit_corpus, work, within=_NETWORK)
    return work


@pytest.fixture(scope="module")
def straight_tiny(
    tmp_path_factory: pytest.TempPathFactory, digit_corpus: Path
) -> list[dict[str, float]]:
    """The metrics of the same run in one process."""
    config = tiny_config(tmp_path_factory.mktemp("straight_tiny"))
    run(config, digit_corpus)
    return metrics(config)


@pytest.mark.parametrize(
    ("scene", "message"),
    [
        ("undisturbed", "training 0.01 million parameters with 2 process(es) on cpu"),
        ("worker_killed", "continuing from update 5"),
        ("stopped", "saved at update 7; the same command continues"),
    ],
)
def test_two_hosts_train_the_run_of_one_process(
    scene: str, message: str, played: Path, straight_tiny: list[dict[str, float]]
) -> None:
    folder = played / scene
    assert read_json(folder / "statuses.json") == [0, 0]
    assert message in (folder / "1.log").read_text() + (folder / "2.log").read_text()
    found = metrics(tiny_config(folder))
    assert [record["update"] for record in found] == [*range(1, 6), 5, *range(6, 11), 10]
    for ours, expected in zip(found, straight_tiny, strict=True):
        assert ours == pytest.approx(expected, rel=1e-3)
