"""Limits of `nmt serve`. They are here so that its help imports no model."""

from nmt.config.fields import checked_dataclass, option


@checked_dataclass
class ServingLimits:
    """What the server accepts, and who may use it."""

    max_characters: int = option(20_000, ge=1, le=100_000_000)
    """Maximum number of characters in the texts of one request; more gives status 413."""
    max_texts: int = option(200, ge=1, le=1_000_000)
    """Maximum number of texts in one request; more gives status 413."""
    max_file_megabytes: int = option(20, ge=1, le=10_000)
    """Maximum size of an uploaded document in MB; more gives status 413."""
    max_waiting: int = option(256, ge=1, le=1_000_000)
    """Maximum number of requests that wait for one model; further ones get status 503."""
    max_rate: int = option(0, ge=0, le=1_000_000)
    """Maximum number of requests per minute of one client, by its key or address; further ones get
    status 429; 0 means no limit."""
    api_keys: str = ""
    """File with the SHA-256 of one API key a line, in hexadecimal; other clients get status 403
    (default: no key is needed)."""
    cors: str = ""
    """Origins whose pages may use the API, such as https://example.org, separated by blanks; * is
    all (default: none)."""
    log_texts: bool = False
    """Write the texts of requests to the log, too."""
