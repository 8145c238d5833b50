from pathlib import Path

import pytest

import nmt.processor
from nmt.processor import is_intel, processor_name

_AMD = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9654\n\nprocessor\t: 1\n"
_INTEL = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)\n"
_ARM = "processor\t: 0\nBogoMIPS\t: 243.75\n"


@pytest.mark.parametrize(
    ("says", "name", "intels"),
    [(_AMD, "AMD EPYC 9654", False), (_INTEL, "Intel(R) Xeon(R)", True)],
)
def test_linux_says_who_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, name: str, intels: bool
) -> None:
    _pretend(tmp_path / "cpuinfo", monkeypatch, says)
    assert processor_name() == name
    assert is_intel() == intels


@pytest.mark.parametrize("says", [_ARM, None])
def test_without_a_word_of_linux_the_platform_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str | None
) -> None:
    _pretend(tmp_path / "cpuinfo", monkeypatch, says)
    monkeypatch.setattr("platform.processor", lambda: "Intel64 Family 6 Model 143, GenuineIntel")
    assert processor_name().startswith("Intel64")
    assert is_intel()
    monkeypatch.setattr("platform.processor", lambda: "")
    assert processor_name() == "unknown"
    assert not is_intel()


def _pretend(file: Path, monkeypatch: pytest.MonkeyPatch, says: str | None) -> None:
    if says is not None:
        file.write_text(says, encoding="utf-8")
    monkeypatch.setattr(nmt.processor, "_CPU_INFO", file)
    monkeypatch.setattr(nmt.processor, "_entry", nmt.processor._entry.__wrapped__)
