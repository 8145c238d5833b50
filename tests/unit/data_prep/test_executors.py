import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import ray
import submitit
from ray.cluster_utils import Cluster

from data_prep import cleaned_text, executors
from data_prep.executors import map_in_arrays, map_in_processes, map_jobs
from nmt.base.errors import UserError
from nmt.config import ExecutorName, PrepareConfig
from tests.jobs import double
from tests.namespaces import ROOT
from tests.unit.data_prep.conftest import Toy

HERE = PrepareConfig(num_processes=1)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.arrow")}


@pytest.fixture
def many_shards(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Toy:
    monkeypatch.setattr(cleaned_text, "SHARD_PAIRS", 20)
    monkeypatch.setattr(cleaned_text, "PAIRS_PER_PART", 60)
    return toy


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A Ray cluster of one node on this machine."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    yield cluster
    cluster.shutdown()


@pytest.mark.slow
def test_a_corpus_from_a_cluster_that_loses_a_node_is_the_same(
    cluster: Cluster, many_shards: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = contents(many_shards.prepare(work=HERE))
    lost, numbers = cluster.add_node(num_cpus=1), count()
    add = cleaned_text.ShardMerger.add

    def losing(self, *arguments):
        if next(numbers) == 3:
            cluster.remove_node(lost, allow_graceful=False)
        return add(self, *arguments)

    monkeypatch.setattr(cleaned_text.ShardMerger, "add", losing)
    work = PrepareConfig(executor=ExecutorName.ray, ray_address=cluster.address)
    found = contents(many_shards.prepare(name="again", work=work))
    assert next(numbers) == 10
    assert len(cluster.list_all_nodes()) == 1
    assert found == expected
    assert len(found) > 1


@pytest.mark.slow
def test_errors_of_a_cluster_are_one_sentence(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = PrepareConfig(executor=ExecutorName.ray, ray_address=cluster.address)
    assert list(map_jobs(double, range(5), work, tmp_path)) == [0, 2, 4, 6, 8]
    with pytest.raises(UserError, match="13 brings bad luck"):
        list(map_jobs(double, [1, 13], work, tmp_path))
    monkeypatch.setattr(executors, "_RETRIES", 0)
    with pytest.raises(UserError, match="a task of the Ray cluster failed: "):
        list(map_jobs(double, [14], work, tmp_path))
    assert not ray.is_initialized()


@pytest.fixture
def jobs_here(tmp_path: Path) -> submitit.AutoExecutor:
    """Starts jobs as SLURM would, but as processes of this machine."""
    executor = submitit.AutoExecutor(tmp_path / "jobs", cluster="local")
    executor.update_parameters(timeout_min=5)
    return executor


@pytest.mark.slow
def test_arrays_of_jobs_keep_the_order_and_name_errors(
    jobs_here: submitit.AutoExecutor,
) -> None:
    assert list(map_in_arrays(double, range(3), jobs_here, 2)) == [0, 2, 4]
    with pytest.raises(UserError, match=r"job \d+ failed: .*13 brings bad luck; its log is"):
        list(map_in_arrays(double, [13], jobs_here, 2))
    with pytest.raises(UserError, match=r"job \d+ failed: .*; its log is"):
        list(map_in_arrays(double, [14], jobs_here, 2))


@pytest.mark.slow
def test_a_corpus_from_jobs_is_the_same(many_shards: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaned_text, "SHARD_PAIRS", 100)
    monkeypatch.setattr(cleaned_text, "PAIRS_PER_PART", 120)
    expected = many_shards.prepare(work=HERE)
    here = submitit.AutoExecutor
    monkeypatch.setattr(submitit, "AutoExecutor", lambda folder, cluster: here(folder, "local"))
    work = PrepareConfig(executor=ExecutorName.slurm, num_processes=4)
    found = many_shards.prepare(name="again", work=work)
    assert contents(found) == contents(expected)
    # No file of the jobs is part of the corpus, or stays.
    names = [sorted(each.relative_to(one) for each in one.rglob("*")) for one in (found, expected)]
    assert names[0] == names[1]
    assert not list(many_shards.outputs.glob("*.jobs"))


def test_without_slurm_or_when_it_refuses_the_error_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attempt(**slurm: str | int) -> None:
        work = PrepareConfig(executor=ExecutorName.slurm, slurm=dict(slurm))
        list(map_jobs(double, [1], work, tmp_path))

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r'prepare.executor=slurm: Could not detect "srun"'):
        attempt()
    for name in ("srun", "sbatch"):
        (tmp_path / name).write_text("#!/bin/sh\necho Invalid partition >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(UserError, match=r"prepare.executor=slurm: .*minutes"):
        attempt(minutes=3)
    with pytest.raises(UserError, match="SLURM refused the jobs: Invalid partition"):
        attempt(slurm_partition="x")


def test_processes_keep_the_order_and_name_errors() -> None:
    assert list(map_in_processes(double, range(5), 2)) == [0, 2, 4, 6, 8]
    with pytest.raises(UserError, match="13 brings bad luck"):
        list(map_in_processes(double, [1, 13], 2))
    with pytest.raises(UserError, match="was killed, probably because it ran out of memory"):
        list(map_in_processes(double, [14], 2))


@pytest.mark.slow
def test_processes_end_with_a_command_that_is_killed(tmp_path: Path) -> None:
    code = (
        "from data_prep.executors import map_in_processes; from tests.jobs import write_process_id;"
        f"list(map_in_processes(write_process_id, [{str(tmp_path)!r}] * 9, 2))"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as process:
        while len(list(tmp_path.iterdir())) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    for path in tmp_path.iterdir():
        while Path("/proc", path.name).exists():
            time.sleep(0.05)
