"""The operator of a simulated run: asks the active controller for changes, until it hears."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core import requests as rq
from tidelog.core.errors import Error
from tidelog.core.metadata.records import RESOURCE_TOPIC
from tidelog.core.types import PartitionId
from tidelog.sim import messages as m
from tidelog.sim.topic_plan import TopicPlan

if TYPE_CHECKING:
    from tidelog.sim.world import World

ATTEMPTS_MAX = 400
"""Creating a topic must survive any chaos; other wishes are given up sooner."""


class Wish:
    """One request, across as many calls as it takes."""

    __slots__ = ("attempts_left", "request")

    def __init__(self, request: rq.ControllerRequest, attempts: int) -> None:
        self.request = request
        self.attempts_left = attempts


class AdminClient:
    __slots__ = ("_next_voter", "_wishes", "_world", "address")

    def __init__(self, world: World, address: int) -> None:
        self._world = world
        self.address = address
        self._wishes: dict[int, Wish] = {}
        self._next_voter = 0

    def create_topic(self, topic: TopicPlan) -> None:
        request = rq.CreateTopicRequest(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            configs=(
                ("min.insync.replicas", str(topic.min_insync_replicas)),
                ("unclean.leader.election.enable", str(topic.unclean).lower()),
            ),
        )
        self._ask(Wish(request, ATTEMPTS_MAX))

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
        request_id = world.new_request_id()
        self._wishes[request_id] = wish
        self._next_voter = (self._next_voter + 1) % world.plan.voters
        target = world.voters[self._next_voter].node_id
        world.network.send(self.address, target, m.ControllerCall(request_id, wish.request))
        wait_us = world.plan.timings.request_timeout_ms * 1000
        world.kernel.call_in(wait_us, self.address, self._timed_out, request_id)

    def _timed_out(self, request_id: int) -> None:
        wish = self._wishes.pop(request_id, None)
        if wish is not None:
            self._ask(wish)

    def receive(self, source: int, message: object) -> None:
        assert type(message) is m.ControllerReply, message
        wish = self._wishes.get(message.request_id)
        if wish is None or self._ask_again(wish, message.response.error):
            return  # the time-out asks the next voter
        del self._wishes[message.request_id]

    def _ask_again(self, wish: Wish, error: Error) -> bool:
        if isinstance(wish.request, rq.CreateTopicRequest):
            # Brokers may still be missing, or an earlier try worked and its answer was lost; or
            # a controller that has been replaced does not know yet that the topic was deleted.
            exists = wish.request.name in self._world.image.topic_ids
            return error != Error.NONE and not (error == Error.TOPIC_ALREADY_EXISTS and exists)
        return error == Error.NOT_CONTROLLER
