"""A steady load, and the longest stretch in which nothing of it was acknowledged."""

import time
from types import TracebackType
from typing import Self

from tidelog.bench.compare.system import SystemFailed
from tidelog.bench.failover import longest_gap_ms
from tidelog.bench.load import FAST, LibrdkafkaLoad

RATE = 500
WARM_UP_S = 2.0
BEFORE_S = 0.1
"""Of the stretch that is looked at: the last acknowledgement before the fault belongs to it."""
STEADY_S = 0.5
POLL_S = 0.02
BACK_WITHIN_S = 90.0


class SteadyLoad:
    """`with SteadyLoad(bootstrap_servers, topic) as load: …`: acks=all, 500 records a second."""

    __slots__ = ("_load", "_rate")

    def __init__(self, bootstrap_servers: str, topic: str, rate: int = RATE) -> None:
        self._rate = rate
        self._load = LibrdkafkaLoad(bootstrap_servers, topic, rate, FAST)

    def __enter__(self) -> Self:
        self._load.start()
        begin = time.monotonic()
        time.sleep(WARM_UP_S)
        self.wait_steady(begin)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._load.stop()
        if error is None and self._load.failures:
            raise SystemFailed(f"a record was not taken: {self._load.failures[0]}")

    def wait_steady(self, since: float) -> None:
        """Until acknowledgements come as before. An answer that was under way when the leader
        died does not count: `since` is when that was."""
        deadline = time.monotonic() + BACK_WITHIN_S
        while not is_steady(self._moments(), since, time.monotonic(), self._rate):
            if self._load.failures:
                raise SystemFailed(f"a record was not taken: {self._load.failures[0]}")
            if time.monotonic() >= deadline:
                raise SystemFailed(f"nothing is acknowledged after {BACK_WITHIN_S:g} s")
            time.sleep(POLL_S)

    def gap_ms(self, since: float) -> float:
        """The longest stretch without an acknowledgement from then until now."""
        return longest_gap_ms(self._moments(), since - BEFORE_S, time.monotonic())

    def _moments(self) -> list[float]:
        return [each.at for each in self._load.acks]


def is_steady(moments: list[float], since: float, now: float, rate: int) -> bool:
    """Whether the last half second brought at least half of what was sent, all of it later than
    half a second after `since`."""
    begin = now - STEADY_S
    if begin < since + STEADY_S:
        return False
    recent = sum(1 for each in moments[-4 * rate :] if each >= begin)
    return recent >= rate * STEADY_S / 2
