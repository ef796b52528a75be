"""Setting the scene: who holds which records, and the settings."""

from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.records import RESOURCE_TOPIC
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.requests import AdminResponse, AlterConfigRequest
from tidelog.core.types import PartitionId
from tidelog.sim.scenario.broker import StageBroker
from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.script import ArgumentError, Arguments, list_of
from tidelog.sim.scenario.stage import TOPIC, Stage
from tidelog.sim.scenario.words import parse_log
from tidelog.sim.sim_log import SimLog, client_batch

TOPIC_SETTINGS = ("min.insync.replicas", "unclean.leader.election.enable")
FIRST_SETTINGS = ("elr",)
"""Features of a cluster: only for a scene that is not set yet."""


@command("set", "NAME=VALUE … (min.insync.replicas, unclean.leader.election.enable, elr)")
def set_settings(stage: Stage, arguments: Arguments) -> None:
    """Change a setting; before `given` it is one the scene begins with."""
    for name, value in arguments.options().items():
        if name not in TOPIC_SETTINGS and name not in FIRST_SETTINGS:
            raise ArgumentError(f"unknown setting {name!r}")
        if name in FIRST_SETTINGS and value not in ("on", "off"):
            raise ArgumentError(f"{name} is on or off, not {value!r}")
        if not stage.is_set or name in FIRST_SETTINGS:
            stage.initial[name] = value
            continue
        request = AlterConfigRequest(RESOURCE_TOPIC, TOPIC, ((name, value),))
        response = stage.control.ask(request)
        assert isinstance(response, AdminResponse), response
        if response.error is not Error.NONE:
            stage.narrator.line(f"controller: {response.error.name} {response.message}")


@command(
    "given",
    "replicas=(A,B,…) [A=LOG …] [hw=N] [hw.A=N …] [isr=(A,…)] [leader=A] [leader-epoch=N] "
    "[partition-epoch=N] [brokers=(…)] [down=(…)] [rack.A=NAME …]",
)
def given(stage: Stage, arguments: Arguments) -> None:
    """A new scene: brokers with logs like "a/0 b/0" or "e0:[0..9]", and who leads."""
    stage.clear()
    id_of = stage.cast.id_of
    replicas = _brokers(stage, arguments, "replicas", "()")
    if not replicas:
        raise ArgumentError("replicas= is missing")
    brokers = _brokers(stage, arguments, "brokers", stage.cast.names_of(replicas))
    down = _brokers(stage, arguments, "down", "()")
    leader = id_of(arguments.option("leader") or stage.cast.name_of(replicas[0]))
    live = stage.cast.names_of(broker for broker in replicas if broker not in down)
    isr = _brokers(stage, arguments, "isr", live)
    stage.set_scene(elr_enabled=stage.initial.get("elr", "on") == "on")
    for broker in dict.fromkeys((*brokers, *replicas)):
        name = stage.cast.name_of(broker)
        stage.brokers[broker] = StageBroker(stage, broker, arguments.option(f"rack.{name}"))
        if broker not in down:
            stage.brokers[broker].start()
            stage.settle()
    partition = stage.partition_id = PartitionId(stage.control.make_uuid(), 0)
    _fill_logs(stage, arguments, partition)
    epochs = stage.brokers[leader].disk.log(partition).epochs
    epoch = arguments.number("leader-epoch", max(0, epochs.latest_epoch))
    stage.control.install(
        (
            r.Topic(TOPIC, partition.topic_id),
            *_topic_settings(stage),
            r.Partition(
                0,
                partition.topic_id,
                replicas,
                isr,
                leader=leader,
                leader_epoch=epoch,
                partition_epoch=arguments.number("partition-epoch", epoch),
            ),
        )
    )
    stage.later(stage.publish_metadata)
    stage.settle()
    _leads_already(stage, leader)
    stage.narrator.take_lines()
    star = f"{stage.cast.name_of(leader)}* leader-epoch={epoch}"
    stage.narrator.line(f"{star} isr={stage.cast.names_of(isr)}")


def _brokers(stage: Stage, arguments: Arguments, name: str, default: str) -> tuple[int, ...]:
    value = arguments.option(name) or default
    return tuple(stage.cast.id_of(item) for item in list_of(name, value))


def _topic_settings(stage: Stage) -> list[r.Config]:
    return [
        r.Config(RESOURCE_TOPIC, TOPIC, name, stage.initial[name])
        for name in TOPIC_SETTINGS
        if name in stage.initial
    ]


def _fill_logs(stage: Stage, arguments: Arguments, partition: PartitionId) -> None:
    everywhere = arguments.number("hw", 0)
    for broker in stage.brokers.values():
        log = broker.disk.log(partition)
        fill_log(stage, log, arguments.option(broker.name) or "")
        high_watermark = arguments.number(f"hw.{broker.name}", min(everywhere, log.log_end_offset))
        if high_watermark > log.log_end_offset:
            raise ArgumentError(
                f"hw.{broker.name}={high_watermark} is beyond the log end {log.log_end_offset}"
            )
        broker.disk.high_watermarks[partition] = high_watermark
        stage.ledger.on_committed(log, high_watermark)


def fill_log(stage: Stage, log: SimLog, text: str) -> None:
    """One batch for each record, so that a log can be cut anywhere."""
    for name, epoch in parse_log(text):
        batch = client_batch((stage.names.number_of(name),))
        log.append_as_leader(batch, epoch)


def _leads_already(stage: Stage, leader: int) -> None:
    """The scene begins in the middle of a leader epoch, not with an election."""
    replica = stage.replica_on(stage.brokers[leader])
    if replica is not None and isinstance(replica.role, LeaderReplica):
        replica.role.leader_epoch_start_offset = replica.log.epochs.entries[-1][1]
