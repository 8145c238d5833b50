"""Errors that clients get as `{"error": …}`."""

from starlette.responses import JSONResponse

from nmt.base.errors import UserError

CLIENT_LEFT = 499
"""Status in the log for a client that did not wait for its answer."""


class ApiError(UserError):
    """An error of a request.

    Attributes:
        status_code: the HTTP status.
        retry_after: seconds after which the client may try again; 0 if that would not help.
    """

    def __init__(self, status: int, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.status_code = status
        self.retry_after = retry_after


def error_response(status: int, message: str, retry_after: int = 0) -> JSONResponse:
    """Return the response for an error."""
    headers = {"Retry-After": str(retry_after)} if retry_after else None
    return JSONResponse({"error": message}, status, headers)
