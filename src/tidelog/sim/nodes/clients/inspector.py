"""A client that asks every question there is, in every version there is.

Questions name what exists. Changes name what nobody else uses, so that no other client is harmed.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final

from tidelog.client.admin import BROKER_RESOURCE, TOPIC_RESOURCE, Admin
from tidelog.client.coordinator import OF_GROUP, find_coordinator
from tidelog.client.groups import GroupAdmin
from tidelog.client.transactions import TransactionAdmin
from tidelog.core.errors import Error
from tidelog.rpc import Peer
from tidelog.sim.nodes.clients.nonsense import Nonsense
from tidelog.sim.nodes.clients.old_clients import old_fetch_session, old_member, old_transaction
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.sensible import (
    CONTROLLER,
    GROUP,
    LEADER,
    OWN,
    REQUESTS,
    SPARE,
    SPARE_REGISTERS,
    TOGETHER,
    draw_request,
    draw_version,
)
from tidelog.sim.nodes.clients.stage import FAILURES, Stage, pause_s
from tidelog.sim.nodes.cluster import (
    BROKER_PORT,
    CLIENT,
    CONTROLLER_PORT,
    STRANGER,
    machine_name,
)
from tidelog.sim.nodes.cluster_plan import ClusterPlan
from tidelog.wire.protocol import Listener, Message, request_class
from tidelog.wire.protocol.schemas.unregister_broker_request import UnregisterBrokerRequest
from tidelog.wire.protocol.schemas.unregister_broker_response import UnregisterBrokerResponse

QUESTIONS: Final = (
    *(1, 2, 3, 9, 10, 15, 16, 18, 23, 29, 32, 35, 46, 55, 60, 61, 65, 66, 69, 74, 75),
)
CHANGES: Final = (
    *(0, 8, 11, 12, 13, 14, 19, 20, 21, 22, 24, 25, 26, 27, 28, 30, 31, 33, 34, 37, 42, 44, 45, 47),
    *(57, 68),
)
"""Without elections, voters and unregistered brokers: those would harm the others."""
WORDS: Final = ("", "nonsense", "inspected", "worse nonsense / \0 ü")
ANSWER_WITHIN_MS: Final = 1_000
SPARE_IS_GONE: Final = (
    Error.NONE,
    Error.BROKER_ID_NOT_REGISTERED,
    Error.CLUSTER_AUTHORIZATION_FAILED,
)
"""Whoever may not unregister a broker may not register it either."""

Address = tuple[str, int]


class Inspector:
    """Asks one thing after another until the stage says stop."""

    __slots__ = ("_changes", "_entropy", "_pause_ms", "_peers", "_plan", "_questions", "_stage")

    def __init__(self, stage: Stage, name: str, plan: ClusterPlan, pause_ms: int) -> None:
        self._stage = stage
        self._plan = plan
        self._pause_ms = pause_ms
        self._entropy: Random = stage.stream(name)
        self._questions = Nonsense(self._entropy, WORDS, _real_names(stage))
        self._changes = Nonsense(self._entropy, WORDS, {})
        self._peers: dict[Address, Peer] = {}

    async def run(self, process: ClientProcess) -> None:
        network = process.new_network(self._entropy.choice((CLIENT, STRANGER)))
        brokers = [_address(broker) for broker in self._plan.broker_ids]
        voters = [(machine_name(voter), CONTROLLER_PORT) for voter in self._plan.voter_ids]
        for address in (*brokers, *voters):
            self._peers[address] = Peer(network, address, "inspector")
        if bears_spare_broker(self._plan):
            await self._spare_broker(brokers, voters)
        while not self._stage.stopped:
            try:
                await self._ask(process)
            except FAILURES:
                self._close()
            await asyncio.sleep(pause_s(self._entropy, self._pause_ms))
        self._close()

    async def _spare_broker(self, brokers: list[Address], voters: list[Address]) -> None:
        """A broker that never runs is registered and unregistered while every other one is
        unfenced. Later, new partitions could get replicas on it, and would never be whole."""
        request = UnregisterBrokerRequest(broker_id=SPARE)
        with suppress(*FAILURES):
            for voter in voters:
                asked = draw_request(SPARE_REGISTERS, b"", Listener.CLUSTER, self._entropy)
                await self._send(self._peers[voter], *asked)
        while not self._stage.stopped:
            with suppress(*FAILURES):
                peer = self._peers[self._entropy.choice(brokers)]
                answer = await peer.ask(request, 0, timeout_ms=ANSWER_WITHIN_MS)
                assert isinstance(answer, UnregisterBrokerResponse), answer
                if answer.error_code in SPARE_IS_GONE:
                    self._stage.history.done["spare broker"] += answer.error_code == Error.NONE
                    return
            await asyncio.sleep(pause_s(self._entropy, self._pause_ms))

    def _close(self) -> None:
        for peer in self._peers.values():
            peer.close()

    async def _ask(self, process: ClientProcess) -> None:
        entropy, partitions = self._entropy, self._stage.partitions
        peer = self._peers[_address(entropy.choice(self._plan.broker_ids))]
        kind = entropy.randrange(12)
        if kind < 6:
            await self._ask_sensibly(process)
        elif kind < 8:
            await self._ask_drawn(peer, QUESTIONS, self._questions)
        elif kind == 8:
            await self._ask_drawn(peer, CHANGES, self._changes)
        elif kind == 9:
            await self._describe(process)
        elif kind == 10:
            flow = entropy.choice((old_member, old_fetch_session))
            await flow(peer, entropy, partitions)
        else:
            brokers = {each: self._peers[_address(each)] for each in self._plan.broker_ids}
            await old_transaction(process.client, brokers, entropy, partitions)

    async def _ask_sensibly(self, process: ClientProcess) -> None:
        known = await process.client.known_topic(OWN, create=True)
        if self._entropy.random() < 0.1:
            leader = self._peers[await self._find(process, LEADER)]
            asked = [
                draw_request(each, known.topic_id, Listener.CLIENT, self._entropy)
                for each in TOGETHER
            ]
            await asyncio.gather(*(self._send(leader, *each) for each in asked))
            return
        row = self._entropy.choice(REQUESTS)
        to = row.to if isinstance(row.to, str) else self._entropy.choice(row.to.values)
        peer = self._peers[await self._find(process, to)]
        listener = Listener.CLUSTER if to == CONTROLLER else Listener.CLIENT
        await self._send(peer, *draw_request(row, known.topic_id, listener, self._entropy))

    async def _find(self, process: ClientProcess, to: str) -> Address:
        if to == CONTROLLER:
            return machine_name(self._entropy.choice(self._plan.voter_ids)), CONTROLLER_PORT
        if to == LEADER:
            leader = (await process.client.partition(OWN, 0)).leader
            return _address(leader or 1)
        if to == GROUP:
            return _address(await find_coordinator(process.client, OF_GROUP, OWN))
        return _address(self._entropy.choice(self._plan.broker_ids))

    async def _ask_drawn(self, peer: Peer, keys: Sequence[int], nonsense: Nonsense) -> None:
        key = self._entropy.choice(keys)
        version = draw_version(self._entropy, key, Listener.CLIENT)
        await self._send(peer, nonsense.message(request_class(key), version), version)

    async def _send(self, peer: Peer, message: Message, version: int) -> None:
        key = message.__api_key__
        if key == 0 and getattr(message, "acks", None) == 0:
            await peer.tell(message, version)
        else:
            await peer.ask(message, version, timeout_ms=ANSWER_WITHIN_MS)
        self._stage.history.done[f"api {key}"] += 1

    async def _describe(self, process: ClientProcess) -> None:
        """As an administrator's tools do."""
        client, entropy = process.client, self._entropy
        admin, groups, transactions = Admin(client), GroupAdmin(client), TransactionAdmin(client)
        topic = entropy.choice(list(self._stage.partitions))
        broker = entropy.choice(self._plan.broker_ids)
        match entropy.randrange(10):
            case 0:
                await admin.configs(TOPIC_RESOURCE, topic)
            case 1:
                await admin.configs(BROKER_RESOURCE, str(broker))
            case 2:
                await admin.log_dirs(broker)
            case 3:
                await admin.quorum()
            case 4:
                await admin.registered_brokers()
            case 5:
                await admin.reassignments()
            case 6:
                for group in await groups.list_groups():
                    await groups.describe(group.group_id)
            case 7:
                for listed in await transactions.list_transactions():
                    await transactions.describe(listed.transactional_id)
            case 8:
                await transactions.producers(topic, 0)
            case _:
                await client.view()


