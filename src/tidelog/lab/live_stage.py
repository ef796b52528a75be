"""A real cluster as the stage of a story: one partition, and fetches that pass one at a time.

Commands do what they say: brokers are killed and started, clients produce, a fetch is released at
the gate of its broker (`node.lab_gate`). What cannot be had of a real cluster is refused before.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from tidelog.client import Client, KafkaError
from tidelog.client.admin import Admin, NewTopic
from tidelog.client.errors import ClientError
from tidelog.cluster.faults import ControlFailed
from tidelog.cluster.lab import ask_lab, ask_partition
from tidelog.cluster.layout import admin_properties
from tidelog.cluster.nodes import LocalNodes, NodeFailed
from tidelog.cluster.readiness import wait_ready
from tidelog.core.errors import Error
from tidelog.core.types import NO_LEADER
from tidelog.host.ports import NetworkError
from tidelog.lab.play import PlayError
from tidelog.lab.scenes import Scene
from tidelog.sim.scenario.disks import PLENTY_BYTES, encode_batch
from tidelog.sim.scenario.passed import ANSWER, DIVERGING, FETCH, LOST, Passed, PassedMessages
from tidelog.sim.scenario.produce import ACKS
from tidelog.sim.scenario.words import read_batches
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse

PATIENCE_SECONDS = 60
"""How long anything may take on a busy machine."""
POLL_SECONDS = 0.03
LEAVE_WITHIN_SECONDS = 5
PRODUCE_TIMEOUT_MS = 600_000
ONE_BATCH_BYTES = 1
Document = dict[str, Any]


class LiveReplica(NamedTuple):
    """What a broker says of its own replica."""

    log_start: int
    high_watermark: int
    log_end: int
    epochs: tuple[tuple[int, int], ...]
    """Leader epochs, and where they start."""

    def epoch_at(self, offset: int) -> int | None:
        """None: there is no record."""
        if not self.log_start <= offset < self.log_end:
            return None
        return max((epoch for epoch, start in self.epochs if start <= offset), default=None)

    def differs_from(self, leader: LiveReplica) -> int | None:
        """The first offset with a record of another epoch than the leader's, or of none."""
        places = {start for _, start in (*self.epochs, *leader.epochs)} | {leader.log_end}
        for offset in sorted(places):
            if offset < self.log_end and self.epoch_at(offset) != leader.epoch_at(offset):
                return offset
        return None


class LivePartition(NamedTuple):
    """What the brokers that run say of the partition; brokers by the names of the story."""

    leader: int | None
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: dict[int, LiveReplica]
    """Of those that run."""


