"""The limit row: what no broker on this machine can beat, measured beside those that try.

    from tidelog.bench.limit.limit_row import LIMITS, measure
    measure(LIMITS["limit-produce-1k"])               # 1240.7, in the unit of the case
    measure(LIMITS["limit-produce-1k"], share=0.25)   # a quarter of the requests

The keys, for `Row.limit_key`:

| key | unit | what |
|---|---|---|
| `limit-produce-1k`, `limit-produce-100` | MB/s | acks=all, records of 1 KiB, of 100 B |
| `limit-produce-1k-acks-1`, `limit-produce-100-acks-1` | MB/s | the leader answers first |
| `limit-produce-1k-fsync`, `limit-produce-100-fsync` | MB/s | acks=all, synced in groups |
| `limit-produce-16k-requests`, `limit-produce-1m-requests` | MB/s | other sizes of a request |
| `limit-consume`, `limit-consume-cold` | MB/s | from the page cache, from the disk |
| `limit-small-1`, `limit-small-32` | requests/s | one record in flight per connection |
| `limit-small-1-fsync`, `limit-small-32-fsync` | requests/s | the same, synced |
| `limit-e2e-p50`, `limit-e2e-p99`, `limit-e2e-p999` | ms | sender to reader, 1,000/s |

A MB is 1,000,000 bytes of values: what a record of the wire carries beside its value is moved too,
and not counted. `case.unit`, `case.title` and `case.more_is_better` are for tables.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tidelog.bench.limit.program import run

MEGABYTE = 1_000_000
KIB = 1024
BEST_REQUEST_BYTES = 256 * KIB
"""This machine moves the most with it; producers send 16 KiB to 1 MiB."""
RECORD_OVERHEAD_BYTES = 10
"""Lengths, attributes and differences of one record in a batch, without key and headers."""
SMALL_REQUEST_BYTES = 256
"""A Produce request with one record of 100 bytes."""
TIMED_REQUEST_BYTES = 1_200
"""A Produce request with one record of 1 KiB."""
PRODUCED_BYTES = 512 * 1024 * KIB
SYNCED_BYTES = 128 * 1024 * KIB
CONSUMED_BYTES = 1024 * 1024 * KIB

PRODUCE, CONSUME, LATENCY = "produce", "consume", "latency"
COPY, SPLICE = "copy", "splice"
MB_PER_SECOND, REQUESTS_PER_SECOND, MILLISECONDS = "MB/s", "requests/s", "ms"


class LimitCase(NamedTuple):
    """One thing that the limit program can be asked for."""

    title: str
    mode: str
    unit: str
    requests: int
    request_bytes: int = BEST_REQUEST_BYTES
    record_bytes: int = KIB
    in_flight: int = 5
    connections: int = 1
    acks: int = 3
    """How many replicas have a request when it is answered."""
    means: str = SPLICE
    fsync: bool = False
    cold: bool = False
    rate: int = 1_000
    quantile: str = "p50"

    @property
    def more_is_better(self) -> bool:
        return self.unit != MILLISECONDS

    def value_in(self, figures: Mapping[str, float]) -> float:
        """The figure that the case is about, in its unit."""
        if self.unit == MILLISECONDS:
            return figures[f"{self.quantile}_ms"]
        if self.unit == REQUESTS_PER_SECOND:
            return figures["requests_per_second"]
        values_share = self.record_bytes / (self.record_bytes + RECORD_OVERHEAD_BYTES)
        return figures["bytes_per_second"] * values_share / MEGABYTE


def measure(what: LimitCase, *, share: float = 1.0) -> float:
    """One run of the program, with this share of the requests; in the unit of the case.

    CompilerMissing without a C compiler, LimitFailed when it does not work."""
    return what.value_in(figures_of(what, share=share))


def figures_of(what: LimitCase, *, share: float = 1.0) -> Mapping[str, float]:
    """All that one run tells, also `cpu_seconds` of its servers. Its files lie where those of
    clusters do, and are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="tidelog-limit-") as directory:
        return run(words_of(what, share), Path(directory))