def bears_spare_broker(plan: ClusterPlan) -> bool:
    """Whether new partitions get no replicas on a fenced broker while enough others are unfenced.
    Where brokers have racks, every rack gets its turn, also one with nobody but the spare."""
    return not plan.racks


def _address(broker: int) -> Address:
    return machine_name(broker), BROKER_PORT


def _real_names(stage: Stage) -> dict[str, Sequence[Any]]:
    """What fields of questions may be about, by the names of the fields."""
    topics = (*stage.partitions, "__consumer_offsets", "nonsense")
    groups = ("g0", "g1", "p0", "inspected", "nonsense")
    transactions = ("t0", "t1", "p0i0", "nonsense")
    by_field: dict[str, Sequence[Any]] = {
        **dict.fromkeys(("topic", "topic_name", "name", "resource_name"), topics),
        **dict.fromkeys(("group_id", "groups", "group_ids", "groups_names"), groups),
        **dict.fromkeys(("key", "coordinator_keys"), (*groups, *transactions)),
        **dict.fromkeys(("transactional_id", "transactional_ids"), transactions),
        **dict.fromkeys(
            ("partition", "partition_index", "partitions", "partition_indexes"), (0, 1)
        ),
        "resource_type": (2, 4, 8, 32, 3),
        "timestamp": (-5, -4, -3, -2, -1, 0, 1_700_000_010_000),
        "max_bytes": (0, 1_000, 1_000_000),
        "max_wait_ms": (0, 50, 500),
        "key_type": (0, 1, 2),
    }
    return by_field
