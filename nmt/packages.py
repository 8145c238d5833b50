"""Which versions of libraries are installed."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The installed version of each, or "absent": some are only needed for some corpora."""
    return {package: _version(package) for package in packages}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
