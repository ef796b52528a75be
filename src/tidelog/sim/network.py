"""The simulated network: directed links that delay, lose, duplicate, reorder and break.

One draw of random bits decides the fate of a message. Delays come from a table of quantiles
of an exponential distribution, made once per run, because drawing a logarithm per message
would cost more than delivering it.

A cut link delivers nothing, neither what is sent while it is cut nor what is then on its
way. Cuts and clogs are held by handle: overlapping faults can end in any order, and a link
works again when the last of them has ended.
"""

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidelog.sim.kernel import Kernel

LOOPBACK_US = 20
"""A node talking to itself (a broker and the controller in one process) uses no network."""

TABLE_BITS = 10
TABLE_SIZE = 1 << TABLE_BITS
CHANCE_BITS = 11
CHANCE_SIZE = 1 << CHANCE_BITS
"""Loss and duplication are counted in parts of 2048."""

_LINK_BITS = 20


class NetworkPlan(NamedTuple):
    """How the links of one run behave when no fault is added."""

    delay_us_min: int = 100
    delay_us_mean: int = 1_000
    delay_us_max: int = 50_000
    loss: int = 0
    """Lost messages in parts of 2048."""
    duplicate: int = 0
    """Messages that arrive twice, in parts of 2048."""
    ordered: bool = False
    """Each link is one TCP connection: no message overtakes another on it."""


Deliver = Callable[[int, int, object], None]
"""(target, source, message)"""


class Network:
    __slots__ = (
        "_bits",
        "_blocked",
        "_clogged",
        "_clogs",
        "_cuts",
        "_delays",
        "_deliver",
        "_down",
        "_duplicate",
        "_handle",
        "_kernel",
        "_last_arrival",
        "_loss",
        "_ordered",
        "blocked",
        "duplicated",
        "lost",
        "sent",
    )

    def __init__(
        self, kernel: Kernel, entropy: random.Random, plan: NetworkPlan, deliver: Deliver
    ) -> None:
        self._kernel = kernel
        self._bits = entropy.getrandbits
        self._delays = delay_table(plan)
        self._loss = plan.loss
        self._duplicate = plan.duplicate
        self._ordered = plan.ordered
        self._deliver = deliver
        self._handle = 0
        self._cuts: dict[int, list[int]] = {}
        self._blocked: dict[int, int] = {}
        self._clogs: dict[int, tuple[list[int], int]] = {}
        self._clogged: dict[int, int] = {}
        self._down: dict[int, bool] = {}
        self._last_arrival: dict[int, int] = {}
        self.sent = 0
        self.lost = 0
        self.duplicated = 0
        self.blocked = 0

    def send(self, source: int, target: int, message: object) -> None:
        """Put a message on its way; it arrives once, twice or never."""
        kernel = self._kernel
        self.sent += 1
        if source == target:
            kernel.call_in(LOOPBACK_US, target, self._arrive, (target, source, message))
            return
        bits = self._bits(32)
        if self._down and target in self._down:
            self.blocked += 1
            return
        if self._blocked and _link(source, target) in self._blocked:
            self.blocked += 1
            return
        if (bits >> TABLE_BITS) & (CHANCE_SIZE - 1) < self._loss:
            self.lost += 1
            return
        packet = (target, source, message)
        delay_us = self._delays[bits & (TABLE_SIZE - 1)]
        if self._clogged or self._ordered:
            delay_us = self._bent_delay(_link(source, target), delay_us)
        kernel.call_in(delay_us, target, self._arrive, packet)
        if bits >> (TABLE_BITS + CHANCE_BITS) < self._duplicate:
            self.duplicated += 1
            again_us = delay_us + self._delays[self._bits(TABLE_BITS)]
            kernel.call_in(again_us, target, self._arrive, packet)

    def close(self, node: int) -> None:
        """The node's process is gone: what is sent to it vanishes until `open`."""
        self._down[node] = True

    def open(self, node: int) -> None:
        self._down.pop(node, None)

    def cut(self, sources: Sequence[int], targets: Sequence[int], *, both_ways: bool = True) -> int:
        """Break every link from a source to a target (and back); returns a handle."""
        links = [_link(a, b) for a in sources for b in targets if a != b]
        if both_ways:
            links += [_link(b, a) for a in sources for b in targets if a != b]
        for link in links:
            self._blocked[link] = self._blocked.get(link, 0) + 1
        self._handle += 1
        self._cuts[self._handle] = links
        return self._handle

    def restore(self, handle: int) -> None:
        """End a cut. Ending it twice, or after `heal`, does nothing."""
        for link in self._cuts.pop(handle, ()):
            remaining = self._blocked[link] - 1
            assert remaining >= 0, f"link {link} restored {-remaining} times too often"
            if remaining:
                self._blocked[link] = remaining
            else:
                del self._blocked[link]

    def clog(self, sources: Sequence[int], targets: Sequence[int], factor: int) -> int:
        """Slow the links from sources to targets by a factor; returns a handle."""
        assert factor >= 1, f"clog factor {factor}"
        links = [_link(a, b) for a in sources for b in targets if a != b]
        self._handle += 1
        self._clogs[self._handle] = (links, factor)
        self._recompute_clogs()
        return self._handle

    def unclog(self, handle: int) -> None:
        """End a clog. Ending it twice, or after `heal`, does nothing."""
        if self._clogs.pop(handle, None) is not None:
            self._recompute_clogs()

    def heal(self) -> None:
        """End every cut and clog. Loss and duplication of the plan stay."""
        self._cuts.clear()
        self._blocked.clear()
        self._clogs.clear()
        self._clogged.clear()

    def calm(self) -> None:
        """No more loss and duplication either: the network of the liveness phase."""
        self._loss = 0
        self._duplicate = 0

    def connected(self, source: int, target: int) -> bool:
        """Could a message get through now, luck aside?"""
        return target not in self._down and self.reaches(source, target)

    def reaches(self, source: int, target: int) -> bool:
        """Does the link work, whether or not anybody is there to receive?"""
        return _link(source, target) not in self._blocked

    def _arrive(self, packet: tuple[int, int, object]) -> None:
        target, source, message = packet
        if self._blocked and source != target and _link(source, target) in self._blocked:
            self.blocked += 1
            return
        self._deliver(target, source, message)

    def _bent_delay(self, link: int, delay_us: int) -> int:
        delay_us *= self._clogged.get(link, 1)
        if self._ordered:
            now_us = self._kernel.now_us
            arrival_us = max(now_us + delay_us, self._last_arrival.get(link, 0))
            self._last_arrival[link] = arrival_us
            delay_us = arrival_us - now_us
        return delay_us

    def _recompute_clogs(self) -> None:
        self._clogged.clear()
        for links, factor in self._clogs.values():
            for link in links:
                self._clogged[link] = max(factor, self._clogged.get(link, 1))


def delay_table(plan: NetworkPlan) -> list[int]:
    """Quantiles of an exponential distribution above a floor, cut off at a ceiling."""
    assert 0 < plan.delay_us_min <= plan.delay_us_mean <= plan.delay_us_max, plan
    above_floor = plan.delay_us_mean - plan.delay_us_min
    quantiles = [-math.log(1.0 - (i + 0.5) / TABLE_SIZE) for i in range(TABLE_SIZE)]
    return [
        min(plan.delay_us_max, plan.delay_us_min + round(above_floor * quantile))
        for quantile in quantiles
    ]


def _link(source: int, target: int) -> int:
    return source << _LINK_BITS | target
