import pytest

from nmt.base.errors import UserError
from nmt.model import cpu, cpu_library
from nmt.model.cpu_library import measure_library


@pytest.mark.parametrize(
    ("seconds", "library"), [(1.0, "torch"), (0.9, "torch"), (0.7, "onednn")], ids=str
)
def test_onednn_has_to_be_clearly_faster(
    seconds: float, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "override", "")
    monkeypatch.setattr(cpu, "_selected", "")
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += seconds if cpu._selected == "onednn" else 1.0
        return now

    monkeypatch.setattr(cpu_library.time, "thread_time", clock)
    assert measure_library(8, 16) == library


def test_the_environment_variable_replaces_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "override", "onednn")
    assert measure_library(8, 16) == "onednn"
    monkeypatch.setattr(cpu, "override", "cublas")
    with pytest.raises(UserError, match=r"NMT_CPU_LIBRARY=cublas.*use torch or onednn"):
        measure_library(8, 16)
