"""How a simulated client is a member of a group: by the classic protocol, the consumer protocol,
or by itself.

The client asks three things: to be in (`join`), whether all is well (`beat`), and to be out
(`leave`). What it shall own then stands in `assigned`.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, Protocol

from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import Error
from tidelog.core.groups.records import TopicPartitions
from tidelog.core.groups.requests import (
    NO_GENERATION,
    UNKNOWN_MEMBER,
    ClientName,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    Heartbeat,
    JoinedMember,
    JoinGroup,
    JoinProtocol,
    JoinResponse,
    LeaveGroup,
    Leaver,
    SyncGroup,
)
from tidelog.core.types import PartitionId
from tidelog.sim.clients import RETRY_MS
from tidelog.sim.coordination_plan import INPUTS
from tidelog.sim.scripted_client import ScriptedClient, Sleep, Steps

WELL: Final = "well"
REBALANCE: Final = "rebalance"
"""Join again; the eager give everything up first."""
LOST: Final = "lost"
"""Not a member any more: whatever it had belongs to others."""

Owned = tuple[int, ...]
"""Partitions of `inputs`, sorted."""


class Standing(NamedTuple):
    """As whom a member commits offsets."""

    member_id: str
    generation: int


class Membership(Protocol):
    assigned: Owned

    @property
    def standing(self) -> Standing: ...
    @property
    def gives_up_first(self) -> bool:
        """Is everything given up before joining again?"""

    def join(self, owned: Owned) -> Steps[bool]: ...
    def beat(self, owned: Owned) -> Steps[str]: ...
    def leave(self) -> Steps[None]: ...


class Compact(NamedTuple):
    """What the members of a group agree on."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    cooperative: bool


class OwnAssignment:
    """No group assigns: this client takes its share by itself."""

    __slots__ = ("assigned",)

    def __init__(self, assigned: Owned) -> None:
        self.assigned = assigned

    @property
    def standing(self) -> Standing:
        return Standing(UNKNOWN_MEMBER, NO_GENERATION)

    @property
    def gives_up_first(self) -> bool:
        return True

    def join(self, owned: Owned) -> Steps[bool]:
        yield from ()
        return True

    def beat(self, owned: Owned) -> Steps[str]:
        yield from ()
        return WELL

    def leave(self) -> Steps[None]:
        yield from ()


class ClassicMember:
    """JoinGroup, SyncGroup, Heartbeat; the leader among the members assigns ranges."""

    __slots__ = ("_again", "_client", "_compact", "_generation", "_member_id", "assigned")

    def __init__(self, client: ScriptedClient, compact: Compact) -> None:
        self._client = client
        self._compact = compact
        self._member_id = UNKNOWN_MEMBER
        self._generation = NO_GENERATION
        self._again = False
        """Something was given up: others wait for it to be assigned."""
        self.assigned: Owned = ()

    @property
    def standing(self) -> Standing:
        return Standing(self._member_id, self._generation)

    @property
    def gives_up_first(self) -> bool:
        return not self._compact.cooperative

    @property
    def _coordinator(self) -> PartitionId:
        return self._client.world.books.group_partition(self._compact.group_id)

    def _until_ms(self) -> int:
        return self._client.now_ms + 2 * self._compact.session_timeout_ms

    def join(self, owned: Owned) -> Steps[bool]:
        """False if it does not work out: what it owned is lost then."""
        self._again = False
        response = yield from self._join(owned)
        if response is None:
            return False
        self._generation = response.generation
        synced = yield from self._sync(response)
        if synced is None:
            return False
        self.assigned = synced
        self._again = self._compact.cooperative and not set(owned) <= set(synced)
        return True

    def _join(self, owned: Owned) -> Steps[JoinResponse | None]:
        compact = self._compact
        until_ms = self._client.now_ms + 4 * compact.rebalance_timeout_ms
        while True:
            request = JoinGroup(
                compact.group_id,
                self._member_id,
                None,
                ClientName(f"client-{self._client.address}", "sim"),
                compact.session_timeout_ms,
                compact.rebalance_timeout_ms,
                "consumer",
                (JoinProtocol("range", papers(owned)),),
                "",
                needs_known_member_id=True,
                may_skip_assignment=False,
            )
            response = yield from self._client.call(
                self._coordinator,
                request,
                until_ms=until_ms,
                wait_ms=2 * compact.rebalance_timeout_ms,
            )
            if response is None:
                return None
            assert isinstance(response, JoinResponse), response
            if response.error == Error.NONE:
                self._member_id = response.member_id
                return response
            if response.error == Error.MEMBER_ID_REQUIRED:
                self._member_id = response.member_id
                continue
            if response.error == Error.UNKNOWN_MEMBER_ID:
                self._member_id = UNKNOWN_MEMBER
                return None
            if self._client.now_ms >= until_ms:
                return None
            yield Sleep(RETRY_MS)

    def _sync(self, joined: JoinResponse) -> Steps[Owned | None]:
        assignments: tuple[tuple[str, bytes], ...] = ()
        if joined.leader == joined.member_id:
            shares = self._assign(joined.members)
            assignments = tuple((each, written(share)) for each, share in shares.items())
        request = SyncGroup(
            self._compact.group_id,
            joined.generation,
            joined.member_id,
            None,
            "consumer",
            joined.protocol,
            assignments,
        )
        response = yield from self._client.call(
            self._coordinator,
            request,
            until_ms=self._until_ms(),
            wait_ms=self._compact.rebalance_timeout_ms,
        )
        if response is None or response.error != Error.NONE:
            self._note(Error.NONE if response is None else response.error)
            return None
        return read(response.assignment)

    def _assign(self, members: tuple[JoinedMember, ...]) -> dict[str, Owned]:
        """Ranges. Cooperative: what moves is given to nobody before its owner gave it up."""
        names = sorted(member.member_id for member in members)
        image = self._client.world.image
        count = len(image.topics[image.topic_ids[INPUTS]].partitions)
        shares = {
            name: tuple(range(position, count, len(names))) for position, name in enumerate(names)
        }
        if not self._compact.cooperative:
            return shares
        owners = {p: each.member_id for each in members for p in owned_in(each.metadata)}
        return {
            name: tuple(p for p in share if owners.get(p, name) == name)
            for name, share in shares.items()
        }

    def beat(self, owned: Owned) -> Steps[str]:
        request = Heartbeat(self._compact.group_id, self._generation, self._member_id, None)
        response = yield from self._client.call(
            self._coordinator, request, until_ms=self._until_ms()
        )
        if response is None:
            return LOST
        if response.error == Error.REBALANCE_IN_PROGRESS:
            return REBALANCE
        if response.error != Error.NONE:
            self._note(response.error)
            return LOST
        return REBALANCE if self._again else WELL

    def _note(self, error: Error) -> None:
        if error == Error.UNKNOWN_MEMBER_ID:
            self._member_id = UNKNOWN_MEMBER

    def leave(self) -> Steps[None]:
        request = LeaveGroup(self._compact.group_id, (Leaver(self._member_id, None),))
        yield from self._client.call(self._coordinator, request, until_ms=self._client.now_ms)
        self._member_id = UNKNOWN_MEMBER


