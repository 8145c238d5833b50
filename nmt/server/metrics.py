"""Metrics for Prometheus."""

from collections.abc import Collection

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from nmt.server.languages import ServedModel

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """Counts requests and batches.

    Args:
        models: the models that are served.
        paths: the paths to count; all others are counted together.
    """

    def __init__(self, models: Collection[ServedModel], paths: Collection[str]) -> None:
        self._paths = paths
        self._registry = kept = CollectorRegistry()
        labels = ["path", "status"]
        self._requests = Histogram("nmt_request_seconds", "Time of requests", labels, registry=kept)
        self._texts = Histogram(
            "nmt_batch_texts", "Texts of batches", buckets=_SIZES, registry=kept
        )
        self._seconds = Counter("nmt_batch_seconds", "Computing time of batches", registry=kept)
        waiting = Gauge("nmt_waiting_requests", "Waiting requests", ["model"], registry=kept)
        for one in models:
            waiting.labels(one.name).set_function(one.worker.num_waiting)
            one.worker.observe = self._count_batch

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        known = path if path in self._paths else "other"
        self._requests.labels(known, str(status)).observe(seconds)

    def _count_batch(self, num_texts: int, seconds: float) -> None:
        self._texts.observe(num_texts)
        self._seconds.inc(seconds)

    async def show(self, _request: Request) -> Response:
        """Return all metrics in the text format of Prometheus."""
        return Response(generate_latest(self._registry), media_type="text/plain; version=0.0.4")
