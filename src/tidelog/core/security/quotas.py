"""Quotas of clients: which limit holds for whom, and how long somebody has to wait.

A limit is found by user and client id, the most specific one first (KIP-13, KIP-546). Bytes are
measured as a rate over windows (`quota.window.num` of `quota.window.size.seconds`), creations and
deletions of partitions with a bucket of tokens (KIP-599). Time is passed in.
"""

from collections import deque
from typing import NamedTuple

from tidelog.core.security.quota_keys import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    IP,
    USER,
    Entity,
)

METERS_MAX = 10_000
"""Clients that are remembered; then those that were not heard of for the longest time are not."""


class Windows(NamedTuple):
    """How a rate is measured."""

    number: int = 11
    size_ms: int = 1_000


KAFKAS_WINDOWS = Windows()


class Limit(NamedTuple):
    """A quota that holds for somebody, and whose uses count together."""

    bound: float
    """A second."""
    user: str
    client_id: str
    """"" for all of the user's clients; the same for the user of a client id."""


class Meter:
    """What was used in the last windows."""

    __slots__ = ("_samples", "_total", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[list[float]] = deque()  # [start, amount], oldest first
        self._total = 0.0

    def record(self, amount: float, now_ms: int) -> None:
        assert amount >= 0, f"recorded {amount}"
        self._forget_old(now_ms)
        size_ms = self._windows.size_ms
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= size_ms:
            samples.append([now_ms, 0.0])
        samples[-1][1] += amount
        self._total += amount

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may come until the rate is the bound again. 0: it is not above it."""
        assert bound > 0, f"a quota of {bound}"
        self._forget_old(now_ms)
        if not self._samples:
            return 0
        over = self._total - bound * self._elapsed_ms(now_ms) / 1_000
        return max(0, round(over / bound * 1_000))

    def _elapsed_ms(self, now_ms: int) -> float:
        """A young meter is read as if all windows but one had passed: a burst is not a rate."""
        number, size_ms = self._windows
        elapsed_ms = now_ms - self._samples[0][0]
        missing = number - 1 - elapsed_ms // size_ms
        return elapsed_ms + max(0, missing) * size_ms

    def _forget_old(self, now_ms: int) -> None:
        number, size_ms = self._windows
        samples = self._samples
        while samples and samples[0][0] <= now_ms - number * size_ms:
            self._total -= samples.popleft()[1]
        if not samples:
            self._total = 0.0  # what is left of the sums of floating point numbers


class Bucket:
    """Tokens come at the rate of the bound; whoever took more than there were has to wait."""

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: Windows, bound: float, now_ms: int) -> None:
        self._windows = windows
        self._tokens = self._capacity(bound)
        self._updated_ms = now_ms

    def _capacity(self, bound: float) -> float:
        return bound * self._windows.number * self._windows.size_ms / 1_000

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        self._refill(bound, now_ms)
        return max(0, round(-self._tokens / bound * 1_000))

    def take(self, amount: float, bound: float, now_ms: int) -> None:
        assert amount >= 0, f"took {amount}"
        self._refill(bound, now_ms)
        self._tokens -= amount

    def _refill(self, bound: float, now_ms: int) -> None:
        assert now_ms >= self._updated_ms, (now_ms, self._updated_ms)
        more = bound * (now_ms - self._updated_ms) / 1_000
        self._tokens = min(self._capacity(bound), self._tokens + more)
        self._updated_ms = now_ms


class Quotas:
    """The limits that are set, and what was used of them on this node."""

    __slots__ = ("_buckets", "_limits", "_meters", "mutation_windows", "windows")

    def __init__(
        self, windows: Windows = KAFKAS_WINDOWS, mutation_windows: Windows | None = None
    ) -> None:
        self.windows = windows
        self.mutation_windows = windows if mutation_windows is None else mutation_windows
        self._limits: dict[Entity, dict[str, float]] = {}
        self._meters: dict[tuple[str, str, str], Meter] = {}
        self._buckets: dict[tuple[str, str, str], Bucket] = {}

    def __bool__(self) -> bool:
        return bool(self._limits)

    # -- limits

    def load(self, limits: dict[Entity, dict[str, float]]) -> None:
        """These and no others."""
        self._limits = {entity: dict(values) for entity, values in limits.items()}

    def change(self, entity: Entity, key: str, value: float | None) -> None:
        if value is not None:
            self._limits.setdefault(entity, {})[key] = value
            return
        values = self._limits.get(entity, {})
        values.pop(key, None)
        if not values:
            self._limits.pop(entity, None)

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """The most specific one. None: there is none."""
        for names, (by_user, by_client) in ORDER:
            entity = names(user, client_id)
            bound = self._limits.get(entity, {}).get(key)
            if bound is not None:
                return Limit(bound, user if by_user else "", client_id if by_client else "")
        return None

    def connection_limit(self, address: str) -> float | None:
        """Connections a second from this address."""
        for name in (address, None):
            bound = self._limits.get(((IP, name),), {}).get(CONNECTION_CREATION_RATE)
            if bound is not None:
                return bound
        return None

    # -- uses

    def use(self, key: str, limit: Limit, amount: float, now_ms: int) -> int:
        """Record it. How long its user has to wait from now on."""
        meter = self._meter((key, limit.user, limit.client_id))
        meter.record(amount, now_ms)
        return self.enforced_ms(meter.throttle_ms(limit.bound, now_ms))

    def connect(self, address: str, now_ms: int) -> int:
        """A connection came from there. How long it has to wait."""
        bound = self.connection_limit(address)
        if bound is None:
            return 0
        meter = self._meter((CONNECTION_CREATION_RATE, address, ""))
        meter.record(1, now_ms)
        return self.enforced_ms(meter.throttle_ms(bound, now_ms))

    def mutation_wait_ms(self, key: str, limit: Limit, now_ms: int) -> int:
        """How long nothing more may be created or deleted."""
        return self.enforced_ms(self._bucket(key, limit, now_ms).throttle_ms(limit.bound, now_ms))

    def mutate(self, key: str, limit: Limit, partitions: int, now_ms: int) -> None:
        self._bucket(key, limit, now_ms).take(partitions, limit.bound, now_ms)

    def enforced_ms(self, throttle_ms: int) -> int:
        """Everything that makes somebody wait goes through here."""
        return throttle_ms

    def _meter(self, name: tuple[str, str, str]) -> Meter:
        meter = self._meters.pop(name, None) or Meter(self.windows)
        self._meters[name] = meter  # to the young end
        if len(self._meters) > METERS_MAX:
            del self._meters[next(iter(self._meters))]
        return meter

    def _bucket(self, key: str, limit: Limit, now_ms: int) -> Bucket:
        name = (key, limit.user, limit.client_id)
        bucket = self._buckets.pop(name, None) or Bucket(self.mutation_windows, limit.bound, now_ms)
        self._buckets[name] = bucket
        if len(self._buckets) > METERS_MAX:
            del self._buckets[next(iter(self._buckets))]
        return bucket


ORDER = (
    (lambda user, client: ((CLIENT_ID, client), (USER, user)), (True, True)),
    (lambda user, _: ((CLIENT_ID, None), (USER, user)), (True, True)),
    (lambda user, _: ((USER, user),), (True, False)),
    (lambda _, client: ((CLIENT_ID, client), (USER, None)), (True, True)),
    (lambda _, __: ((CLIENT_ID, None), (USER, None)), (True, True)),
    (lambda _, __: ((USER, None),), (True, False)),
    (lambda _, client: ((CLIENT_ID, client),), (False, True)),
    (lambda _, __: ((CLIENT_ID, None),), (False, True)),
)
"""Entities from the most to the least specific, and whose uses count together."""
