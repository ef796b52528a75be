"""Where and when a plot happens, and what one is."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from tidelog.sim.nodes.cluster_plan import ClusterPlan
from tidelog.sim.nodes.fault_kinds import NodeFault


class Setting(NamedTuple):
    """Where and when a plot happens."""

    entropy: Random
    at_ms: int
    cluster: ClusterPlan
    node: int
    """Hit when nobody has the role that is aimed at, and by faults without an aim."""
    partition: int

    @property
    def session_ms(self) -> int:
        """Of brokers: who is silent for so long is fenced."""
        return self.cluster.duration_ms("broker.session.timeout.ms")

    @property
    def out_of_sync_ms(self) -> int:
        """Silent for so long, a follower is out of the ISR one way or the other."""
        return round(1.6 * max(self.session_ms, self.lag_ms))

    @property
    def quorum_ms(self) -> int:
        """A voter that hears nothing of the quorum's leader for so long wants an election."""
        return self.cluster.duration_ms("controller.quorum.fetch.timeout.ms")

    @property
    def lag_ms(self) -> int:
        """A follower that is behind for so long leaves the ISR, if it is not fenced before."""
        return self.cluster.duration_ms("replica.lag.time.max.ms")

    @property
    def proposal_timeout_ms(self) -> int:
        """A leader that has no answer to an ISR proposal for so long sends it again."""
        settings = dict(self.cluster.settings)
        return int(settings.get("controller.quorum.request.timeout.ms", "2000"))

    def fault(
        self, after_ms: float, kind: str, aim: str, lasts_ms: float, amount: int = 0
    ) -> NodeFault:
        return NodeFault(
            self.at_ms + max(0, round(after_ms)),
            kind,
            self.node,
            self.node % self.cluster.nodes + 1,
            max(1, round(lasts_ms)),
            aim=aim,
            partition=self.partition,
            amount=amount,
        )

    def sessions(self, least: float, most: float) -> float:
        """A drawn time, in ms, measured in sessions."""
        return self.entropy.uniform(least, most) * self.session_ms

    def one_of(self, *kinds: str) -> str:
        return self.entropy.choice(kinds)


class Plot(NamedTuple):
    weight: int
    """How often, in runs that name none. 0: only where it is named."""
    meaning: str
    draw: Callable[[Setting], list[NodeFault]]
