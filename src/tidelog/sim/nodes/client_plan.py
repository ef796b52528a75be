"""The clients of a whole-node run, as plain data, drawn from its seed.

Each seed switches on some kinds of clients and leaves others out, so that a run stays cheap and a
failure is easy to read.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from tidelog.sim.entropy import stream
from tidelog.sim.nodes.cluster_plan import RACKS

ACKS_ALL: Final = -1
ACKS_LEADER: Final = 1
ACKS_NONE: Final = 0

CODECS: Final = (0, 0, 0, 1, 2, 3, 4)
"""None, gzip, snappy, lz4 and zstd, as record batches number them."""

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
PROTOCOLS: Final = (CLASSIC, CONSUMER)
OWN_ASSIGNMENT: Final = ""
"""A processor that takes all partitions by itself, without a group that assigns them."""

LATE_NAMES: Final = "l"
"""Transactional ids of late producers begin like this, and their number follows."""

CREATE, DELETE, ADD_PARTITIONS = "create", "delete", "add_partitions"
ALTER, REASSIGN, ELECT = "alter", "reassign", "elect"
DELETE_RECORDS: Final = "delete_records"
CHURN: Final = (CREATE, DELETE, ADD_PARTITIONS, ALTER, REASSIGN, ELECT, DELETE_RECORDS)

GARBAGE, HALF_FRAME, HUGE_FRAME = "garbage", "half_frame", "huge_frame"
UNKNOWN_API, UNKNOWN_VERSION = "unknown_api", "unknown_version"
SILENT, SLOW_READER, PIPELINED = "silent", "slow_reader", "pipelined"
HOSTILE: Final = (
    *(GARBAGE, HALF_FRAME, HUGE_FRAME, UNKNOWN_API, UNKNOWN_VERSION),
    *(SILENT, SLOW_READER, PIPELINED),
)


class WriterPlan(NamedTuple):
    """Somebody who writes records to random partitions of the topics of a plan."""

    acks: int
    numbered: bool
    """By a producer id: a retry writes nothing twice."""
    records: int
    """At most so many in one write."""
    codec: int
    pause_ms: int
    """At most so long between two writes."""


class TransactionalPlan(NamedTuple):
    """Somebody who writes to several partitions of `transfers` in one transaction."""

    timeout_ms: int
    """A transaction that is open for longer is aborted."""
    writes: int
    """At most so many in one transaction."""
    codec: int
    pause_ms: int
    mischief: int
    """In percent of the transactions: it aborts, vanishes, is late, or meets its successor."""


class LatePlan(NamedTuple):
    """A transactional writer whose requests come late, or once more when it is too late."""

    version: int
    """Of transactions: with 1 the epoch stays when a transaction ends."""
    usual: TransactionalPlan
    open_ms: int
    """At most so long between the last write of a transaction and its end."""


class GroupPlan(NamedTuple):
    """Members of one group, who read `inputs` and commit how far they are."""

    protocol: str
    members: int
    session_timeout_ms: int
    commit_every: int
    """Reads from one commit to the next."""
    mischief: int
    """In percent of the reads: a member leaves, vanishes, sleeps, or loses its connections."""


class ProcessorPlan(NamedTuple):
    """Programs that read `inputs` and write `outputs`, with their offsets in one transaction."""

    protocol: str
    instances: int
    session_timeout_ms: int
    timeout_ms: int
    mischief: int


class ChurnPlan(NamedTuple):
    """What an administrator does all the time."""

    kinds: tuple[str, ...]
    pause_ms: int


class HostilePlan(NamedTuple):
    """What a peer does who means no good."""

    kinds: tuple[str, ...]
    pause_ms: int


class GamblePlan(NamedTuple):
    """A topic that may lose what its leader alone has, and somebody who writes it."""

    partitions: int
    automatic: bool
    """Elections are unclean if need be. Otherwise an operator has to ask for them."""


class ClientPlan(NamedTuple):
    writers: tuple[WriterPlan, ...]
    transactional: tuple[TransactionalPlan, ...]
    groups: tuple[GroupPlan, ...]
    processors: tuple[ProcessorPlan, ...]
    committed_readers: int
    """Who read what is committed, from the beginning of every topic."""
    plain_readers: int
    """Who read everything, from the beginning of every topic."""
    transfers_partitions: int
    inputs_partitions: int
    outputs_partitions: int
    inputs_pause_ms: int
    """At most so long between two records of `inputs`."""
    churn: tuple[ChurnPlan, ...] = ()
    hostile: tuple[HostilePlan, ...] = ()
    inspectors_pause_ms: tuple[int, ...] = ()
    """One for every inspector: at most so long between two questions."""
    mistakes: bool = False
    """An operator makes those that a node must refuse to start with."""
    late: tuple[LatePlan, ...] = ()
    keepers_pause_ms: tuple[int, ...] = ()
    """One for every keeper of a group without members: at most so long between two tasks."""
    access_pause_ms: tuple[int, ...] = ()
    """The same for administrators of access, and for those who may do nothing."""
    outcasts_pause_ms: tuple[int, ...] = ()
    gambles: tuple[GamblePlan, ...] = ()
    """One at most."""
    rack_readers: tuple[str, ...] = ()
    """The racks of readers who read everything from a replica there."""

    @property
    def has_inputs(self) -> bool:
        return bool(self.groups or self.processors)

    @property
    def has_transfers(self) -> bool:
        return bool(self.transactional or self.late)

    def headline(self) -> str:
        kinds = [f"{len(self.writers)} writers"]
        kinds += [f"{len(self.transactional)} transactional"] if self.transactional else []
        kinds += [f"{each.protocol} group of {each.members}" for each in self.groups]
        kinds += [f"{each.instances} exactly-once" for each in self.processors]
        kinds += ["churn"] if self.churn else []
        kinds += ["hostile peers"] if self.hostile else []
        kinds += ["inspector"] if self.inspectors_pause_ms else []
        kinds += ["mistakes"] if self.mistakes else []
        kinds += ["keeper of a group"] if self.keepers_pause_ms else []
        kinds += ["administrator of access"] if self.access_pause_ms else []
        kinds += ["outcast"] if self.outcasts_pause_ms else []
        kinds += [f"late producer of version {each.version}" for each in self.late]
        kinds += ["gamble"] if self.gambles else []
        kinds += ["readers in racks"] if self.rack_readers else []
        return ", ".join(kinds)


CLIENT_KINDS: Final = (
    *("writers", "transactional", "groups", "processors", "readers"),
    *("churn", "hostile", "inspectors", "late", "mistakes"),
    *("gambles", "rack_readers", "quiet_groups", "keepers", "access", "outcasts"),
)
"""There are always writers."""


def draw_client_plan(seed: int, wanted: Sequence[str] = ()) -> ClientPlan:
    """`wanted` are some of CLIENT_KINDS, and no others; any mixture without it."""
    drawn = _draw_client_plan(seed, wanted)
    if not wanted:
        quiet = stream(seed, "clients of quiet groups").random() < 0.1
        return _with_quiet_groups(seed, drawn) if quiet else drawn
    readers = 1 if "readers" in wanted else 0
    chosen = drawn._replace(
        committed_readers=readers,
        plain_readers=readers,
        churn=(ChurnPlan(CHURN, 500),) if "churn" in wanted else (),
        hostile=(HostilePlan(HOSTILE, 50),) if "hostile" in wanted else (),
        inspectors_pause_ms=(50,) if "inspectors" in wanted else (),
        mistakes="mistakes" in wanted,
        late=_draw_late(seed) if "late" in wanted else (),
        keepers_pause_ms=(50,) if "keepers" in wanted else (),
        access_pause_ms=(50,) if "access" in wanted else (),
        outcasts_pause_ms=(50,) if "outcasts" in wanted else (),
        gambles=_draw_gambles(seed) if "gambles" in wanted else (),
        rack_readers=RACKS[:2] if "rack_readers" in wanted else (),
    )
    return _with_quiet_groups(seed, chosen) if "quiet_groups" in wanted else chosen


def _draw_client_plan(seed: int, wanted: Sequence[str]) -> ClientPlan:
    entropy = stream(seed, "clients")
    pause_ms = entropy.choice((5, 20, 100))
    first = WriterPlan(ACKS_ALL, True, 1, 0, pause_ms)
    others = tuple(_draw_writer(entropy) for _ in range(entropy.randrange(3)))
    kinds = [entropy.random() < 0.4 for _ in range(3)]
    if wanted:
        kinds = [kind in wanted for kind in ("transactional", "groups", "processors")]
    return ClientPlan(
        writers=(first, *others),
        transactional=_draw_transactional(entropy) if kinds[0] else (),
        groups=_draw_groups(entropy) if kinds[1] else (),
        processors=(_draw_processor(entropy),) if kinds[2] else (),
        committed_readers=entropy.choice((0, 0, 1)),
        plain_readers=entropy.choice((0, 0, 1)),
        transfers_partitions=entropy.choice((1, 2, 4)),
        inputs_partitions=entropy.choice((1, 2, 4)),
        outputs_partitions=entropy.choice((1, 2)),
        inputs_pause_ms=entropy.choice((20, 50, 200)),
        churn=_draw_churn(stream(seed, "clients that churn")),
        hostile=_draw_hostile(stream(seed, "clients that are hostile")),
        inspectors_pause_ms=stream(seed, "clients that inspect").choice(((), (), (), (200,))),
        mistakes=stream(seed, "operators who make mistakes").random() < 0.1,
        late=_draw_late(seed) if stream(seed, "clients that are late").random() < 0.15 else (),
        keepers_pause_ms=stream(seed, "clients that keep groups").choice((*((),) * 7, (200,))),
        access_pause_ms=stream(seed, "administrators of access").choice((*((),) * 7, (200,))),
        gambles=_draw_gambles(seed) if stream(seed, "clients that gamble").random() < 0.1 else (),
        rack_readers=stream(seed, "clients in racks").choice(((), (), RACKS[:1], RACKS[1:2])),
    )


def with_outsiders(seed: int, plan: ClientPlan) -> ClientPlan:
    """Where everybody has to log in: those who may do little or nothing."""
    entropy = stream(seed, "clients who may do nothing")
    inspects, administers = entropy.random() < 0.5, entropy.random() < 0.5
    return plan._replace(
        outcasts_pause_ms=(200,),
        inspectors_pause_ms=plan.inspectors_pause_ms or ((200,) if inspects else ()),
        access_pause_ms=plan.access_pause_ms or ((200,) if administers else ()),
    )


def _draw_writer(entropy: Random) -> WriterPlan:
    acks = entropy.choice((ACKS_ALL, ACKS_ALL, ACKS_LEADER, ACKS_NONE))
    return WriterPlan(
        acks=acks,
        numbered=acks == ACKS_ALL and entropy.random() < 0.8,
        records=entropy.choice((1, 1, 5, 20)),
        codec=entropy.choice(CODECS),
        pause_ms=entropy.choice((20, 50, 100)),
    )


def _draw_transactional(entropy: Random) -> tuple[TransactionalPlan, ...]:
    return tuple(
        TransactionalPlan(
            timeout_ms=entropy.choice((1_000, 3_000, 8_000)),
            writes=entropy.choice((1, 2, 4)),
            codec=entropy.choice(CODECS),
            pause_ms=entropy.choice((5, 50, 200)),
            mischief=entropy.choice((2, 10, 40)),
        )
        for _ in range(entropy.choice((1, 2)))
    )


def _draw_late(seed: int) -> tuple[LatePlan, ...]:
    entropy = stream(seed, "late producers")
    usual = TransactionalPlan(
        timeout_ms=entropy.choice((8_000, 20_000)),
        writes=entropy.choice((1, 2)),
        codec=0,
        pause_ms=entropy.choice((5, 20)),
        mischief=entropy.choice((10, 40)),
    )
    return (LatePlan(entropy.choice((1, 1, 2)), usual, entropy.choice((50, 300, 300))),)


def _draw_gambles(seed: int) -> tuple[GamblePlan, ...]:
    entropy = stream(seed, "gambles")
    return (GamblePlan(entropy.choice((1, 3)), entropy.random() < 0.5),)


def _draw_groups(entropy: Random) -> tuple[GroupPlan, ...]:
    return tuple(
        GroupPlan(
            protocol=entropy.choice(PROTOCOLS),
            members=entropy.choice((1, 2, 3)),
            session_timeout_ms=entropy.choice((2_500, 6_000)),
            commit_every=entropy.choice((1, 1, 3)),
            mischief=entropy.choice((0, 2, 8)),
        )
        for _ in range(entropy.choice((1, 1, 2)))
    )


def _with_quiet_groups(seed: int, plan: ClientPlan) -> ClientPlan:
    """Their members commit so rarely that only heartbeats show that they live."""
    entropy = stream(seed, "quiet groups")
    group = GroupPlan(
        protocol=entropy.choice(PROTOCOLS),
        members=entropy.choice((2, 3)),
        session_timeout_ms=6_000,
        commit_every=entropy.choice((20, 60)),
        mischief=entropy.choice((5, 20)),
    )
    return plan._replace(groups=(*plan.groups, group))


def _draw_processor(entropy: Random) -> ProcessorPlan:
    protocol = entropy.choice((OWN_ASSIGNMENT, *PROTOCOLS))
    return ProcessorPlan(
        protocol=protocol,
        instances=1 if protocol == OWN_ASSIGNMENT else entropy.choice((1, 2)),
        session_timeout_ms=entropy.choice((2_500, 6_000)),
        timeout_ms=entropy.choice((1_000, 3_000, 8_000)),
        mischief=entropy.choice((1, 5, 15)),
    )


def _draw_churn(entropy: Random) -> tuple[ChurnPlan, ...]:
    if entropy.random() >= 0.25:
        return ()
    kinds = tuple(kind for kind in CHURN if entropy.random() < 0.6) or (REASSIGN,)
    return (ChurnPlan(kinds, entropy.choice((200, 500, 1_500))),)


def _draw_hostile(entropy: Random) -> tuple[HostilePlan, ...]:
    if entropy.random() >= 0.25:
        return ()
    kinds = tuple(kind for kind in HOSTILE if entropy.random() < 0.4) or (GARBAGE,)
    return (HostilePlan(kinds, entropy.choice((50, 500))),) * entropy.choice((1, 2))
