"""The rare states a run has reached, recognised in the stream of events.

A mark is a named rare state. A simulator that never reaches a state proves nothing about it,
so marks are part of every report.
"""

from tidelog.core import events
from tidelog.sim.world_port import Counters


class Marks:
    """Recognises rare states in the stream of events."""

    __slots__ = ("_counters", "_diverged", "_leaders")

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._diverged: dict[tuple[object, int], int] = {}
        self._leaders: dict[object, events.BecameLeader] = {}

    def add(self, name: str) -> None:
        self._counters.marks[name] += 1

    def observe(self, event: object) -> None:
        kind = type(event)
        if kind is events.FetchDiverged:
            self._on_diverged(event)  # type: ignore[arg-type]
        elif kind is events.BecameLeader:
            self._on_leader(event)  # type: ignore[arg-type]
        elif kind is events.LogTruncated:
            self._on_truncated(event)  # type: ignore[arg-type]
        elif kind is events.LeaderElected:
            self._on_elected(event)  # type: ignore[arg-type]
        elif kind is events.IsrChanged:
            self._on_isr(event)  # type: ignore[arg-type]
        elif kind is events.HighWatermarkLowered:
            self.add("follower_high_watermark_lowered")
        elif kind is events.QuorumRoleChanged:
            self.add(f"quorum_{event.role}")  # type: ignore[attr-defined]
        elif kind is events.ControllerRenounced:
            self.add("controller_renounced")
        elif kind is events.BrokerFenced:
            self.add("broker_fenced")

    def _on_diverged(self, event: events.FetchDiverged) -> None:
        self.add("fetch_diverged")
        key = (event.partition, event.replica)
        rounds = self._diverged.get(key, 0) + 1
        self._diverged[key] = rounds
        if rounds == 2:
            self.add("diverging_two_rounds")
        if event.fetch_offset == event.end_offset:
            self.add("diverging_epoch_only")

    def _on_leader(self, event: events.BecameLeader) -> None:
        previous = self._leaders.get(event.partition)
        self._leaders[event.partition] = event
        for key in [key for key in self._diverged if key[0] == event.partition]:
            del self._diverged[key]
        if event.high_watermark < event.start_offset:
            self.add("new_leader_below_epoch_start")
        if previous is not None:
            if event.high_watermark < previous.high_watermark:
                self.add("hw_lower_than_predecessor")
            if event.broker == previous.broker:
                self.add("leader_reelected")
            if event.start_offset == previous.start_offset:
                self.add("epoch_without_records")

    def _on_truncated(self, event: events.LogTruncated) -> None:
        if event.log_end_offset < event.previous_end:
            self.add("log_truncated")
        if event.below_high_watermark:
            self.add("truncated_below_high_watermark")

    def _on_elected(self, event: events.LeaderElected) -> None:
        if event.unclean:
            self.add("unclean_election")
        elif event.leader < 0:
            self.add("partition_offline")
        else:
            self.add("leader_elected")
            if len(event.isr) == 1:
                self.add("elected_alone_in_isr")

    def _on_isr(self, event: events.IsrChanged) -> None:
        self.add("isr_expanded" if len(event.isr) > len(event.previous) else "isr_shrunk")
        if len(event.isr) == 1:
            self.add("isr_of_one")
