"""The clients of a whole-node run, as plain data, drawn from its seed.

Each seed switches on some kinds of clients and leaves others out, so that a run stays cheap and a
failure is easy to read.
"""

from random import Random
from typing import Final, NamedTuple

from tidelog.sim.entropy import stream

ACKS_ALL: Final = -1
ACKS_LEADER: Final = 1
ACKS_NONE: Final = 0

CODECS: Final = (0, 0, 0, 1, 2, 3, 4)
"""None, gzip, snappy, lz4 and zstd, as record batches number them."""


class WriterPlan(NamedTuple):
    """Somebody who writes records to random partitions of `tides`."""

    acks: int
    numbered: bool
    """By a producer id: a retry writes nothing twice."""
    records: int
    """At most so many in one write."""
    codec: int
    pause_ms: int
    """At most so long between two writes."""


class ClientPlan(NamedTuple):
    writers: tuple[WriterPlan, ...]

    def headline(self) -> str:
        return f"{len(self.writers)} writers"


def draw_client_plan(seed: int) -> ClientPlan:
    entropy = stream(seed, "clients")
    pause_ms = entropy.choice((5, 20, 100))
    first = WriterPlan(ACKS_ALL, True, 1, 0, pause_ms)
    others = tuple(_draw_writer(entropy) for _ in range(entropy.randrange(3)))
    return ClientPlan(writers=(first, *others))


def _draw_writer(entropy: Random) -> WriterPlan:
    acks = entropy.choice((ACKS_ALL, ACKS_ALL, ACKS_LEADER, ACKS_NONE))
    return WriterPlan(
        acks=acks,
        numbered=acks == ACKS_ALL and entropy.random() < 0.8,
        records=entropy.choice((1, 1, 5, 20)),
        codec=entropy.choice(CODECS),
        pause_ms=entropy.choice((5, 20, 100)),
    )