class LiveStage:
    """Belongs to one thread; its clients have a loop there."""

    def __init__(self, nodes: LocalNodes, patience_s: float, leaving: threading.Event) -> None:
        self._nodes = nodes
        self._leaving = leaving
        self.patience_s = patience_s
        self._runner = asyncio.Runner()
        self._client: Client | None = None
        self._topic = f"lab-{secrets.token_hex(4)}"
        self._topic_id = ""
        self._node_of: dict[int, int] = {}
        self._keeps_answer: set[int] = set()
        self._produces: list[list[asyncio.Task[None]]] = []
        """Of each command, its batches."""
        self.unheard: set[int] = set()
        """Dead, and nobody has noticed yet."""
        self.forgetful: set[int] = set()
        """Started again, and not told the high watermark since."""
        self.last_seen: dict[int, LiveReplica] = {}
        """Also of those that do not run any more."""
        self.passed = PassedMessages()

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def is_set(self) -> bool:
        return bool(self._topic_id)

    def told_nodes(self) -> list[str]:
        """Who plays whom, where their numbers differ."""
        pairs = [f"{broker} is node {node}" for broker, node in self._node_of.items()]
        return [] if all(b == n for b, n in self._node_of.items()) else [", ".join(pairs)]

    def node_of(self, broker: int) -> int:
        """The node that plays this broker of the story."""
        return self._node_of[broker]

    def close(self) -> None:
        """The topic goes. Who is dead stays so: the next story starts whom it needs."""
        for batch in (batch for batches in self._produces for batch in batches):
            batch.cancel()
        self._runner.run(self._leave())
        self._runner.close()

    async def _leave(self) -> None:
        if self._client is None:
            return
        # A cluster that is gone has nothing to be put in order.
        with suppress(ClientError, NetworkError, TimeoutError):
            deleting = Admin(self._client).delete_topic(self._topic)
            await asyncio.wait_for(deleting, LEAVE_WITHIN_SECONDS)
        await self._client.close()

    # -- the scene

    def set_scene(self, scene: Scene) -> None:
        brokers = [node.id for node in self._nodes.state.brokers]
        if len(brokers) < len(scene.replicas):
            raise PlayError(
                f"the story needs {len(scene.replicas)} brokers, and there are {len(brokers)}",
                "tidelog up --lab",
            )
        same = all(each in brokers for each in scene.replicas)
        played_by = scene.replicas if same else brokers
        self._node_of = dict(zip(scene.replicas, played_by, strict=False))
        for broker in scene.replicas:
            if not self.is_running(broker):
                self.restart(broker)
            self._order(broker, {"close": True})
            for node in brokers:
                self._order(broker, {"answer": {"to": node, "arrives": False}})
        self._client = self._runner.run(self._connect())
        self._runner.run(self._create_topic(scene))
        self._await("every replica", lambda: self._is_everywhere(scene))
        for act, *rest in scene.plan():
            if act == "produce":
                self.produce([str(rest[0])], "1")
            else:
                self.fetch(int(rest[0]), keep_answer=act == "ask")

    def _is_everywhere(self, scene: Scene) -> bool:
        """Brokers hear of a new topic one after the other."""
        live = self.look()
        return live.leader == scene.leader and live.replicas.keys() == set(scene.replicas)

    async def _connect(self) -> Client:
        state = self._nodes.state
        properties = admin_properties(self._nodes.directory, state)
        return Client(state.bootstrap_servers, properties=properties)

    async def _create_topic(self, scene: Scene) -> None:
        assert self._client is not None, "there is no scene"
        assignment = {0: [self._node_of[broker] for broker in scene.replicas]}
        topic = NewTopic(self._topic, configs={"min.insync.replicas": "1"}, assignment=assignment)
        try:
            created = await Admin(self._client).create_topic(topic)
        except (ClientError, NetworkError) as reason:
            raise PlayError(f"the topic cannot be created: {reason}", "tidelog ps") from None
        self._topic_id = created.topic_id.hex()

    # -- looking

    def is_running(self, broker: int) -> bool:
        return self._nodes.node(self._node_of[broker]).state == "running"

    def look(self) -> LivePartition:
        """As those that run see it; of who leads, the newest news count."""
        found: dict[int, LiveReplica] = {}
        newest: Document = {}
        for broker in self._node_of:
            partition = self._state_of(broker) if self.is_running(broker) else None
            if partition is None:
                continue
            found[broker] = LiveReplica(
                partition["log_start_offset"],
                partition["high_watermark"],
                partition["log_end_offset"],
                tuple((epoch, start) for epoch, start in partition["epochs"]),
            )
            if not newest or partition["partition_epoch"] > newest["partition_epoch"]:
                newest = partition
        self.last_seen.update(found)
        names = {node: broker for broker, node in self._node_of.items()}
        leader = newest.get("leader", NO_LEADER)
        return LivePartition(
            names.get(leader),
            newest.get("leader_epoch", -1),
            newest.get("partition_epoch", -1),
            tuple(names[node] for node in newest.get("isr", ())),
            found,
        )

    def _state_of(self, broker: int) -> Document | None:
        try:
            return ask_partition(self._nodes, self._node_of[broker], self._topic)
        except ControlFailed:
            return None

    @property
    def parked(self) -> int:
        """Produces that were not answered."""
        self._pause(0)
        return sum(not all(batch.done() for batch in batches) for batches in self._produces)

    # -- commands

    def produce(self, names: list[str], acks: str) -> list[str]:
        leader, batches = self._leader(), list[asyncio.Task[None]]()
        self._produces.append(batches)
        for name in names:
            end = self._end_of(leader)
            sending = self._produce(leader, name, ACKS[acks])
            batches.append(self._runner.get_loop().create_task(sending))
            self._await(f"{name} to be appended", partial(self._has_grown, leader, end))
        return [f"{leader}: log end {self._end_of(leader)}"]

    def _end_of(self, broker: int) -> int:
        replica = self.look().replicas.get(broker)
        if replica is None:
            raise PlayError(f"{broker} does not say what it has", "try again")
        return replica.log_end

    def _has_grown(self, leader: int, end: int) -> bool:
        replica = self.look().replicas.get(leader)
        return replica is not None and replica.log_end > end

    async def _produce(self, leader: int, name: str, acks: int) -> None:
        assert self._client is not None, "there is no scene"
        data = PartitionProduceData(index=0, records=encode_batch(name.split("+")))
        request = ProduceRequest(
            acks=acks,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )
        # A leader that died does not answer: no more is known of the record then.
        with suppress(NetworkError, KafkaError):
            await self._client.ask_broker(
                self._node_of[leader],
                request,
                ProduceResponse,
                purpose=f"produce {name}",
                timeout_ms=PRODUCE_TIMEOUT_MS,
            )

    def hold_answer(self, broker: int) -> None:
        self._keeps_answer.add(broker)

    def drop_answer(self, broker: int) -> list[str]:
        leader = self._leader()
        order = {"answer": {"to": self._node_of[leader], "arrives": False}}
        if not self._order(broker, order)["released"]:
            raise PlayError(f"no answer to {broker} is on the wire", "fetch first")
        self.passed.add(Passed(leader, broker, ANSWER, "answer", 0, None, LOST))
        return [f"answer of {broker} is lost"]

    def fetch(self, broker: int, *, one_batch: bool = False, keep_answer: bool = False) -> str:
        """The broker's next fetch passes, and so does its answer unless it is kept."""
        keep = keep_answer or broker in self._keeps_answer
        self._keeps_answer.discard(broker)
        deadline = time.monotonic() + self.patience_s
        while time.monotonic() < deadline:
            number = self._release(broker, one_batch=one_batch, keep_answer=keep)
            told = self._outcome_of(broker, number)
            if told is not None:
                self.forgetful.discard(broker)
                return told
        raise PlayError(f"{broker} gets no answer that counts", f"tidelog logs broker {broker}")

    def _release(self, broker: int, *, one_batch: bool, keep_answer: bool) -> int:
        """The number of the fetch that passed."""
        released: list[int] = []
        leader = self._node_of[self._leader()]
        order: Document = {"to": leader, "keep_answer": keep_answer}
        if one_batch:
            order["max_bytes"] = ONE_BATCH_BYTES

        def passes() -> bool:
            waiting = self._waiting(broker, leader)
            if waiting is None:
                return False
            number = waiting["number"]
            if self._partition_in(waiting["partitions"]) is None:
                # It is from before the broker heard of the topic.
                self._order(broker, {"release": {"to": leader, "number": number}})
            elif self._order(broker, {"release": {**order, "number": number}})["released"]:
                released.append(number)
            return bool(released)

        self._await(f"a fetch of {broker}", passes)
        return released[0]

    def _waiting(self, broker: int, leader: int) -> Document | None:
        """The next fetch for that leader."""
        waiting = ask_lab(self._nodes, self._node_of[broker])["waiting"]
        return next((each for each in waiting if each["to"] == leader), None)

    def _outcome_of(self, broker: int, number: int) -> str | None:
        """What came of a fetch that passed; None if it was refused, and is asked again."""
        found: list[tuple[str, Document]] = []

        def is_over() -> bool:
            gate = ask_lab(self._nodes, self._node_of[broker])
            for where in ("passed", "answers"):
                found.extend((where, each) for each in gate[where] if each["number"] == number)
            return bool(found)

        self._await(f"an answer to {broker}", is_over)
        where, fetch = found[0]
        return self._tell_fetch(broker, fetch, is_held=where == "answers")

    def _tell_fetch(self, broker: int, fetch: Document, *, is_held: bool) -> str | None:
        leader = next(b for b, node in self._node_of.items() if node == fetch["to"])
        asked = self._partition_in(fetch["partitions"])
        assert asked is not None, fetch
        epoch = None if asked["last_epoch"] < 0 else asked["last_epoch"]
        known = "none" if epoch is None else str(epoch)
        answer = None if is_held else self._partition_in(fetch["answer"].get("partitions", []))
        if not is_held and (answer is None or answer["error"] is not None):
            return None
        text = f"Fetch offset {asked['offset']}, last epoch {known}"
        self.passed.add(Passed(broker, leader, FETCH, text, asked["offset"], epoch))
        told = f"{broker} -> {leader} fetch offset={asked['offset']} last-epoch={known}"
        if answer is None:
            return f"{told} | held"
        return f"{told} | {self._tell_answer(broker, leader, asked, answer)}"

    def _tell_answer(self, broker: int, leader: int, asked: Document, answer: Document) -> str:
        mark = answer["high_watermark"]
        if answer["diverging"] is not None:
            epoch, end = answer["diverging"]
            text = f"epoch {epoch} ends at {end}"
            self.passed.add(Passed(leader, broker, DIVERGING, text, end, epoch))
            return f"diverging epoch={epoch} end-offset={end}"
        first, last = answer["first"], answer["last"]
        told = "no records"
        if first is not None:
            told = f"record {first}" if first == last else f"records {first}–{last}"
        offset = asked["offset"] if first is None else first
        self.passed.add(
            Passed(leader, broker, ANSWER, f"{told}, HW {mark}", offset, answer["epoch"])
        )
        return f"{told} high-watermark={mark}"

    def _partition_in(self, partitions: list[Document]) -> Document | None:
        return next((each for each in partitions if each["topic_id"] == self._topic_id), None)

    def crash(self, broker: int, *, unnoticed: bool) -> list[str]:
        """One that dies unnoticed stands still first: its connections stay open."""
        if not self.is_running(broker):
            raise PlayError(f"{broker} is down", f"restart {broker}")
        node = self._node_of[broker]
        if unnoticed:
            self._nodes.pause(node)
            self.unheard.add(broker)
        else:
            self._nodes.kill(node)
        self._nodes.save()
        return [f"{broker}: {'hangs' if unnoticed else 'killed'}"]

    def bury(self, broker: int) -> None:
        """One that was noticed ends for good."""
        self._nodes.kill(self._node_of[broker])
        self._nodes.save()

    def restart(self, broker: int) -> list[str]:
        node = self._node_of[broker]
        self._nodes.kill(node)
        self._nodes.start([node], attached=False)
        waited = wait_ready(self._nodes, timeout_ms=PATIENCE_SECONDS * 1000, expected=[node])
        try:
            self._runner.run(waited)
        except NodeFailed as failure:
            raise PlayError(str(failure), f"tidelog logs broker {node}") from None
        self.forgetful.add(broker)
        return [f"{broker}: started"]

    def consume(self, offset: int) -> str:
        """What a consumer gets from the leader, in the words of the script."""
        leader = self._leader()
        data = self._runner.run(self._fetch_from(leader, offset))
        told = f"consumer -> {leader} fetch offset={offset}"
        if data.error_code:
            return f"{told} | {Error(data.error_code).name}"
        batches = read_batches(data.records or b"")
        shown = f"records {' '.join(map(str, batches))}" if batches else "no records"
        return f"{told} | {shown} high-watermark={data.high_watermark}"

    def committed(self) -> list[str]:
        """Every record that a consumer may read."""
        data = self._runner.run(self._fetch_from(self._leader(), 0))
        return [str(batch) for batch in read_batches(data.records or b"")]

    async def _fetch_from(self, leader: int, offset: int) -> Any:
        assert self._client is not None, "there is no scene"
        partition = FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=PLENTY_BYTES
        )
        request = FetchRequest(
            max_bytes=PLENTY_BYTES, topics=[FetchTopic(topic=self._topic, partitions=[partition])]
        )
        try:
            answer = await self._client.ask_broker(self._node_of[leader], request, FetchResponse)
        except (NetworkError, KafkaError) as reason:
            raise PlayError(f"{leader} does not answer: {reason}", "try again") from None
        return answer.responses[0].partitions[0]

    # -- waiting

    def _leader(self) -> int:
        leader = self.look().leader
        if leader is None:
            raise PlayError("the partition has no leader", "restart a broker")
        return leader

    def _order(self, broker: int, order: Document) -> Document:
        try:
            return ask_lab(self._nodes, self._node_of[broker], "POST", order)
        except ControlFailed as reason:
            raise PlayError(str(reason), "tidelog up --lab") from None

    def _await(self, what: str, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self.patience_s
        while not is_so():
            if time.monotonic() > deadline:
                raise PlayError(f"the cluster is late: {what}", "tidelog ps")
            self._pause(POLL_SECONDS)

    def pause(self) -> None:
        self._pause(POLL_SECONDS)

    def _pause(self, seconds: float) -> None:
        """Clients go on meanwhile."""
        if self._leaving.is_set():
            raise PlayError("the lab closes", "begin anew")
        self._runner.run(asyncio.sleep(seconds))
