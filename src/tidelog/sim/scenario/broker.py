"""A broker of a story: a production node, and what the story knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.broker import Broker
from tidelog.broker.replication.hosted import Hosted
from tidelog.core import events
from tidelog.core.types import PartitionId
from tidelog.sim.nodes.cluster import DATA
from tidelog.sim.scenario.disks import batches_of, holds_log, note_high_watermark
from tidelog.sim.scenario.passed import TRUNCATE, Passed
from tidelog.sim.scenario.process import StoryServer

if TYPE_CHECKING:
    from tidelog.sim.scenario.produce import Produce
    from tidelog.sim.scenario.stage import Stage


class StageBroker:
    def __init__(self, stage: Stage, server: StoryServer) -> None:
        self.stage = stage
        self.server = server
        self.id = server.node_id
        self.name = stage.cast.name_of(server.node_id)
        self.metadata_held = False
        self.tells_roles = False
        """Whoever applies metadata at once, with everybody else, says nothing about it."""
        self.told_high_watermark: int | None = None
        """What the answer being received says; learning exactly that is not told again."""
        self.parked: list[Produce] = []
        """Produces that it has not answered."""

    def note(self, text: str) -> None:
        self.stage.narrator.note(self.name, text)

    # -- life

    @property
    def running(self) -> bool:
        return self.server.running

    @property
    def paused(self) -> bool:
        return self.stage.kernel.is_paused(self.id)

    @property
    def awake(self) -> bool:
        return self.running and not self.paused

    @property
    def broker(self) -> Broker | None:
        return None if self.server.node is None else self.server.node.broker

    @property
    def serving(self) -> bool:
        return self.broker is not None and self.broker.metadata.serving

    @property
    def answers(self) -> bool:
        """Before its registration a broker has no metadata to act on, and serves nobody."""
        return self.awake and self.server.ready

    def die(self, *, power_lost: bool) -> None:
        """The process is gone; the high watermark that it knew had just been checkpointed."""
        hosted = self.hosted
        if hosted is not None:
            note_high_watermark(self.server, hosted.replica.high_watermark)
        for produce in self.parked:
            self.note(f"produce {produce.name} is never answered")
        self.parked.clear()
        if power_lost:
            self.server.lose_power()
        else:
            self.server.kill()

    # -- the partition

    @property
    def hosted(self) -> Hosted | None:
        partition = self.stage.partition_id
        return None if partition is None else self.hosted_as(partition)

    def hosted_as(self, partition: PartitionId) -> Hosted | None:
        return None if self.broker is None else self.broker.replicas.hosted.get(partition)

    def any_hosted(self) -> Hosted | None:
        hosted = [] if self.broker is None else list(self.broker.replicas.hosted.values())
        return hosted[0] if hosted else None

    def has_log(self) -> bool:
        """On its disk, whoever runs."""
        return holds_log(self.server.files.open(DATA))

    # -- what it does

    def on_event(self, event: events.Event) -> None:
        name_of, names_of = self.stage.cast.name_of, self.stage.cast.names_of
        if isinstance(event, events.HighWatermarkAdvanced | events.HighWatermarkLowered):
            self._on_high_watermark(event)
        elif isinstance(event, events.RecordsAppended):
            self.stage.producing.on_appended(self, event)
        elif isinstance(event, events.LogTruncated):
            below = " below its high watermark" if event.below_high_watermark else ""
            self.note(f"truncate {event.previous_end} -> {event.log_end_offset}{below}")
            text = f"truncated {event.previous_end} → {event.log_end_offset}"
            self.stage.passed.add(
                Passed(self.id, self.id, TRUNCATE, text, event.log_end_offset, None)
            )
        elif isinstance(event, events.IsrProposed):
            self.note(f"proposes isr={names_of(event.proposed)}")
        elif isinstance(event, events.LogDeleted):
            self.note("deletes its log")
        elif isinstance(event, events.StraySetAside):
            self.note("puts a log of an unknown topic id aside as stray")
        elif self.tells_roles:
            if isinstance(event, events.BecameFollower):
                self.note(f"follows {name_of(event.leader)} in leader-epoch={event.leader_epoch}")
            elif isinstance(event, events.BecameLeader):
                self.note(
                    f"leads in leader-epoch={event.leader_epoch} from offset={event.start_offset}"
                )
            elif isinstance(event, events.IsrChanged):
                self.note(f"isr={names_of(event.isr)}")

    def _on_high_watermark(
        self, event: events.HighWatermarkAdvanced | events.HighWatermarkLowered
    ) -> None:
        if event.high_watermark != self.told_high_watermark:
            self.stage.producing.on_high_watermark(self, event.previous, event.high_watermark)
        hosted = self.hosted
        if hosted is not None and hosted.leader is not None:
            self.stage.ledger.on_committed(batches_of(hosted.log), event.high_watermark)
