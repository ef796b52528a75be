"""What must be true of a whole-node run.

N rules are about safety and L rules about liveness: that no state of a healed cluster lasts that
should not. Rules about what clients were told are in `clients.client_rules`.
"""

from collections.abc import Callable

from tidelog.core import events
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.node.node import Node
from tidelog.sim.nodes.server import Server

TWO_LEADERS = "N4 one leader per leader epoch"
CUT_COMMITTED = "N5 committed records are not cut"
FAILED = "N6 no callback of a node or client fails"
STUCK = "L1 a healed cluster becomes whole"
HELD = "L3 no callback holds the loop of a node that serves"

Report = Callable[[str, str], None]


class EventRules:
    """Looks at every event of every node, as it happens."""

    __slots__ = ("_leaders", "_may_lose", "_report", "given_up")

    def __init__(self, report: Report, may_lose: Callable[[PartitionId], bool]) -> None:
        """`may_lose` knows the partitions of which somebody has allowed unclean elections."""
        self._report = report
        self._may_lose = may_lose
        self._leaders: dict[tuple[PartitionId, int], int] = {}
        self.given_up: dict[PartitionId, None] = {}
        """Those of them with a leader that was elected uncleanly: anything may be lost there."""

    def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.BecameLeader):
            epoch = (event.partition, event.leader_epoch)
            first = self._leaders.setdefault(epoch, event.broker)
            if first != event.broker:
                self._report(
                    TWO_LEADERS,
                    f"brokers {first} and {event.broker} led {event.partition.partition} of topic "
                    f"{event.partition.topic_id.hex()[:6]} in leader epoch {event.leader_epoch}",
                )
        elif isinstance(event, events.LeaderElected):
            if event.unclean and self._may_lose(event.partition):
                self.given_up[event.partition] = None
        elif isinstance(event, events.LogTruncated) and event.below_high_watermark:
            if event.partition in self.given_up or event.is_damaged:
                return
            self._report(
                CUT_COMMITTED,
                f"broker {event.broker} cut partition {event.partition.partition} of topic "
                f"{event.partition.topic_id.hex()[:6]}, end {event.previous_end} → "
                f"{event.log_end_offset}",
            )


def unfinished(servers: dict[int, Server]) -> str | None:
    """What keeps a healed cluster from being whole, in words; None if nothing does."""
    for server in servers.values():
        node = server.node
        if node is None or not server.ready:
            return f"node {server.node_id} does not serve"
        findings = node.host.findings.all()
        if findings:
            return f"node {server.node_id} reports {findings[0].kind} {findings[0].subject}"
        missing = _missing_in(node)
        if missing is not None:
            return missing
    return None


def _missing_in(node: Node) -> str | None:
    broker = node.broker
    if broker is None:
        return None  # a controller alone
    for partition in broker.image.partitions():
        index, where = partition.id.partition, f"as node {broker.id} knows it"
        if partition.leader == NO_LEADER:
            return f"partition {index} has no leader, {where}"
        if len(partition.isr) < len(partition.replicas):
            return f"partition {index} has ISR {partition.isr} of {partition.replicas}, {where}"
    for hosted in broker.replicas.hosted.values():
        if hosted.replica.high_watermark != hosted.log.log_end_offset:
            return (
                f"{hosted.topic}-{hosted.index} on node {broker.id} has high watermark "
                f"{hosted.replica.high_watermark} of {hosted.log.log_end_offset}"
            )
    return None
