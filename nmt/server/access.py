"""Who may use the server, and how much."""

import hashlib
import hmac
import math
import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from nmt.base.errors import UserError
from nmt.base.files import check_readable
from nmt.server.errors import ApiError

_MAX_CLIENTS = 10_000
_DIGEST = re.compile("[0-9a-f]{64}")


class Access:
    """Checks API keys and rates.

    Args:
        digests: the SHA-256 of each API key, in hexadecimal; none if no key is needed.
        max_rate: requests per minute of one client; 0 means no limit.

    Attributes:
        needs_key: whether clients need an API key.
    """

    def __init__(self, digests: Sequence[str] = (), max_rate: int = 0) -> None:
        self._digests = digests
        self.needs_key = bool(digests)
        self._max_rate = max_rate
        # A bucket per client: the requests it may send, and when that was computed.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, key: str, address: str) -> None:
        """Count a request; raise ApiError if the client may not send it."""
        if self.needs_key:
            digest = hashlib.sha256(key.encode()).hexdigest()
            # All are compared, so that the time does not depend on which of them is equal.
            matches = [hmac.compare_digest(digest, one) for one in self._digests]
            if not any(matches):
                fix = "is unknown" if key else "is missing"
                raise ApiError(403, f"api_key {fix}; ask the owner of this server for one")
            address = digest
        if self._max_rate:
            self._take(address)

    def _take(self, client: str) -> None:
        now, rate = time.monotonic(), self._max_rate / 60
        available, since = self._buckets.pop(client, (float(self._max_rate), now))
        available = min(float(self._max_rate), available + (now - since) * rate)
        is_allowed = available >= 1
        self._buckets[client] = (available - is_allowed, now)
        if len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        if not is_allowed:
            message = f"more than {self._max_rate} requests per minute; try again later"
            raise ApiError(429, message, math.ceil((1 - available) / rate))


def read_digests(path: Path) -> list[str]:
    """Read the file of the digests of API keys; text after the digest is a comment.

    Raises:
        UserError: the file cannot be read, has no digest, or a line is none.
    """
    check_readable(path)
    digests = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            digest = line.split()[0].lower()
            if not _DIGEST.fullmatch(digest):
                raise UserError(
                    f"{path}: line {number} is no SHA-256 in hexadecimal; write the output of"
                    " sha256sum, not the key itself"
                )
            digests.append(digest)
    if not digests:
        raise UserError(f"{path}: has no keys; add one, or remove api_keys=")
    return digests
