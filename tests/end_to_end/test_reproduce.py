"""`reproduce` on a toy corpus, with real preparation, training and scoring."""

import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nmt.base.files import read_json, write_lines
from nmt.cli import reproduce
from nmt.cli.common import run_command
from nmt.cli.compose import CONFIG_FOLDER, compose_config
from nmt.runs.reproduce import read_results
from tests.support import reversed_digits

SPLITS = {"train": 300, "valid": 6, "test": 6}
SMALL = [
    *("corpus=folder", "corpus.name=toy", "tokenizer.vocabulary_size=281"),
    *("model=tiny", "model.width=16", "model.num_heads=2", "model.feed_forward_width=32"),
    *("model.num_encoder_layers=1", "model.num_decoder_layers=1", "decoding=greedy"),
    *("decoding.max_length_offset=2", "schedule.warmup_updates=2", "training.max_updates=4"),
    *("training.validate_every=4", "training.num_threads=1"),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "text"
    for seed, (split, count) in enumerate(SPLITS.items()):
        sources, targets = zip(*reversed_digits(count, seed), strict=True)
        write_lines(folder / f"{split}.en", list(sources))
        write_lines(folder / f"{split}.de", list(targets))
    return folder


def write_table(path: Path, data: Path, expected: dict[str, float] | None) -> None:
    files = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(data.iterdir())
    }
    row = {
        **{"about": "a toy", "experiment": "phrasebook_en_de", "overrides": SMALL},
        **{"seeds": [1, 2], "test_set": "test", "metric": "chrf", "expected": expected},
        **{"data": {"origin": "tests/support.py", "files": files}, "anchors": []},
    }
    path.write_text(yaml.safe_dump({"toy": row}), encoding="utf-8")


def run_reproduce(folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    """Run the command; returns its exit status."""
    arguments = ["result=toy", f"table={folder / 'table.yaml'}", f"run.outputs={folder / 'out'}"]
    monkeypatch.setattr(sys, "argv", ["reproduce", *arguments, *more])
    try:
        run_command(reproduce.main)
    except SystemExit as left:
        return int(str(left.code))
    return 0


@pytest.mark.slow
def test_a_result_is_measured_then_accepted_then_rejected(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.yaml"
    write_table(table, data, None)
    assert run_reproduce(tmp_path, monkeypatch, f"data={data}") == 2
    assert "toy has no expected score yet" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

    assert run_reproduce(tmp_path, monkeypatch, f"data={data}", "measure=true") == 0
    account: dict[str, Any] = read_json(tmp_path / "out" / "reproduce" / "toy.json")
    steps = ["prepared", "seed 1", "seed 2", "scored", "verdict"]
    assert list(account["steps"]) == steps
    assert account["steps"]["verdict"] == "measured, not judged (measure=true)"
    mean = account["mean"]
    sweep = tmp_path / "out" / "sweeps" / "reproduce_toy"
    scores = [
        read_json(sweep / f"training.seed={seed}/evaluation/test/scores.json") for seed in (1, 2)
    ]
    assert account["values"] == [table["chrf"]["score"] for table in scores]
    assert mean == pytest.approx(sum(account["values"]) / 2)
    assert account["measured"]["figures"].keys() == {"1", "2"}

    # The runs are complete: only the verdict is made again.
    capsys.readouterr()
    write_table(table, data, {"mean": mean, "lowest": mean - 1, "highest": mean + 1})
    assert run_reproduce(tmp_path, monkeypatch, f"data={data}") == 0
    messages = capsys.readouterr().err
    assert "training.seed=2 is complete" in messages
    assert messages.splitlines()[-1].startswith("toy: reproduced: mean chrF2++")

    write_table(table, data, {"mean": mean + 2, "lowest": mean + 1, "highest": mean + 3})
    assert run_reproduce(tmp_path, monkeypatch, f"data={data}") == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("toy: not reproduced: mean chrF2++")


def test_wrong_arguments_and_text_are_refused_before_preparation(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def error(*more: str) -> str:
        assert run_reproduce(tmp_path, monkeypatch, *more) == 2
        assert not (tmp_path / "out").exists()
        return capsys.readouterr().err.splitlines()[-1]

    write_table(tmp_path / "table.yaml", data, {"mean": 2, "lowest": 1, "highest": 3})
    assert "data= is missing: name the folder of test.de, test.en" in error()
    assert "nowhere has no test.de, test.en" in error("data=nowhere")
    assert "model.width is not a key" in error("model.width=5")
    key = "training.max_updates=5"
    assert f"{key} cannot be changed here" in error(f"data={data}", key)
    assert "run.name=x cannot be changed here" in error(f"data={data}", "run.name=x")
    table, written = tmp_path / "table.yaml", (tmp_path / "table.yaml").read_text()
    for override in (f"run.outputs={tmp_path / 'out'}", "tracking=wandb", "++hydra.run.dir=x"):
        table.write_text(written.replace("- model=tiny", f"- {override}"))
        assert f"overrides: {override} is not part of a recipe" in error(f"data={data}")
    table.write_text(written.replace("- model=tiny", "- sweep=peak_lr"))
    assert "sweep=peak_lr has no effect without --multirun" in error(f"data={data}")
    table.write_text(written)
    write_lines(data / "test.de.1", ["x"] * 6)
    assert "test.de.1 is an additional reference" in error(f"data={data}")
    (data / "test.de.1").unlink()
    write_lines(data / "valid.de", ["1 2"] * 6)
    line = error(f"data={data}")
    assert f"{data}: valid.de has another SHA-256. Origin of the text: tests/support.py" in line


def test_every_row_of_the_table_composes_and_lists_the_files_it_reads() -> None:
    for result in read_results(CONFIG_FOLDER / "results.yaml").values():
        assert (CONFIG_FOLDER / "experiment" / f"{result.experiment}.yaml").is_file()
        if not result.data.files:
            continue
        changes = {"corpus.path": "a 'DIR', b=c", "run.name": "x"}
        config = compose_config([f"experiment={result.experiment}", *result.overrides], changes)
        assert config.corpus.path == "a 'DIR', b=c"
        assert result.data.files.keys() == {
            f"{split}.{language}"
            for split in ("train", "valid", result.test_set)
            for language in (config.corpus.source_language, config.corpus.target_language)
        }
