"""Routes with a description of their parameters, which are read in several ways."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request

from nmt.server.inputs import FORMS, Input

_ERRORS = {
    400: "A parameter is missing or invalid.",
    403: "The API key is missing or unknown.",
    408: "The request stopped arriving.",
    413: "The request is too large.",
    415: "The body is neither JSON nor a form.",
    429: "The client sends too many requests.",
    503: "Too many requests wait.",
}
_ERROR_SCHEMA = {
    "type": "object",
    "properties": {"error": {"type": "string"}},
    "required": ["error"],
}

Handler = Callable[[Request], Awaitable[Any]]


def add_routes(
    app: FastAPI,
    path: str,
    handler: Handler,
    kind: type[Input] | None = None,
    methods: Sequence[str] = ("GET", "POST"),
    is_public: bool = True,
) -> None:
    """Add the routes of a handler, one for each method.

    Args:
        app: the application.
        path: the path.
        handler: the handler.
        kind: its parameters; None if it has none.
        methods: the methods; clients of LibreTranslate use GET and POST for the same paths.
        is_public: whether the route is described in `/openapi.json`.
    """
    content = {"application/json": {"schema": _ERROR_SCHEMA}}
    responses: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "content": content} for status, text in _ERRORS.items()
    }
    for method in methods:
        app.add_api_route(
            path,
            handler,
            methods=[method],
            response_model=None,
            include_in_schema=is_public,
            responses=responses,
            openapi_extra=_parameters(kind, method) if kind else None,
        )


def _parameters(kind: type[Input], method: str) -> dict[str, Any]:
    """Describe parameters for OpenAPI."""
    schema = kind.model_json_schema()
    if method == "GET":
        required = schema.get("required", [])
        return {
            "parameters": [
                {"name": name, "in": "query", "required": name in required, "schema": one}
                for name, one in schema["properties"].items()
            ]
        }
    is_file = any(one.get("format") == "binary" for one in schema["properties"].values())
    kinds = FORMS[1:] if is_file else ("application/json", *FORMS)
    return {
        "requestBody": {"content": {one: {"schema": schema} for one in kinds}, "required": True}
    }
