"""One run on two hosts: two commands, a network between them, and what is left when it fails."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nmt.files import read_json
from tests import namespaces
from tests.runs import metrics
from tests.support import tiny_config
from tests.two_hosts import PATIENCE, play

_NETWORK = namespaces.unshare("n", "ip link add one type veth peer name two")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not _NETWORK, reason="this machine lets us make no networks (unshare -n, ip link add)"
    ),
]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, digit_corpus: Path) -> Path:
    """The folder with what all scenes have left."""
    work = tmp_path_factory.mktemp("hosts")
    namespaces.in_a_process(play, digit_corpus, work, within=_NETWORK)
    return work


def said(scene: Path, *names: str) -> str:
    """What commands said; it is never a traceback, nor has a library a word in it."""
    texts = [(scene / f"{name}.log").read_text(encoding="utf-8") for name in names]
    text = "".join(texts)
    assert not [word for word in ("Traceback", "frame #", "c10d") if word in text]
    return text


def assert_whole(played: Path, scene: str) -> None:
    """A scene's run has the metrics of two processes on one machine, each update once."""
    expected = metrics(tiny_config(played / "one_machine"))
    assert [record["update"] for record in expected] == [*range(1, 6), 5, *range(6, 11), 10]
    assert metrics(tiny_config(played / scene)) == expected


def errors(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("error: ")]


def test_two_hosts_are_two_processes(played: Path) -> None:
    scene = played / "undisturbed"
    assert read_json(played / "one_machine" / "statuses.json") == [0]
    assert read_json(scene / "statuses.json") == [0, 0]
    assert_whole(played, scene.name)
    assert "waiting for 10.77.0.1:29400, which does not answer yet" in said(scene, "2")
    assert said(scene, "1", "2").count("written:") == 1
    results: list[Any] = [
        read_json(played / name / "runs" / "tiny" / "result.json")["valid"]
        for name in ("one_machine", "undisturbed")
    ]
    assert results[0] == results[1]


def test_a_cut_is_lived_through(played: Path) -> None:
    """A short one costs nothing, a long one a start from the last checkpoint."""
    scene = played / "cut"
    assert read_json(scene / "statuses.json") == [0, 0]
    assert_whole(played, scene.name)
    text = said(scene, "1", "2")
    # Counted as a restart only where no process came to the rendezvous before the others failed.
    assert text.count("continuing from update 5") == 1
    assert "restart 2 of 3" not in text
    told = "has lost another one: Timed out"
    assert [told in line for line in errors(text)] == [True, True]


def test_who_gave_up_comes_back_by_the_same_command(played: Path) -> None:
    scene = played / "given_up"
    *statuses, seconds = read_json(scene / "statuses.json")
    assert statuses == [0, 2, 0]
    assert PATIENCE <= seconds <= PATIENCE + 10
    assert_whole(played, scene.name)
    *_, last = errors(said(scene, "2"))
    assert last.startswith(
        f"error: training.rendezvous=10.77.0.1:29400 has been out of reach for {PATIENCE:g} seconds"
    )
    assert not errors(said(scene, "again"))


def test_a_command_that_was_killed_is_given_again(played: Path) -> None:
    """The other host waits; where the rendezvous was itself killed, its command ends."""
    scene = played / "killed"
    assert read_json(scene / "statuses.json") == [0, 0]
    assert_whole(played, scene.name)
    (lost,) = errors(said(scene, "1", "2", "again"))
    assert lost.startswith("error: process 0 has lost another one: ")
    assert lost.endswith("; once all are back, they go on from the last checkpoint")

    scene = played / "rendezvous_killed"
    assert read_json(scene / "statuses.json") == [2, 0, 0]
    assert_whole(played, scene.name)
    *_, last = errors(said(scene, "1", "2", "again_1", "again_2"))
    assert last == (
        "error: the rendezvous at training.rendezvous=10.77.0.1:29400 has ended, or its host is"
        " lost: give the same command on each host, and the run continues"
    )


def test_each_start_says_why_it_failed(played: Path) -> None:
    """Also the second one, where the first has told the store of its failure."""
    scene = played / "fails_twice"
    assert read_json(scene / "statuses.json") == [1]
    text = (scene / "1.log").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("RuntimeError: made up")] == [
        "RuntimeError: made up at start 0",
        "RuntimeError: made up at start 1",
    ]


def test_an_end_that_was_asked_for_is_one_on_both(played: Path) -> None:
    scene = played / "stopped"
    assert read_json(scene / "statuses.json") == [143, 2, 0, 0]
    assert_whole(played, scene.name)
    assert "saved at update 7; the same command continues" in said(scene, "1")
    assert "continuing from update 7" in said(scene, "again_1")
    (end,) = errors(said(scene, "2"))
    assert end.startswith("error: the rendezvous at training.rendezvous=10.77.0.1:29400 has ended")


def test_a_host_that_stays_alone_says_so(played: Path) -> None:
    scene = played / "stays_alone"
    *statuses, seconds = read_json(scene / "statuses.json")
    assert statuses == [2, 2]
    assert seconds < 15
    (first,), (second,) = (errors(said(scene, name)) for name in ("1", "2"))
    assert "training.num_hosts=2 hosts have not met at training.rendezvous=10.77.0.1:29400" in first
    assert second.startswith("error: training.rendezvous=10.77.0.1:29400 has not answered for 2")
    for name in ("tiny", "other"):
        run = replace(tiny_config(scene).run, name=name)
        assert not (Path(run.outputs) / "runs" / run.name / "result.json").exists()
