"""Parameters of requests: from JSON, a form or the query, as clients of LibreTranslate do it."""

import json
from typing import Any, Literal, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import FormData, ImmutableMultiDict, QueryParams

from nmt.server.errors import ApiError
from nmt.server.worker import Options

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_MAX_FIELDS = 10_000


class Input(BaseModel):
    """Parameters of any request; further ones are ignored."""

    model_config = ConfigDict(arbitrary_types_allowed=True, use_attribute_docstrings=True)

    api_key: str = ""
    """API key, if the server requires one; also accepted as `Authorization: Bearer KEY`."""


class Direction(Input):
    """What to translate from and into."""

    source: str = "auto"
    """Code of the source language; `auto` detects it."""
    target: str
    """Code of the target language."""
    model: str = ""
    """Name of the model, if several translate this direction (default: the first)."""
    glossary: str = Field("", max_length=100_000)
    """Terms for this request alone: one per line, a tab and its translation. A term without a
    translation stays as it is."""
    protect: bool = True
    """Whether tags, addresses and placeholders such as {name} stay as they are."""

    @property
    def options(self) -> Options:
        """What is asked of the translation."""
        return Options(self.glossary.strip(" \r\n"), self.protect)


class TranslateInput(Direction):
    """Parameters of `/translate`."""

    q: str | list[str]
    """Text or texts to translate."""
    format: Literal["text", "html"] = "text"
    """`html` keeps markup."""
    alternatives: int = Field(0, ge=0, le=1_000)
    """Number of alternative translations; the server returns as many as its beam has."""


class DetectInput(Input):
    """Parameters of `/detect`."""

    q: str
    """Text whose language to detect."""


Kind = TypeVar("Kind", bound=Input)


async def read_input(request: Request, kind: type[Kind]) -> Kind:
    """Read the parameters of a request.

    Raises:
        ApiError: they are malformed; the message names the parameter.
    """
    values = _plain(request.query_params) | await _body(request)
    header = request.headers.get("authorization", "")
    values.setdefault("api_key", header.removeprefix("Bearer ") if header else "")
    try:
        # Fails for half a surrogate pair, and for values that are nested too deeply.
        json.dumps(values, ensure_ascii=False, default=str).encode()
        return kind.model_validate({name: one for name, one in values.items() if one is not None})
    except ValidationError as error:
        first = error.errors()[0]
        raise ApiError(400, f"{first['loc'][0]}: {first['msg']}") from None
    except UnicodeEncodeError:
        message = "the text is not valid Unicode: it has half a surrogate pair"
        raise ApiError(400, message) from None
    except RecursionError as error:
        raise ApiError(400, f"the text is not valid: {error}") from None


async def _body(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in FORMS:
        form = await request.form(max_files=1, max_fields=_MAX_FIELDS)
        return _plain(form)
    body = await request.body()
    if not body.strip():
        return {}
    if kind not in ("application/json", ""):
        raise ApiError(415, f"content type {kind} is not supported; send JSON or a form")
    try:
        values = json.loads(body)
        if not isinstance(values, dict):
            raise ApiError(400, "the body must be a JSON object")
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is no valid JSON: {error}") from None
    return values


def _plain(given: QueryParams | FormData | ImmutableMultiDict[str, Any]) -> dict[str, Any]:
    """Return the value of each name, or the list of its values if it is given several times."""
    lists = {name: given.getlist(name) for name in given}
    return {name: found if len(found) > 1 else found[0] for name, found in lists.items()}
