"""Requests made from the description of the API: none is an error of the server."""

from typing import Any

import pytest
from hypothesis import given, settings

from tests.unit.nmt.server.test_process import Server

pytest.importorskip("fastapi", reason="make install-serve")


def test_no_request_is_an_error_of_the_server(server: Server) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: PLC0415

    described = schemathesis.openapi.from_url(f"{server[1]}openapi.json")
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) == 11
    for operation in operations:

        @settings(max_examples=10, database=None)
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            answer = case.call()
            assert answer.status_code < 500
            # A language that no model has is an error, but no schema can say which these are.
            case.validate_response(answer, excluded_checks=[positive_data_acceptance])
            if answer.status_code >= 400:
                assert list(answer.json()) == ["error"]

        check()
