"""The Python API, `import nmt`."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import nmt
from nmt.base.errors import UserError
from nmt.trained_model import TrainedModel, save_trained_model


@pytest.fixture
def run_folder(trained_model: TrainedModel, tmp_path: Path) -> Path:
    folder = tmp_path / "outputs" / "latest"
    save_trained_model(trained_model, folder / "model", {})
    return folder


def test_the_example_in_the_documentation_runs(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run_folder.parents[1])
    failed, attempted = doctest.testmod(nmt)
    assert (failed, attempted) == (0, 7)


def test_run_folders_and_model_folders_are_loaded(run_folder: Path) -> None:
    texts = ["Kalo mine.", "", "Pura soti."]
    translations = nmt.load(str(run_folder), "cpu").translate(texts)
    assert [bool(text) for text in translations] == [True, False, True]
    model = nmt.load(run_folder / "model", "cpu")
    assert model.translate(texts) == translations
    details = model.translate(texts, details=True, num_best=3)
    assert [best[0].text for best in details] == translations
    assert 1 < len(details[0]) <= 3
    assert details[1] == [nmt.Translation("", 0.0, [])]


def test_wrong_arguments_are_refused_with_the_fix(run_folder: Path) -> None:
    with pytest.raises(ValueError, match="num_best=0 is below 1"):
        nmt.load(run_folder, "cpu").translate(["a"], details=True, num_best=0)
    with pytest.raises(TypeError, match=r"write translate\(\[text\]\)"):
        nmt.load(run_folder, "cpu").translate("Kalo mine.")
    with pytest.raises(UserError, match="nowhere"):
        nmt.load("nowhere")


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import nmt, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
