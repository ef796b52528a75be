"""The operator of a simulated run: asks the active controller for changes, until it hears."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core import requests as rq
from tidelog.core.errors import Error
from tidelog.core.metadata.records import RESOURCE_TOPIC
from tidelog.core.types import PartitionId
from tidelog.sim import messages as m
from tidelog.sim.plan import TopicPlan

if TYPE_CHECKING:
    from tidelog.sim.world import World

ATTEMPTS_MAX = 400
"""Creating and deleting a topic must survive any chaos; other wishes are given up sooner."""


class Wish:
    """One request, across as many calls as it takes."""

    __slots__ = ("attempts_left", "request", "request_id", "then")

    def __init__(self, request: rq.ControllerRequest, attempts: int, then: object = None) -> None:
        self.request = request
        self.attempts_left = attempts
        self.request_id = 0
        self.then = then


class AdminClient:
    __slots__ = ("_next_voter", "_wishes", "_world", "address")

    def __init__(self, world: World, address: int) -> None:
        self._world = world
        self.address = address
        self._wishes: dict[int, Wish] = {}
        self._next_voter = 0

    def create_topic(self, index: int, topic: TopicPlan) -> None:
        request = rq.CreateTopicRequest(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            configs=(
                ("min.insync.replicas", str(topic.min_insync_replicas)),
                ("unclean.leader.election.enable", str(topic.unclean).lower()),
            ),
        )
        self._ask(Wish(request, ATTEMPTS_MAX, index))

    def delete_topic(self, index: int, name: str) -> None:
        """Delete it and, when that is done, create it again under the same name."""
        self._ask(Wish(rq.DeleteTopicRequest(name), ATTEMPTS_MAX, index))

    def ask(self, request: rq.ControllerRequest) -> None:
        self._ask(Wish(request, 3))

    def set_min_isr(self, topic: str, value: int) -> None:
        change = (("min.insync.replicas", str(value)),)
        self.ask(rq.AlterConfigRequest(RESOURCE_TOPIC, topic, change))

    def reassign(self, partition: PartitionId, replicas: tuple[int, ...] | None) -> None:
        self.ask(rq.AlterReassignmentRequest(partition, replicas))

    def _ask(self, wish: Wish) -> None:
        world = self._world
        if wish.attempts_left == 0:
            return
        wish.attempts_left -= 1
        wish.request_id = world.new_request_id()
        self._wishes[wish.request_id] = wish
        self._next_voter = (self._next_voter + 1) % world.plan.voters
        target = world.voters[self._next_voter].node_id
        world.network.send(self.address, target, m.ControllerCall(wish.request_id, wish.request))
        wait_us = world.plan.timings.request_timeout_ms * 1000
        world.kernel.call_in(wait_us, self.address, self._timed_out, wish.request_id)

    def _timed_out(self, request_id: int) -> None:
        wish = self._wishes.pop(request_id, None)
        if wish is not None:
            self._ask(wish)

    def receive(self, source: int, message: object) -> None:
        assert type(message) is m.ControllerReply, message
        wish = self._wishes.get(message.request_id)
        if wish is None:
            return
        error = message.response.error
        if error == Error.NOT_CONTROLLER:
            return  # the time-out asks the next voter
        del self._wishes[message.request_id]
        if isinstance(wish.request, rq.CreateTopicRequest):
            self._on_created(wish, error)
        elif isinstance(wish.request, rq.DeleteTopicRequest):
            self._on_deleted(wish, error)

    def _on_created(self, wish: Wish, error: Error) -> None:
        world = self._world
        assert isinstance(wish.request, rq.CreateTopicRequest)
        assert isinstance(wish.then, int)
        # An earlier try may have worked although its answer was lost.
        if error in (Error.NONE, Error.TOPIC_ALREADY_EXISTS):
            topic_id = world.image.topic_ids.get(wish.request.name)
            if topic_id is not None:
                if wish.then >= 0:
                    world.attach_clients(wish.then, topic_id)
                return
        wait_us = world.plan.timings.request_timeout_ms * 1000
        world.kernel.call_in(wait_us, self.address, self._ask, wish)

    def _on_deleted(self, wish: Wish, error: Error) -> None:
        world = self._world
        assert isinstance(wish.request, rq.DeleteTopicRequest)
        assert isinstance(wish.then, int)
        if error in (Error.NONE, Error.UNKNOWN_TOPIC_OR_PARTITION):
            world.marks.add("topic_recreated")
            self.create_topic(wish.then, world.plan.topics[wish.then])
