from importlib.metadata import version

from nmt.packages import versions


def test_a_library_that_is_not_there_is_absent() -> None:
    found = versions(("torch", "no-such-library"))
    assert found == {"torch": version("torch"), "no-such-library": "absent"}
