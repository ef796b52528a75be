"""Setting the scene: who holds which records, and the settings."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple, cast

from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.bootstrap import (
    ELR_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_FEATURE,
    RELEASE_FEATURES,
)
from tidelog.core.metadata.contexts import ELR_FEATURE
from tidelog.core.metadata.records import RESOURCE_BROKER, RESOURCE_TOPIC
from tidelog.core.metadata.topic_configs import MIN_INSYNC_REPLICAS
from tidelog.core.types import PartitionId
from tidelog.sim.scenario.broker import StageBroker
from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.control import CONTROLLER_NODE, START_LIMIT_MS
from tidelog.sim.scenario.disks import TOPIC, batches_of, write_log, write_metadata
from tidelog.sim.scenario.process import (
    StoryServer,
    broker_address,
    controller_address,
    node_config,
)
from tidelog.sim.scenario.script import ArgumentError, Arguments, list_of
from tidelog.sim.scenario.stage import Stage
from tidelog.sim.scenario.words import parse_log
from tidelog.wire.protocol.schemas.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.protocol.schemas.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)

TOPIC_SETTINGS = ("min.insync.replicas", "unclean.leader.election.enable")
FIRST_SETTINGS = ("elr",)
"""Features of a cluster: only for a scene that is not set yet."""
NEVER = "2000000000"
TOPIC_ID = (1001).to_bytes(16, "big")


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
        else:
            _alter_config(stage, name, value)


def _alter_config(stage: Stage, name: str, value: str) -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(
        resource_type=RESOURCE_TOPIC, resource_name=TOPIC, configs=[config]
    )
    answer = stage.control.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    (result,) = cast(IncrementalAlterConfigsResponse, answer).responses
    if result.error_code:
        error = Error(result.error_code)
        stage.narrator.line(f"controller: {error.name} {result.error_message}")


class Scene(NamedTuple):
    """What a `given` says."""

    brokers: tuple[int, ...]
    replicas: tuple[int, ...]
    down: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    racks: Mapping[int, str | None]
    logs: Mapping[int, list[tuple[str, int]]]
    high_watermarks: Mapping[int, int]
    leader_epoch: int
    partition_epoch: int


@command(
    "given",
    "replicas=(A,B,…) [A=LOG …] [hw=N] [hw.A=N …] [isr=(A,…)] [leader=A] [leader-epoch=N] "
    "[partition-epoch=N] [brokers=(…)] [down=(…)] [rack.A=NAME …]",
)
def given(stage: Stage, arguments: Arguments) -> None:
    """A new scene: brokers with logs like "a/0 b/0" or "e0:[0..9]", and who leads."""
    scene = _read_scene(stage, arguments)
    stage.clear()
    records = _first_records(stage, scene)
    _add_nodes(stage, scene, records)
    _start(stage, scene)
    change = r.PartitionChange(0, TOPIC_ID, isr=scene.isr, leader=scene.leader)
    stage.control.write((*_topic_settings(stage), change))
    _leads_already(stage, scene.leader)
    for broker in stage.brokers.values():
        hosted = broker.hosted
        if hosted is not None:
            stage.ledger.on_committed(batches_of(hosted.log), hosted.replica.high_watermark)
    stage.control.listen()
    stage.narrator.take_lines()
    star = f"{stage.cast.name_of(scene.leader)}* leader-epoch={scene.leader_epoch}"
    stage.narrator.line(f"{star} isr={stage.cast.names_of(scene.isr)}")


def _read_scene(stage: Stage, arguments: Arguments) -> Scene:
    name_of = stage.cast.name_of
    replicas = _brokers(stage, arguments, "replicas", "()")
    if not replicas:
        raise ArgumentError("replicas= is missing")
    named = _brokers(stage, arguments, "brokers", stage.cast.names_of(replicas))
    brokers = tuple(dict.fromkeys((*named, *replicas)))
    down = _brokers(stage, arguments, "down", "()")
    leader = stage.cast.id_of(arguments.option("leader") or name_of(replicas[0]))
    live = stage.cast.names_of(broker for broker in replicas if broker not in down)
    isr = _brokers(stage, arguments, "isr", live)
    racks = {broker: arguments.option(f"rack.{name_of(broker)}") for broker in brokers}
    logs = {broker: parse_log(arguments.option(name_of(broker)) or "") for broker in brokers}
    latest = max((epoch for _, epoch in logs[leader]), default=0)
    epoch = arguments.number("leader-epoch", latest)
    return Scene(
        brokers,
        replicas,
        down,
        isr,
        leader,
        racks,
        logs,
        _high_watermarks(stage, arguments, logs),
        epoch,
        arguments.number("partition-epoch", epoch),
    )


def _brokers(stage: Stage, arguments: Arguments, name: str, default: str) -> tuple[int, ...]:
    value = arguments.option(name) or default
    return tuple(stage.cast.id_of(item) for item in list_of(name, value))


def _high_watermarks(
    stage: Stage, arguments: Arguments, logs: Mapping[int, list[tuple[str, int]]]
) -> dict[int, int]:
    everywhere = arguments.number("hw", 0)
    found: dict[int, int] = {}
    for broker, log in logs.items():
        name = stage.cast.name_of(broker)
        found[broker] = arguments.number(f"hw.{name}", min(everywhere, len(log)))
        if found[broker] > len(log):
            raise ArgumentError(f"hw.{name}={found[broker]} is beyond the log end {len(log)}")
    return found


def _first_records(stage: Stage, scene: Scene) -> tuple[list[r.MetadataRecord], int]:
    """Metadata before anybody has registered, and the offset at which it ends: the partition is
    placed and nobody leads it."""
    records: list[r.MetadataRecord] = [r.FeatureLevel(METADATA_VERSION_FEATURE, METADATA_VERSION)]
    if stage.initial.get("elr", "on") == "on":
        records.append(r.FeatureLevel(ELR_FEATURE, ELR_VERSION))
        records.append(r.Config(RESOURCE_BROKER, "", MIN_INSYNC_REPLICAS, "1"))
    end_offset = len(records)
    records += [r.FeatureLevel(name, level) for name, level in RELEASE_FEATURES]
    records.append(r.Topic(TOPIC, TOPIC_ID))
    records.append(
        r.Partition(
            0,
            TOPIC_ID,
            scene.replicas,
            (),
            leader_epoch=scene.leader_epoch - 1,
            partition_epoch=scene.partition_epoch - 1,
        )
    )
    return records, end_offset


def _topic_settings(stage: Stage) -> list[r.Config]:
    return [
        r.Config(RESOURCE_TOPIC, TOPIC, name, stage.initial[name])
        for name in TOPIC_SETTINGS
        if name in stage.initial
    ]


def _add_nodes(stage: Stage, scene: Scene, metadata: tuple[list[r.MetadataRecord], int]) -> None:
    voter = f"{CONTROLLER_NODE}@{':'.join(map(str, controller_address(CONTROLLER_NODE)))}"
    common = {"controller.quorum.voters": voter}
    host, port = controller_address(CONTROLLER_NODE)
    config = {"process.roles": "controller", "listeners": f"CONTROLLER://{host}:{port}"}
    controller = StoryServer(
        stage.kernel, stage.wires, node_config(CONTROLLER_NODE, {**common, **config})
    )
    write_metadata(controller, *metadata)
    stage.add_controller(controller)
    stage.partition_id = PartitionId(TOPIC_ID, 0)
    for broker in scene.brokers:
        host, port = broker_address(broker)
        settings = {
            **common,
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{host}:{port}",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            # What the gate keeps is not given up.
            "replica.socket.timeout.ms": NEVER,
            "controller.quorum.fetch.timeout.ms": NEVER,
        }
        rack = scene.racks[broker]
        if rack is not None:
            settings["broker.rack"] = rack
        server = StoryServer(stage.kernel, stage.wires, node_config(broker, settings))
        write_metadata(server, *metadata)
        if broker in scene.replicas:
            write_log(server, TOPIC_ID, scene.logs[broker], scene.high_watermarks[broker])
        stage.add_broker(server)


def _start(stage: Stage, scene: Scene) -> None:
    """The controller first; brokers one after the other, so that they register in order."""
    stage.control.start()
    started = stage.run_until(lambda: stage.control.active, START_LIMIT_MS)
    assert started, "the controller does not start"
    for broker in stage.brokers.values():
        if broker.id not in scene.down:
            broker.server.start()
            started = stage.run_until(partial(_answers, broker), START_LIMIT_MS)
            assert started, f"{broker.name} does not start"


def _answers(broker: StageBroker) -> bool:
    return broker.answers


def _leads_already(stage: Stage, leader: int) -> None:
    """The scene begins in the middle of a leader epoch, not with an election."""
    hosted = stage.brokers[leader].hosted
    if hosted is not None and hosted.leader is not None:
        hosted.leader.leader_epoch_start_offset = hosted.log.epochs.entries[-1][1]
