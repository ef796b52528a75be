"""Reports that the metadata quorum has had no leader for long: in /healthz, journal and metrics.

Without one there are no elections, no topics and no registrations, and a node looks well until
somebody needs one of these.
"""

from tidelog.core.types import NO_LEADER
from tidelog.host.node_host import NodeHost
from tidelog.host.timers import Timer
from tidelog.quorum.member import QuorumMember

NO_QUORUM_LEADER = "no-quorum-leader"
LASTING_MS = 10_000
"""Several elections take less."""
LOOK_EVERY_MS = 2_000
ADVICE = (
    "start the nodes of controller.quorum.voters until most of them run; if they do and are in a "
    'lower epoch, they have lost their disks: docs/operations.md, "A quorum that lost its log"'
)


class LeaderWatch:
    """Looks now and then whether this node knows a leader."""

    __slots__ = ("_host", "_leaderless_since_ms", "_quorum", "_timer")

    def __init__(self, host: NodeHost, quorum: QuorumMember) -> None:
        self._host = host
        self._quorum = quorum
        self._leaderless_since_ms: int | None = None
        self._timer: Timer | None = None

    def start(self) -> None:
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._host.timers.after(LOOK_EVERY_MS, self._look)
        findings, subject = self._host.findings, f"node {self._quorum.node_id}"
        if self._quorum.leader_id != NO_LEADER:
            self._leaderless_since_ms = None
            findings.clear(NO_QUORUM_LEADER, subject)
            return
        now_ms = self._host.now_ms()
        if self._leaderless_since_ms is None:
            self._leaderless_since_ms = now_ms
        silent_ms = now_ms - self._leaderless_since_ms
        if silent_ms >= LASTING_MS:
            findings.report(
                NO_QUORUM_LEADER,
                subject,
                f"node {self._quorum.node_id} has known no leader of the metadata quorum for "
                f"{silent_ms // 1000} s; the last epoch it knows is {self._quorum.leader_epoch}",
                advice=ADVICE,
            )
