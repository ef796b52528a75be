"""Where the replicas of new partitions go: striped over racks, then over brokers (kraft.md §7).

Each partition starts one rack further than the one before and takes one broker per rack, and
each rack starts one broker further. With three racks of three brokers, and every random start
at zero:

    A0 B0 C0
    B1 C1 A1
    C2 A2 B2

A rack with several replicas of one partition is the last resort, and so is a fenced broker,
which never gets the first place: the first replica is the leader that the partition prefers.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from tidelog.core.errors import Error
from tidelog.core.metadata.refusal import PlacementError

Draw = Callable[[int], int]
"""`draw(n)` returns a number from 0 up to and without n."""

NO_BROKER = -1

T = TypeVar("T")


class PlacementBroker(NamedTuple):
    """A registered broker that is not shutting down."""

    id: int
    rack: str | None = None
    fenced: bool = False


def place(
    brokers: Sequence[PlacementBroker], partitions: int, replication_factor: int, draw: Draw
) -> tuple[tuple[int, ...], ...]:
    """The assignments of `partitions` new partitions. Raises PlacementError."""
    check_replication_factor(brokers, replication_factor)
    assert partitions >= 0, f"asked to place {partitions} partitions"
    stripes = Stripes(brokers, draw)
    return tuple(stripes.next_assignment(replication_factor) for _ in range(partitions))


def check_replication_factor(brokers: Sequence[PlacementBroker], replication_factor: int) -> None:
    if replication_factor <= 0:
        raise PlacementError(
            Error.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} must be at least 1",
        )
    if all(broker.fenced for broker in brokers):
        raise PlacementError(
            Error.INVALID_REPLICATION_FACTOR,
            f"none of {len(brokers)} registered brokers is unfenced: nobody could lead",
        )
    if replication_factor > len(brokers):
        raise PlacementError(
            Error.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} needs as many brokers, {len(brokers)} are"
            " registered",
        )


class BrokerRing:
    """Brokers of one rack, each at most once per round, each round one broker further."""

    __slots__ = ("brokers", "offset", "round", "taken")

    def __init__(self, brokers: list[int], draw: Draw) -> None:
        self.brokers = sorted(brokers)
        self.offset = draw(len(brokers)) if brokers else 0
        self.taken = 0
        self.round = 0

    def take(self, current_round: int) -> int:
        """The next broker, or NO_BROKER when all had their turn in this round."""
        assert current_round >= self.round, f"round {current_round} after {self.round}"
        size = len(self.brokers)
        if current_round != self.round and size:
            self.round = current_round
            self.taken = 0
            self.offset = (self.offset + 1) % size
        if self.taken == size:
            return NO_BROKER
        self.taken += 1
        return self.brokers[(self.offset + self.taken - 1) % size]


class Rack:
    __slots__ = ("fenced", "unfenced")

    def __init__(self, brokers: Sequence[PlacementBroker], draw: Draw) -> None:
        self.unfenced = BrokerRing([b.id for b in brokers if not b.fenced], draw)
        self.fenced = BrokerRing([b.id for b in brokers if b.fenced], draw)

    def take(self, current_round: int) -> int:
        broker = self.unfenced.take(current_round)
        return broker if broker != NO_BROKER else self.fenced.take(current_round)

    def shuffle(self, draw: Draw) -> None:
        shuffle(self.unfenced.brokers, draw)
        shuffle(self.fenced.brokers, draw)


class Stripes:
    """Walks racks and brokers; one round per partition."""

    __slots__ = ("draw", "first_rack", "racks", "round", "since_shuffle", "unfenced_count")

    def __init__(self, brokers: Sequence[PlacementBroker], draw: Draw) -> None:
        by_rack: dict[str | None, list[PlacementBroker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        # Brokers without a rack share one, and it sorts first.
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self.racks = [Rack(by_rack[name], draw) for name in names]
        self.first_rack = draw(len(names))
        self.unfenced_count = sum(not broker.fenced for broker in brokers)
        self.since_shuffle = 0
        self.round = 0
        self.draw = draw

    def next_assignment(self, replication_factor: int) -> tuple[int, ...]:
        self.shuffle_if_due()
        leader, leader_rack = self.take_leader()
        replicas = [leader]
        rack = self.first_rack
        skip = leader_rack
        while len(replicas) < replication_factor:
            if rack == skip:
                skip = -1  # its rack has had its turn, once
            else:
                broker = self.racks[rack].take(self.round)
                if broker != NO_BROKER:
                    replicas.append(broker)
            rack = (rack + 1) % len(self.racks)
        self.round += 1
        self.since_shuffle += 1
        self.first_rack = (self.first_rack + 1) % len(self.racks)
        assert len(set(replicas)) == replication_factor, f"{replicas} repeats a broker"
        return tuple(replicas)

    def take_leader(self) -> tuple[int, int]:
        """The first rack from here on that has an unfenced broker."""
        count = len(self.racks)
        for step in range(count):
            rack = (self.first_rack + step) % count
            broker = self.racks[rack].unfenced.take(self.round)
            if broker != NO_BROKER:
                return broker, rack
        raise AssertionError(f"none of {self.unfenced_count} unfenced brokers in {count} racks")

    def shuffle_if_due(self) -> None:
        """When every broker could have led once, mix: the same neighbours should not share all
        their partitions, or the load of a dead broker would go to few others."""
        if self.since_shuffle != self.unfenced_count or self.unfenced_count <= 1:
            return
        shuffle(self.racks, self.draw)
        for rack in self.racks:
            rack.shuffle(self.draw)
        self.since_shuffle = 0


def shuffle(items: list[T], draw: Draw) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = draw(last + 1)
        items[last], items[other] = items[other], items[last]
