"""Metadata (API 3, v0–13): brokers, topics and leaders; topics that are missing are created.

The answer waits for a topic that has to be created, about as long as a controller needs. Clients
that get a retriable error retry after their back-off of 100 ms (Java, kafka-python, librdkafka), so
the answer that comes a little later is the quicker one. After that the topic is answered with
LEADER_NOT_AVAILABLE, which all of them take for "not yet".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.answers import authorized_operations
from tidelog.broker.answers.neighbours import Neighbour, controller_for_clients, neighbours
from tidelog.broker.answers.topic_fragments import TopicFragments, View, assemble, encode_topic
from tidelog.broker.control.caught_up import caught_up
from tidelog.broker.coordination.internal_topics import INTERNAL_TOPICS
from tidelog.core.errors import Error
from tidelog.core.metadata.image import TopicState
from tidelog.core.metadata.topic_names import check_topic_name
from tidelog.core.types import NO_LEADER
from tidelog.host.ports import NetworkError
from tidelog.rpc import Call
from tidelog.rpc.slices import slices
from tidelog.wire.protocol import ZERO_UUID
from tidelog.wire.protocol.schemas.create_topics_request import CreatableTopic, CreateTopicsRequest
from tidelog.wire.protocol.schemas.create_topics_response import CreateTopicsResponse
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest, MetadataRequestTopic
from tidelog.wire.protocol.schemas.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.control.controller_link import ControllerLink
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.control.recently_fenced import RecentlyFenced
    from tidelog.broker.replication.suspected_brokers import SuspectedBrokers
    from tidelog.config.node_config import NodeConfig
    from tidelog.host.node_host import NodeHost

FIRST_BY_ID = 12
"""v10 and v11 have a field for topic ids that no client fills sensibly (wire.md gotcha 28)."""
AT_ONCE = 128
"""Topics that are looked at in one turn of the event loop. A client may name 200,000 of them."""
CREATED_AT_ONCE_MAX = 20
"""Topics that one request may create. The others are created when the client asks again."""
CREATE_WAIT_MS = 1_000
CONFIRMED_TOPICS_MAX = 100
CONFIRMED_PARTITIONS_MAX = 1_000
"""Answers about more are given without asking the leaders whether they live."""
CREATE_TOPICS_VERSION = 7

Key = tuple[bytes, str | None]
"""How a topic is asked for: by its id, or else by its name."""
Asked = dict[Key, None]


class Parts(NamedTuple):
    """What Metadata is answered from."""

    metadata: LocalMetadata
    link: ControllerLink
    suspected: SuspectedBrokers
    recently_fenced: RecentlyFenced
    config: NodeConfig
    cluster_id: str
    host: NodeHost


class MetadataAnswers:
    """Serves Metadata for one broker, from fragments that are kept."""

    __slots__ = ("_creating", "_fragments", "_live", "_metadata", "_offset", "_parts")

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._metadata = parts.metadata
        self._offset = -1
        self._live: dict[str, dict[int, Neighbour]] = {}
        self._fragments: dict[View, TopicFragments] = {}
        self._creating: set[str] = set()

    def handle(self, call: Call) -> None:
        request = call.request
        assert isinstance(request, MetadataRequest), request
        if self._is_large(request, call.version):
            call.run(self._answer_in_slices(call, request))
            return
        asked = asked_topics(request.topics or (), call.version)
        missing = self._to_be_created(request, asked)
        if missing:
            call.run(self._create_and_answer(call, request, asked, missing))
            return
        leaders = self._other_leaders(asked)
        if leaders or self._parts.suspected.remain():
            call.run(self._answer_without_doubt(call, request, asked, leaders))
        else:
            self._answer(call, request, asked, {})

    def _is_large(self, request: MetadataRequest, version: int) -> bool:
        topics = self._metadata.image.topics if wants_all(request, version) else request.topics
        return len(topics or ()) > AT_ONCE

    async def _answer_in_slices(self, call: Call, request: MetadataRequest) -> None:
        """Topics may come and go between two slices: each is answered as it is in its own."""
        version = call.version
        asked: Asked = {}
        async for some in slices(request.topics or (), AT_ONCE):
            asked.update(asked_topics(some, version))
        missing: list[str] = []
        async for keys in slices(asked, AT_ONCE):
            missing += self._to_be_created(request, keys)
        errors = await self._created(missing, call) if missing else {}
        if self._parts.suspected.remain():
            await self._parts.suspected.settled(())
        fragments: list[bytes] = []
        if wants_all(request, version):
            async for topics in slices(list(self._metadata.image.topics.values()), AT_ONCE):
                fragments += self._of_topics(topics, view_of(call, request))
        else:
            async for keys in slices(asked, AT_ONCE):
                fragments += self._asked_for(keys, view_of(call, request), errors)
        self._send(call, request, fragments)

    async def _answer_without_doubt(
        self, call: Call, request: MetadataRequest, asked: Asked, leaders: Collection[int]
    ) -> None:
        await self._parts.suspected.settled(leaders)
        self._answer(call, request, asked, {})

    def _other_leaders(self, asked: Asked) -> set[int]:
        """Who leads what is asked for, beside ourselves. Who asks for everything or for very much
        is no client whose leader has just died."""
        if len(asked) > CONFIRMED_TOPICS_MAX:
            return set()
        image = self._metadata.image
        leaders: set[int] = set()
        for topic_id, name in asked:
            known = image.topics.get(topic_id if name is None else image.topic_ids.get(name, b""))
            if known is not None and len(known.partitions) <= CONFIRMED_PARTITIONS_MAX:
                leaders.update(state.leader for state in known.partitions.values())
        return leaders - {self._metadata.own_id, NO_LEADER}

    # -- answers

    def _answer(
        self, call: Call, request: MetadataRequest, asked: Asked, errors: Mapping[str, Error]
    ) -> None:
        view = view_of(call, request)
        if wants_all(request, view.version):
            topics = self._of_topics(self._metadata.image.topics.values(), view)
        else:
            topics = list(self._asked_for(asked, view, errors))
        self._send(call, request, topics)

    def _of_topics(self, topics: Iterable[TopicState], view: View) -> list[bytes]:
        fragments = self._current_fragments(view)
        image, offset = self._metadata.image, self._metadata.offset
        return [fragments.of(image, topic, offset) for topic in topics]

    def _send(self, call: Call, request: MetadataRequest, topics: Sequence[bytes]) -> None:
        self._current_fragments(view_of(call, request))
        live = self._live[call.listener]
        operations = authorized_operations.on_cluster(
            asked=request.include_cluster_authorized_operations
        )
        envelope = MetadataResponse(
            brokers=[
                MetadataResponseBroker(
                    node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack
                )
                for each in self._told_of(live, call)
            ],
            cluster_id=self._parts.cluster_id,
            controller_id=controller_for_clients(live, self._metadata.own_id),
            cluster_authorized_operations=operations,
        )
        call.answer_encoded(assemble(envelope, topics, call.version))

    def _told_of(self, live: dict[int, Neighbour], call: Call) -> Iterable[Neighbour]:
        """The live brokers, and those that were until a moment ago."""
        departed = self._parts.recently_fenced.to_be_told(call.connection)
        if not departed:
            return live.values()
        everybody = neighbours(self._metadata.image, call.listener, with_fenced=True)
        return [
            each for each in everybody.values() if not each.fenced or each.broker_id in departed
        ]

    def _current_fragments(self, view: View) -> TopicFragments:
        metadata = self._metadata
        if metadata.offset != self._offset:
            self._live.clear()
            self._offset = metadata.offset
        live = self._live.get(view.listener)
        if live is None:
            live = self._live[view.listener] = neighbours(metadata.image, view.listener)
        fragments = self._fragments.get(view)
        if fragments is None:
            fragments = self._fragments[view] = TopicFragments(view)
        fragments.see(live)
        return fragments

    def _asked_for(
        self, asked: Iterable[Key], view: View, errors: Mapping[str, Error]
    ) -> Iterator[bytes]:
        """Once each, in the order of the request."""
        fragments = self._current_fragments(view)
        image, offset = self._metadata.image, self._metadata.offset
        for topic_id, name in asked:
            if name is None:
                known = image.topics.get(topic_id)
                refused = MetadataResponseTopic(
                    error_code=Error.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
                )
            else:
                known = image.topics.get(image.topic_ids.get(name, b""))
                error = errors.get(name) or name_error(name)
                refused = MetadataResponseTopic(
                    error_code=error, name=name, is_internal=name in INTERNAL_TOPICS
                )
            if known is not None:
                yield fragments.of(image, known, offset)
            else:
                yield encode_topic(refused, view.version)

    # -- creation

    def _to_be_created(self, request: MetadataRequest, asked: Iterable[Key]) -> list[str]:
        if not (request.allow_auto_topic_creation and self._parts.config.auto_create_topics):
            return []
        known = self._metadata.image.topic_ids
        return [
            name
            for _, name in asked
            if name is not None and name not in known and may_be_created(name)
        ]

    async def _create_and_answer(
        self, call: Call, request: MetadataRequest, asked: Asked, missing: list[str]
    ) -> None:
        self._answer(call, request, asked, await self._created(missing, call))

    async def _created(self, missing: list[str], asker: Call) -> Mapping[str, Error]:
        """What is to be said of those that do not exist yet: some of them are created."""
        errors = dict.fromkeys(missing, Error.LEADER_NOT_AVAILABLE)
        some = missing[:CREATED_AT_ONCE_MAX]
        deadline_ms = self._parts.host.now_ms() + CREATE_WAIT_MS
        errors.update(await self._create(some, asker))
        hopeful = [name for name in some if errors[name] is Error.LEADER_NOT_AVAILABLE]
        left_ms = max(0, deadline_ms - self._parts.host.now_ms())
        await caught_up(
            self._metadata,
            self._parts.host.timers,
            lambda: self._all_exist(hopeful),
            left_ms,
        )
        return errors

    async def _create(self, names: list[str], asker: Call) -> dict[str, Error]:
        """What the controller has against some of them. Others may be creating the same: then
        it is enough to wait for it."""
        mine = [name for name in names if name not in self._creating]
        if not mine:
            return {}
        self._creating.update(mine)
        try:
            response = await self._parts.link.forward(
                creation_of(mine), CREATE_TOPICS_VERSION, CREATE_WAIT_MS, asker
            )
        except NetworkError:
            return {}
        finally:
            self._creating.difference_update(mine)
        assert isinstance(response, CreateTopicsResponse), response
        return {
            result.name: Error(result.error_code)
            for result in response.topics
            if result.error_code not in (Error.NONE, Error.TOPIC_ALREADY_EXISTS)
        }

    def _all_exist(self, names: Iterable[str]) -> bool:
        known = self._metadata.image.topic_ids
        return all(name in known for name in names)


def wants_all(request: MetadataRequest, version: int) -> bool:
    """Null means all. v0 cannot say null, there an empty list means it."""
    return request.topics is None or (version == 0 and not request.topics)


def view_of(call: Call, request: MetadataRequest) -> View:
    return View(call.version, call.listener, request.include_topic_authorized_operations)


def asked_topics(topics: Sequence[MetadataRequestTopic], version: int) -> Asked:
    """Each topic once, by id or by name."""
    by_id = version >= FIRST_BY_ID
    return dict.fromkeys(
        (topic.topic_id, None)
        if by_id and (topic.name is None or topic.topic_id != ZERO_UUID)
        else (ZERO_UUID, topic.name or "")
        for topic in topics
    )


def name_error(name: str) -> Error:
    """Why there is no topic of this name."""
    if name in INTERNAL_TOPICS or check_topic_name(name) is None:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    return Error.INVALID_TOPIC_EXCEPTION


def may_be_created(name: str) -> bool:
    return name not in INTERNAL_TOPICS and check_topic_name(name) is None


def creation_of(names: Sequence[str]) -> CreateTopicsRequest:
    """With the cluster's numbers of partitions and replicas."""
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in names
        ],
        timeout_ms=CREATE_WAIT_MS,
    )
