from importlib.metadata import version
from pathlib import Path

import pytest

from nmt.base import system

AMD = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9654\n\nprocessor\t: 1\n"
INTEL = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)\n"
ARM = "processor\t: 0\nBogoMIPS\t: 243.75\n"


@pytest.mark.parametrize(
    ("cpu_info", "platform", "name", "is_intel"),
    [
        (AMD, "", "AMD EPYC 9654", False),
        (INTEL, "", "Intel(R) Xeon(R)", True),
        (ARM, "", "unknown", False),
        ("", "arm", "arm", False),
        ("", "", "unknown", False),
    ],
)
def test_processor(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cpu_info: str,
    platform: str,
    name: str,
    is_intel: bool,
) -> None:
    path = tmp_path / "cpuinfo"
    if cpu_info:
        path.write_text(cpu_info)
    monkeypatch.setattr(system, "_CPU_INFO", path)
    monkeypatch.setattr("platform.processor", lambda: platform)
    assert system.processor_name() == name
    assert system.is_intel() == is_intel


def test_the_version_of_a_missing_package_is_absent() -> None:
    found = system.versions(("torch", "no-such-library"))
    assert found == {"torch": version("torch"), "no-such-library": "absent"}
