"""Metadata (API 3, v0–13): brokers, topics and leaders; topics that are missing are created.

A topic that has to be created is waited for, about as long as a controller needs. Clients that
are told to come back do so after their back-off of 100 ms (Java, kafka-python, librdkafka), so
the answer that comes a little later is the quicker one. After that the topic is answered with
LEADER_NOT_AVAILABLE, which all of them take for "not yet".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.broker import authorized_operations
from tidelog.broker.caught_up import caught_up
from tidelog.broker.internal_topics import INTERNAL_TOPICS
from tidelog.broker.neighbours import Neighbour, controller_for_clients, neighbours
from tidelog.broker.topic_fragments import TopicFragments, View, assemble, encode_topic
from tidelog.core.errors import Error
from tidelog.core.metadata.topic_names import check_topic_name
from tidelog.core.types import NO_LEADER
from tidelog.host.ports import NetworkError
from tidelog.rpc import Call
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
    from tidelog.broker.broker import Broker

FIRST_BY_ID = 12
"""v10 and v11 have a field for topic ids that no client fills sensibly (wire.md gotcha 28)."""
CREATED_AT_ONCE_MAX = 100
"""Topics that one request may create. The others are created when the client asks again."""
CREATE_WAIT_MS = 1_000
CONFIRMED_TOPICS_MAX = 100
CONFIRMED_PARTITIONS_MAX = 1_000
"""Answers about more are given without asking the leaders whether they live."""
CREATE_TOPICS_VERSION = 7


class MetadataAnswers:
    """Serves Metadata for one broker, from fragments that are kept."""

    __slots__ = ("_broker", "_creating", "_fragments", "_live", "_offset")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._offset = -1
        self._live: dict[str, dict[int, Neighbour]] = {}
        self._fragments: dict[View, TopicFragments] = {}
        self._creating: set[str] = set()

    def handle(self, call: Call) -> None:
        request = call.request
        assert isinstance(request, MetadataRequest), request
        missing = self._to_be_created(request, call.version)
        if missing:
            call.run(self._create_and_answer(call, request, missing))
            return
        leaders = self._other_leaders(request, call.version)
        if leaders or self._broker.doubts.remain():
            call.run(self._answer_without_doubt(call, request, leaders))
        else:
            self._answer(call, request, {})

    async def _answer_without_doubt(
        self, call: Call, request: MetadataRequest, leaders: Collection[int]
    ) -> None:
        await self._broker.doubts.settled(leaders)
        self._answer(call, request, {})

    def _other_leaders(self, request: MetadataRequest, version: int) -> set[int]:
        """Who leads what is asked for, beside ourselves. Who asks for everything or for very much
        is no client whose leader has just died."""
        asked = request.topics or ()
        if len(asked) > CONFIRMED_TOPICS_MAX:
            return set()
        image = self._broker.image
        leaders: set[int] = set()
        for topic_id, name in asked_topics(asked, version):
            known = image.topics.get(topic_id if name is None else image.topic_ids.get(name, b""))
            if known is not None and len(known.partitions) <= CONFIRMED_PARTITIONS_MAX:
                leaders.update(state.leader for state in known.partitions.values())
        return leaders - {self._broker.id, NO_LEADER}

    # -- answers

    def _answer(self, call: Call, request: MetadataRequest, errors: Mapping[str, Error]) -> None:
        view = View(call.version, call.listener, request.include_topic_authorized_operations)
        fragments = self._current_fragments(view)
        live = self._live[view.listener]
        if wants_all(request, view.version):
            image, offset = self._broker.image, self._broker.metadata_offset
            topics = [fragments.of(image, topic, offset) for topic in image.topics.values()]
        else:
            topics = list(self._asked_for(request, view, fragments, errors))
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
            cluster_id=self._broker.cluster_id,
            controller_id=controller_for_clients(live, self._broker.id),
            cluster_authorized_operations=operations,
        )
        call.answer_encoded(assemble(envelope, topics, view.version))

    def _told_of(self, live: dict[int, Neighbour], call: Call) -> Iterable[Neighbour]:
        """The live brokers, and those that were until a moment ago."""
        departed = self._broker.departures.to_be_told(call.connection)
        if not departed:
            return live.values()
        everybody = neighbours(self._broker.image, call.listener, with_fenced=True)
        return [
            each for each in everybody.values() if not each.fenced or each.broker_id in departed
        ]

    def _current_fragments(self, view: View) -> TopicFragments:
        broker = self._broker
        if broker.metadata_offset != self._offset:
            self._live.clear()
            self._offset = broker.metadata_offset
        live = self._live.get(view.listener)
        if live is None:
            live = self._live[view.listener] = neighbours(broker.image, view.listener)
        fragments = self._fragments.get(view)
        if fragments is None:
            fragments = self._fragments[view] = TopicFragments(view)
        fragments.see(live)
        return fragments

    def _asked_for(
        self,
        request: MetadataRequest,
        view: View,
        fragments: TopicFragments,
        errors: Mapping[str, Error],
    ) -> Iterator[bytes]:
        """Once each, in the order of the request."""
        image, offset = self._broker.image, self._broker.metadata_offset
        for topic_id, name in asked_topics(request.topics or (), view.version):
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

    def _to_be_created(self, request: MetadataRequest, version: int) -> list[str]:
        if not (request.allow_auto_topic_creation and self._broker.config.auto_create_topics):
            return []
        known = self._broker.image.topic_ids
        return [
            name
            for _, name in asked_topics(request.topics or (), version)
            if name is not None and name not in known and may_be_created(name)
        ]

    async def _create_and_answer(
        self, call: Call, request: MetadataRequest, missing: list[str]
    ) -> None:
        errors = dict.fromkeys(missing, Error.LEADER_NOT_AVAILABLE)
        deadline_ms = self._broker.now_ms() + CREATE_WAIT_MS
        errors.update(await self._create(missing[:CREATED_AT_ONCE_MAX]))
        hopeful = [
            name
            for name in missing[:CREATED_AT_ONCE_MAX]
            if errors[name] is Error.LEADER_NOT_AVAILABLE
        ]
        left_ms = max(0, deadline_ms - self._broker.now_ms())
        await caught_up(self._broker, lambda: self._all_exist(hopeful), left_ms)
        self._answer(call, request, errors)

    async def _create(self, names: list[str]) -> dict[str, Error]:
        """What the controller has against some of them. Others may be creating the same: then
        it is enough to wait for it."""
        mine = [name for name in names if name not in self._creating]
        if not mine:
            return {}
        self._creating.update(mine)
        try:
            response = await self._broker.link.forward(
                creation_of(mine), CREATE_TOPICS_VERSION, CREATE_WAIT_MS
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
        known = self._broker.image.topic_ids
        return all(name in known for name in names)


def wants_all(request: MetadataRequest, version: int) -> bool:
    """Null means all. v0 cannot say null, there an empty list means it."""
    return request.topics is None or (version == 0 and not request.topics)


def asked_topics(
    topics: Sequence[MetadataRequestTopic], version: int
) -> dict[tuple[bytes, str | None], None]:
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