class ConsumerProtocolMember:
    """Heartbeats only; the coordinator assigns (KIP-848). It relies on their order."""

    __slots__ = ("_client", "_compact", "_epoch", "_member_id", "assigned")

    def __init__(self, client: ScriptedClient, compact: Compact) -> None:
        self._client = client
        self._compact = compact
        self._member_id = f"consumer-{client.address}"
        self._epoch = 0
        self.assigned: Owned = ()

    @property
    def standing(self) -> Standing:
        return Standing(self._member_id, self._epoch)

    @property
    def gives_up_first(self) -> bool:
        return True

    def join(self, owned: Owned) -> Steps[bool]:
        self.assigned = ()
        self._epoch = 0
        response = yield from self._heartbeat(())
        return response is not None and response.error == Error.NONE

    def beat(self, owned: Owned) -> Steps[str]:
        response = yield from self._heartbeat(owned)
        if response is None or response.error != Error.NONE:
            return LOST
        return WELL

    def leave(self) -> Steps[None]:
        self._epoch = -1
        yield from self._heartbeat(())

    def _heartbeat(self, owned: Owned) -> Steps[ConsumerHeartbeatResponse | None]:
        world, compact = self._client.world, self._compact
        topic_id = world.image.topic_ids[INPUTS]
        request = ConsumerHeartbeat(
            compact.group_id,
            self._member_id,
            self._epoch,
            None,
            None,
            compact.rebalance_timeout_ms,
            ClientName(f"client-{self._client.address}", "sim"),
            (INPUTS,),
            None,
            None,
            ((topic_id, owned),) if owned else (),
            "",
        )
        response = yield from self._client.call(
            world.books.group_partition(compact.group_id),
            request,
            until_ms=self._client.now_ms + 2 * compact.session_timeout_ms,
            careful=True,
        )
        if response is not None and response.error == Error.NONE and self._epoch >= 0:
            self._epoch = response.member_epoch
            if response.assignment is not None:
                self.assigned = _indexes(response.assignment)
        return response  # type: ignore[no-any-return]  # whatever the coordinator answers to it


def _indexes(assignment: TopicPartitions) -> Owned:
    return tuple(sorted(index for _, indexes in assignment for index in indexes))


# -- the papers of classic members


def papers(owned: Owned) -> bytes:
    """A subscription to `inputs`, and behind it what the member owns now."""
    topic = INPUTS.encode()
    head = struct.pack(">hih", 1, 1, len(topic)) + topic
    return head + written(owned)


def owned_in(metadata: bytes) -> Owned:
    return read(metadata[8 + len(INPUTS) :])


def written(share: Owned) -> bytes:
    return struct.pack(f">{len(share)}h", *share)


def read(data: bytes) -> Owned:
    share = struct.unpack(f">{len(data) // 2}h", data)
    # Members of whole-node runs assign in Kafka's form, which never looks like a sorted share.
    return share if share == tuple(sorted(dict.fromkeys(share))) else ()


def named(index: int) -> TopicPartition:
    return TopicPartition(INPUTS, index)
