"""A running pipeline in Prometheus' text format, on a port of its own.

A pipeline that fails ends, and its port with it. So it goes on answering for a while after a
failure, until it was asked once: whoever scrapes it hears that it failed, and not just silence.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any, Final, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tidelog.spark.failure import TidelogError
from tidelog.spark.pipelines.batches import Batch
from tidelog.spark.pipelines.state import FAILED, RUNNING

PREFIX: Final = "tidelog_pipeline_"
STATES: Final = (RUNNING, FAILED)
ASKED_WITHIN_S: Final = 5.0


class Address(NamedTuple):
    host: str
    port: int


class Figures(Collector):
    """What one run of a pipeline has done so far. Told on one thread, asked on others."""

    def __init__(self, name: str, kind: str, known: Callable[[str], int]) -> None:
        """`known` are the numbers that go on over restarts."""
        self._labels = {"pipeline": name, "kind": kind}
        self._known = known
        self._lock = threading.Lock()
        self._counts: dict[str, float] = {"batches": 0, "rows_in": 0, "rows_out": 0}
        self._bad: dict[str, int] = {}
        self._lag: dict[tuple[str, int], int] = {}
        self._last: dict[str, float] = {}
        self.state = RUNNING

    def batch(self, batch: Batch) -> None:
        with self._lock:
            self._counts["batches"] += 1
            self._counts["rows_in"] += batch.rows_in
            self._counts["rows_out"] += batch.rows_out or 0
            if batch.bad is not None:
                what, count = batch.bad
                self._bad[what] = self._bad.get(what, 0) + count
            self._lag = dict(batch.lag)
            self._last = {
                "last_batch_number": batch.number,
                "last_batch_duration_seconds": batch.seconds,
                "last_success_timestamp_seconds": time.time(),
            }

    def describe(self) -> Iterator[Metric]:
        """Nothing in advance: partitions come and go."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            counts, bad, lag = dict(self._counts), dict(self._bad), dict(self._lag)
            last = dict(self._last)
        for name, text in COUNTERS.items():
            value = counts[name] if name in counts else self._known(name)
            yield self._family(CounterMetricFamily, name, text, {(): value})
        yield self._family(
            CounterMetricFamily,
            "bad_records",
            "Records that could not be decoded, by what became of them.",
            {(what,): count for what, count in bad.items()},
            ("action",),
        )
        yield self._family(
            GaugeMetricFamily,
            "lag_offsets",
            "Offsets between the end of the last batch and that of the partition then.",
            {(topic, str(index)): behind for (topic, index), behind in lag.items()},
            ("topic", "partition"),
        )
        for name, value in last.items():
            yield self._family(GaugeMetricFamily, name, GAUGES[name], {(): value})
        yield self._family(
            GaugeMetricFamily,
            "state",
            "1 for what it does, 0 for what it does not.",
            {(each,): int(each == self.state) for each in STATES},
            ("state",),
        )

    def _family(
        self,
        kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
        name: str,
        text: str,
        values: Mapping[tuple[str, ...], float],
        labels: tuple[str, ...] = (),
    ) -> Metric:
        family = kind(PREFIX + name, text, labels=[*self._labels, *labels])
        for each, value in sorted(values.items()):
            family.add_metric([*self._labels.values(), *each], value)
        return family


COUNTERS: Final = {
    "batches": "Batches that were committed since this process began.",
    "rows_in": "Rows that were read for them.",
    "rows_out": "Rows that were written, where the sink says.",
    "restarts": "Times that it was started again, by somebody or by itself; kept on disk.",
    "failures": "Times that it failed; kept on disk.",
}
GAUGES: Final = {
    "last_batch_number": "Of the last batch that was committed.",
    "last_batch_duration_seconds": "How long it took.",
    "last_success_timestamp_seconds": "When it was committed.",
}


class _Handler(WSGIRequestHandler):
    timeout = ASKED_WITHIN_S
    """Whoever connects and asks nothing holds up nobody for longer."""

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are no news."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = False
    """An answer that has begun is given to its end."""


class Endpoint:
    """`/metrics` of one pipeline."""

    def __init__(self, figures: Figures, wanted: Address, linger_s: float) -> None:
        """TidelogError if nobody can listen there."""
        self._figures = figures
        self._linger_s = linger_s
        self._told_failure = threading.Event()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(figures)
        self._answer = make_wsgi_app(registry)
        try:
            self._server = make_server(
                wanted.host, wanted.port, self._app, server_class=_Server, handler_class=_Handler
            )
        except (OSError, OverflowError) as error:
            raise TidelogError(
                f"metrics cannot be served at {wanted.host}:{wanted.port}: {error}",
                "--metrics-port with another port",
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics")
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/metrics"

    def wait_until_told(self) -> None:
        """After a failure: until somebody has asked, or for a while."""
        self._told_failure.wait(self._linger_s)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()  # waits for answers that have begun
        self._thread.join()

    def _app(self, environ: Any, start_response: Any) -> Any:
        failed = self._figures.state == FAILED
        answer = self._answer(environ, start_response)
        if failed:
            self._told_failure.set()
        return answer


@contextmanager
def served(figures: Figures, wanted: Address | None, linger_s: float) -> Iterator[str | None]:
    """Where metrics are, while the block lasts and a little longer if it fails; None: nowhere."""
    if wanted is None:
        yield None
        return
    endpoint = Endpoint(figures, wanted, linger_s)
    try:
        yield endpoint.url
    except Exception:
        figures.state = FAILED
        endpoint.wait_until_told()
        raise
    finally:
        endpoint.close()
