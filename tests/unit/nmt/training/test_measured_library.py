import pytest
import torch

from nmt.base.errors import UserError
from nmt.model import cpu_library
from nmt.model.cpu import PackedLinear
from nmt.training import measured_library
from nmt.training.measured_library import measure_library


@pytest.mark.parametrize(
    ("seconds", "library"), [(1.0, "torch"), (0.9, "torch"), (0.7, "onednn")], ids=str
)
def test_onednn_has_to_be_clearly_faster(
    seconds: float, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_library, "override", "")
    monkeypatch.setattr(cpu_library, "_selected", "")
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += seconds if cpu_library._selected == "onednn" else 1.0
        return now

    monkeypatch.setattr(measured_library.time, "thread_time", clock)
    assert measure_library(8, 16) == library


def test_the_environment_variable_replaces_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_library, "override", "onednn")
    assert measure_library(8, 16) == "onednn"
    monkeypatch.setattr(cpu_library, "override", "cublas")
    for use in (lambda: measure_library(8, 16), lambda: PackedLinear(torch.ones(2, 2), None)):
        with pytest.raises(UserError, match=r"NMT_CPU_LIBRARY=cublas.*use torch or onednn"):
            use()
