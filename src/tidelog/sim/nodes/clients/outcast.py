"""Somebody who may do nothing: he asks for everything, and logs in in every wrong way."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from tidelog.host import tasks
from tidelog.host.ports import Network, NetworkError, Outcome, RequestConnection
from tidelog.rpc import Peer
from tidelog.sim.nodes.bearer_tokens import token
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.sensible import (
    CONTROLLER,
    GOOD,
    LEADER,
    OwnTopicId,
    Sensible,
    draw_request,
    one_of,
)
from tidelog.sim.nodes.clients.stage import FAILURES, Stage, pause_s
from tidelog.sim.nodes.clock import EPOCH_MS
from tidelog.sim.nodes.cluster import BROKER_PORT, CONTROLLER_PORT, OUTCAST, machine_name
from tidelog.sim.nodes.cluster_plan import ClusterPlan
from tidelog.wire.protocol import (
    Listener,
    Message,
    RequestHeader,
    Struct,
    decode_response,
    encode_request,
)
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest
from tidelog.wire.protocol.schemas.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from tidelog.wire.protocol.schemas.sasl_authenticate_request import SaslAuthenticateRequest
from tidelog.wire.protocol.schemas.sasl_handshake_request import SaslHandshakeRequest

ANSWER_WITHIN_MS: Final = 1_500
DAY_MS: Final = 86_400_000
AT_ONCE: Final = 3
"""Logins that he tries at the same time: some of them take long."""


class Asked(NamedTuple):
    message: Message
    version: int


class Waited(NamedTuple):
    wait_ms: int


Step = Asked | Waited | bytes
"""Bytes are a message of a mechanism with no request around it."""


def _begin(mechanism: str, version: int = 1) -> Asked:
    return Asked(SaslHandshakeRequest(mechanism=mechanism), version)


def _say(message: bytes) -> Asked:
    return Asked(SaslAuthenticateRequest(auth_bytes=message), 1)


def _show(ends_ms: int, key_id: str = "tide") -> tuple[Asked, Asked]:
    bearer = token(OUTCAST, EPOCH_MS + ends_ms, key_id)
    return _begin("OAUTHBEARER"), _say(b"n,,\1auth=Bearer " + bearer + b"\1\1")


ASK: Final = Asked(DescribeUserScramCredentialsRequest(users=None), 0)
SCRAM: Final = _begin("SCRAM-SHA-256")
PLAIN: Final = _begin("PLAIN")
RIGHT, WRONG, OTHER = (b"\0outcast\0of outcast", b"\0outcast\0guess", b"\0client\0of client")
FIRST, NOBODY, LAST = b"n,,n=outcast,r=tide", b"n,,n=nobody,r=tide", b"c=biws,r=tide,p=dGlkZQ=="
LOGIN: Final = (PLAIN, _say(RIGHT))
SCRIPTS: Final[tuple[tuple[Step, ...], ...]] = (
    (ASK,),
    (_say(RIGHT),),
    (PLAIN, PLAIN),
    (PLAIN, ASK),
    (_begin("GSSAPI"),),
    (PLAIN, _say(WRONG)),
    (PLAIN, _say(b"nonsense")),
    (SCRAM, _say(FIRST), _say(LAST)),
    (SCRAM, _say(NOBODY), _say(LAST)),
    (_begin("PLAIN", 0), WRONG),
    (_begin("PLAIN", 0), RIGHT, ASK),
    (*LOGIN, ASK),
    (*LOGIN, PLAIN),
    (*LOGIN, _say(RIGHT)),
    (*LOGIN, _begin("PLAIN", 0)),
    (*LOGIN, Waited(1_200), PLAIN, _say(OTHER)),
    (*LOGIN, Waited(1_200), PLAIN, ASK),
    (*LOGIN, Waited(1_200), *LOGIN, ASK),
    (*LOGIN, Waited(4_500), ASK),
    (*_show(30 * DAY_MS), ASK),
    (*_show(15_000), Waited(2_000), ASK),
    (*_show(-DAY_MS), _say(b"\1")),
    (*_show(DAY_MS, "unknown"), _say(b"\1")),
    (Asked(ApiVersionsRequest(), 0),) * 25,
    (Waited(11_000), ASK),
)
"""The last step of each must fail."""


def _forbidden(topic: str) -> tuple[Sensible, ...]:
    here = {"name": topic, "topic": topic, "topic_id": OwnTopicId()}
    group, wait = {"group_id": "g0"}, {"timeout_ms": 1_000}
    setting = [{"name": "retention.ms", "value": "1"}]
    settings = {"resources": [{"resource_type": 2, "resource_name": topic, "configs": setting}]}
    either = one_of("", CONTROLLER)
    return (
        Sensible(0, {**wait, "acks": one_of(-1, 1), "topic_data": [
            {**here, "partition_data": [{"index": 0, "records": GOOD}]}]}, LEADER),
        Sensible(1, {"topics": [{**here, "partitions": [
            {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000}]}]}, LEADER),
        Sensible(2, {"replica_id": -1, "topics": [
            {**here, "partitions": [{"partition_index": 0, "timestamp": -1}]}]}, LEADER),
        Sensible(8, {**group, "topics": [
            {**here, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]}),
        Sensible(15, {"groups": ["g0"]}),
        Sensible(19, {**wait, "topics": [
            {"name": "stolen", "num_partitions": 1, "replication_factor": 1}]}, either),
        Sensible(20, {**wait, "topics": [{"name": topic}], "topic_names": [topic]}, either),
        Sensible(21, {**wait, "topics": [
            {**here, "partitions": [{"partition_index": 0, "offset": -1}]}]}, LEADER),
        Sensible(22, {"transactional_id": one_of("t0", None), "transaction_timeout_ms": 1_000}),
        Sensible(26, {"transactional_id": "t0", "producer_id": 1, "committed": True}),
        Sensible(30, {"creations": [
            {"resource_type": 2, "resource_name": "*", "resource_pattern_type": 3, "host": "*",
             "principal": f"User:{OUTCAST}", "operation": 2, "permission_type": 3}]}, either),
        Sensible(33, settings, either),
        Sensible(37, {**wait, "topics": [{**here, "count": 99}]}, either),
        Sensible(42, {"groups_names": ["g0"]}),
        Sensible(44, settings, either),
        Sensible(45, {**wait, "topics": [
            {**here, "partitions": [{"partition_index": 0, "replicas": [1]}]}]}, either),
        Sensible(49, {"entries": [{"entity": [{"entity_type": "client-id"}],
                                   "ops": [{"key": "producer_byte_rate", "value": 1.0}]}]}, either),
        Sensible(51, {"deletions": [{"name": "client", "mechanism": 1}]}, either),
        Sensible(64, {"broker_id": 1}, either),
    )  # fmt: skip


def grants(response: Struct) -> bool:
    """Whether a part of an answer that has no parts says that all is well."""
    parts = list(_parts(response))
    if parts:
        return any(grants(part) for part in parts)
    return getattr(response, "error_code", 1) == 0


def _parts(response: Struct) -> Iterator[Struct]:
    for row in type(response).__fields__:
        value: Any = getattr(response, row.name)
        listed = value if isinstance(value, list | tuple) else ()
        yield from (each for each in listed if isinstance(each, Struct))


class Outcast:
    """Does one forbidden thing after the other until the stage says stop."""

    __slots__ = ("_entropy", "_pause_ms", "_peers", "_plan", "_stage")

    def __init__(self, stage: Stage, name: str, plan: ClusterPlan, pause_ms: int) -> None:
        self._stage = stage
        self._plan = plan
        self._pause_ms = pause_ms
        self._entropy: Random = stage.stream(name)
        self._peers: dict[tuple[str, int], Peer] = {}

    async def run(self, process: ClientProcess) -> None:
        logged_in, bare = process.new_network(OUTCAST), process.new_bare_network()
        await asyncio.gather(
            self._keep_on(partial(self._ask, process, logged_in)),
            *(self._keep_on(partial(self._log_in, bare)) for _ in range(AT_ONCE)),
        )
        for peer in self._peers.values():
            peer.close()

    async def _keep_on(self, crime: Callable[[], Awaitable[None]]) -> None:
        while not self._stage.stopped:
            with suppress(*FAILURES):
                await crime()
            await asyncio.sleep(pause_s(self._entropy, self._pause_ms))

    def _note(self, what: str, granted: bool) -> None:
        self._stage.history.done[what] += 1
        if granted:
            self._stage.history.granted.append(what)

    async def _ask(self, process: ClientProcess, network: Network) -> None:
        topic = self._entropy.choice(list(self._stage.partitions))
        row = self._entropy.choice(_forbidden(topic))
        to = row.to if isinstance(row.to, str) else self._entropy.choice(row.to.values)
        known = await process.client.known_topic(topic)
        address = machine_name(self._entropy.choice(self._plan.broker_ids)), BROKER_PORT
        listener = Listener.CLIENT
        if to == LEADER:
            leader = (await process.client.partition(topic, 0)).leader
            address = machine_name(leader or 1), BROKER_PORT
        elif to == CONTROLLER:
            address = machine_name(self._entropy.choice(self._plan.voter_ids)), CONTROLLER_PORT
            listener = Listener.CLUSTER
        message, version = draw_request(row, known.topic_id, listener, self._entropy)
        peer = self._peers.setdefault(address, Peer(network, address, OUTCAST))
        answer = await peer.ask(message, version, timeout_ms=ANSWER_WITHIN_MS)
        self._note(f"forbidden api {row.key}", grants(answer))

    async def _log_in(self, network: Network) -> None:
        host = machine_name(self._entropy.choice(self._plan.broker_ids))
        number = self._entropy.randrange(len(SCRIPTS))
        connection = await network.connect(host, BROKER_PORT, timeout_ms=ANSWER_WITHIN_MS)
        granted = False
        try:
            for step in SCRIPTS[number]:
                granted = await _perform(connection, step)
        except NetworkError:
            granted = False
        finally:
            connection.close()
        self._note(f"wrong login {number}", granted)


async def _perform(connection: RequestConnection, step: Step) -> bool:
    """Whether it was answered, and with no error. NetworkError if it was not."""
    if isinstance(step, Waited):
        await asyncio.sleep(step.wait_ms / 1000)
        return False
    answered: asyncio.Future[bool] = tasks.promise()

    def settle(outcome: Outcome) -> None:
        if isinstance(outcome, NetworkError):
            answered.set_exception(outcome)
        elif isinstance(step, bytes):
            answered.set_result(True)
        else:
            key = step.message.__api_key__
            answered.set_result(grants(decode_response(outcome, key, step.version)[1]))

    buffers: Any = [step]
    if not isinstance(step, bytes):
        header = RequestHeader(step.message.__api_key__, step.version, 1, OUTCAST)
        buffers = encode_request(header, step.message)
    connection.send(buffers, settle, timeout_ms=ANSWER_WITHIN_MS)
    return await answered