def words_of(what: LimitCase, share: float) -> list[str]:
    """The command line of the program, without the directory."""
    numbers = {
        "request-bytes": what.request_bytes,
        "requests": max(1, round(what.requests * share)),
        "in-flight": what.in_flight,
        "connections": what.connections,
        "acks": what.acks,
        "rate": what.rate,
    }
    words = [what.mode, "--means", what.means]
    for name, value in numbers.items():
        words += [f"--{name}", str(value)]
    flags = {"--fsync": what.fsync, "--cold": what.cold}
    return words + [flag for flag, is_set in flags.items() if is_set]


def _produce(title: str, record_bytes: int, total_bytes: int = PRODUCED_BYTES) -> LimitCase:
    requests = total_bytes // BEST_REQUEST_BYTES
    return LimitCase(title, PRODUCE, MB_PER_SECOND, requests, record_bytes=record_bytes)


def _produce_in(title: str, request_bytes: int) -> LimitCase:
    requests = PRODUCED_BYTES // request_bytes
    return LimitCase(title, PRODUCE, MB_PER_SECOND, requests, request_bytes)


def _small(title: str, connections: int, requests: int, *, fsync: bool = False) -> LimitCase:
    return LimitCase(
        title,
        PRODUCE,
        REQUESTS_PER_SECOND,
        requests,
        SMALL_REQUEST_BYTES,
        in_flight=1,
        connections=connections,
        means=COPY,  # whole requests of many connections, in one append
        fsync=fsync,
    )


def _latency(quantile: str) -> LimitCase:
    title = f"sender to reader at 1,000/s, {quantile}"
    return LimitCase(
        title, LATENCY, MILLISECONDS, 3_000, TIMED_REQUEST_BYTES, means=COPY, quantile=quantile
    )


_CONSUME = LimitCase(
    "consume from the page cache", CONSUME, MB_PER_SECOND, CONSUMED_BYTES // BEST_REQUEST_BYTES
)

LIMITS: Mapping[str, LimitCase] = {
    "limit-produce-1k": _produce("produce, acks=all, 1 KiB", KIB),
    "limit-produce-100": _produce("produce, acks=all, 100 B", 100),
    "limit-produce-1k-acks-1": _produce("produce, acks=1, 1 KiB", KIB)._replace(acks=1),
    "limit-produce-100-acks-1": _produce("produce, acks=1, 100 B", 100)._replace(acks=1),
    "limit-produce-1k-fsync": _produce(
        "produce, acks=all, 1 KiB, fsync", KIB, SYNCED_BYTES
    )._replace(fsync=True),
    "limit-produce-100-fsync": _produce(
        "produce, acks=all, 100 B, fsync", 100, SYNCED_BYTES
    )._replace(fsync=True),
    "limit-produce-16k-requests": _produce_in("produce, acks=all, 16 KiB requests", 16 * KIB),
    "limit-produce-1m-requests": _produce_in("produce, acks=all, 1 MiB requests", 1024 * KIB),
    "limit-consume": _CONSUME,
    "limit-consume-cold": _CONSUME._replace(title="consume from the disk", cold=True),
    "limit-small-1": _small("one record per request, 1 connection", 1, 30_000),
    "limit-small-32": _small("one record per request, 32 connections", 32, 200_000),
    "limit-small-1-fsync": _small(
        "one record per request, 1 connection, fsync", 1, 500, fsync=True
    ),
    "limit-small-32-fsync": _small(
        "one record per request, 32 connections, fsync", 32, 5_000, fsync=True
    ),
    "limit-e2e-p50": _latency("p50"),
    "limit-e2e-p99": _latency("p99"),
    "limit-e2e-p999": _latency("p999"),
}
"""Every case by its key."""
