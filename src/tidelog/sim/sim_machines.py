"""The machines of coordinators, with the settings of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.coordination import CoordinatorMachine
from tidelog.core.groups.machine import GroupMachine
from tidelog.core.groups.settings import GroupSettings, KnownTopic
from tidelog.core.transactions.machine import TransactionMachine
from tidelog.core.transactions.settings import TransactionSettings
from tidelog.sim.coordination_plan import OFFSETS, TRANSACTIONS, CoordinationPlan

if TYPE_CHECKING:
    from tidelog.sim.broker import SimBroker


def make_machine(broker: SimBroker, topic: str, leader_epoch: int) -> CoordinatorMachine:
    """The leader epoch is the epoch of the coordinator."""
    assert topic in (OFFSETS, TRANSACTIONS), f"nobody coordinates with {topic}"
    if topic == TRANSACTIONS:
        return TransactionMachine(TransactionSettings(), leader_epoch)
    plan = broker.node.plan.coordination
    assert plan is not None, f"{topic} without a plan for it"
    return GroupMachine(_group_settings(plan), NodeTopics(broker))


def _group_settings(plan: CoordinationPlan) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=plan.rebalance_delay_ms,
        min_session_timeout_ms=1,
        # Heartbeats and sessions are much shorter than in life, and so is this.
        usual_heartbeat_interval_ms=max(2, plan.session_timeout_ms // 15),
        disconnect_grace_ms=max(1, plan.session_timeout_ms // 90),
        consumer_session_timeout_ms=plan.session_timeout_ms,
        consumer_heartbeat_interval_ms=max(1, plan.session_timeout_ms // 5),
    )


class NodeTopics:
    """A `TopicsView` over the metadata of one node."""

    __slots__ = ("_broker",)

    def __init__(self, broker: SimBroker) -> None:
        self._broker = broker

    def find(self, topic: str) -> KnownTopic | None:
        image = self._broker.image
        topic_id = image.topic_ids.get(topic)
        if topic_id is None:
            return None
        return KnownTopic(topic_id, len(image.topics[topic_id].partitions))

    def name_of(self, topic_id: bytes) -> str | None:
        topic = self._broker.image.topics.get(topic_id)
        return None if topic is None else topic.name

    def matching(self, regex: str) -> tuple[str, ...]:
        raise AssertionError(f"no member of a run subscribes to {regex!r}")
